"""Training objectives for knowledge distillation and R-Drop.

Pass an objective to `compile(objective=...)`; see `ReplicatedTrainer`. The objective replaces the
task's loss in training, but not in evaluation. An objective is a sum over texts or tokens, so that
the number of replicas and micro-batches does not change the sum.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_bert_impl.data.scores.counting import token_weights
from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.layers.losses import (
    binary_kl_divergence,
    check_layers,
    kl_divergence,
    layer_errors,
    mean_over_tokens,
    squared_error,
)
from keras_bert_impl.models.heads import linear_map
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.training.steps.trainer import num_examples
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.settings import NonNegativeFloat, PositiveFloat, Share, check

_DIVERGENCES = {
    SINGLE: kl_divergence,
    MULTI: binary_kl_divergence,
    REGRESSION: lambda targets, outputs, temperature: squared_error(targets, outputs),
}


class _WithLabelLoss:
    """Base class of objectives that include the task's loss."""

    variables = ()  # layers trained with the model
    read_variables: Sequence = ()  # the variables of the teacher, which are not trained
    _model: TaskModel

    def loss_totals(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """See `ReplicatedTrainer`."""
        return self._model.loss_totals(x, y, sample_weight)

    def _compute_divergence(self, targets, outputs, temperature=1.0):
        return _DIVERGENCES[_read_problem_type(self._model)](targets, outputs, temperature)

    def _compute_loss_share(self, losses, y, sample_weight, totals):
        """Returns the loss of a micro-batch, given losses `[batch]` or `[batch, length]`."""
        if self._model.has_token_labels:
            losses = losses * token_weights(y, sample_weight)
        elif sample_weight is not None:
            losses = losses * ops.cast(sample_weight, "float32")
        return ops.divide_no_nan(ops.sum(losses), totals)


class SoftTargets(_WithLabelLoss):
    """Knowledge distillation from a teacher's predictions, combined with the labels.

        teacher_weight * divergence + (1 - teacher_weight) * task loss

    For classification, the divergence is `kl_divergence` between the probabilities of teacher and
    student. In multi-label classification, the divergence is computed for each label. For
    regression, the divergence is the squared error. The teacher predicts without dropout.

    Args:
        student: `TextClassifier`, or `TokenClassifier` without a CRF.
        teacher: fine-tuned model with the same class, labels and tokenizer. With a distribution
            strategy, load both models in the strategy's scope.
        temperature: divisor of both models' logits; not used for regression.
        teacher_weight: from 0 to 1.

    Raises:
        InputError: student and teacher do not match, or an argument is out of range.

    Source: Hinton et al. 2015 (arXiv:1503.02531); with weight 1 and temperature 1, Jiao et al.
        2020, "TinyBERT", equation 10 (prediction-layer distillation).

    Example:
        from keras_bert_impl.tasks import SoftTargets
        teacher = load_tuned("teacher")
        student = TextClassifier.from_pretrained("small", labels=teacher.labels)
        student.compile(objective=SoftTargets(student, teacher))
        student.fit(texts, labels, epochs=3)
    """

    def __init__(
        self,
        student: TaskModel,
        teacher: TaskModel,
        temperature: float = 2.0,
        teacher_weight: float = 0.5,
    ):
        _check_pair(student, teacher)
        self._model, self._teacher = student, teacher
        self.read_variables = teacher.variables
        self._temperature = check("temperature", temperature, PositiveFloat)
        self._teacher_weight = check("teacher_weight", teacher_weight, Share)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        """See `ReplicatedTrainer`."""
        losses = self._compute_divergence(
            self._teacher(x, training=False), y_pred, self._temperature
        )
        soft = self._compute_loss_share(losses, y, sample_weight, totals)
        hard = self._model.loss_share(x, y, y_pred, sample_weight, totals)
        return self._teacher_weight * soft + (1 - self._teacher_weight) * hard


class IntermediateLayers:
    """Knowledge distillation from a teacher's embeddings, hidden states and attention scores.

    Layer m of the student's M layers learns from layer `m * L / M` of the teacher's L layers. The
    loss is a sum of mean squared errors: the error of the embeddings and, for each layer, the
    errors of the hidden states and of the attention scores before the softmax. Each error is
    averaged over the tokens of a text, without padding, and then over the texts of a batch. If the
    student has a smaller hidden size than the teacher, two trained linear layers project the
    student's embeddings and hidden states to the teacher's hidden size. Labels and sample weights
    are not used.

    Args:
        student, teacher: see `SoftTargets`; both must have the same number of attention heads.

    Raises:
        InputError: student and teacher do not match, or long texts are split into windows.

    Source: Jiao et al. 2020, "TinyBERT", section 3, equations 7 to 9.

    Example:
        from keras_bert_impl.tasks import IntermediateLayers, SoftTargets
        student.compile(metrics=[], objective=IntermediateLayers(student, teacher))
        student.fit(texts, labels, epochs=10)
        student.compile(objective=SoftTargets(student, teacher, 1.0, 1.0))
        student.fit(texts, labels, epochs=3)
    """

    def __init__(self, student: TaskModel, teacher: TaskModel):
        _check_pair(student, teacher)
        if student.long_texts.has_windows:
            raise InputError("IntermediateLayers does not support windows: change long_texts.")
        check_layers(student.config, teacher.config)
        self._student, self._teacher = (
            model.encoder.with_outputs("hidden_states", "attention_logits")
            for model in (student, teacher)
        )
        self.read_variables = teacher.variables
        self._maps = None
        if student.config.hidden_dim != teacher.config.hidden_dim:
            with student.distribute_strategy.scope():
                self._maps = [
                    linear_map(student.encoder, teacher.config.hidden_dim, name)
                    for name in ("embedding_map", "hidden_map")
                ]

    @property
    def variables(self) -> list:
        """Variables of the linear layers."""
        return [variable for layer in self._maps or () for variable in layer.variables]

    def loss_totals(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """See `ReplicatedTrainer`."""
        return num_examples(x)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        """See `ReplicatedTrainer`."""
        taught = self._teacher(x, training=False)
        learned = self._student(x, training=True)
        mask = x["padding_mask"]
        states, attention = layer_errors(taught, learned, mask, self._maps)
        return ops.sum(mean_over_tokens(states, mask) + attention) / totals


class RDrop(_WithLabelLoss):
    """R-Drop: penalizes the divergence of two forward passes with different dropout.

        loss of pass 1 + loss of pass 2 + alpha * (divergence 1 from 2 + divergence 2 from 1) / 2

    The divergence is computed as in `SoftTargets`, with temperature 1. A training step takes two
    forward and two backward passes.

    Args:
        model: `TextClassifier`, or `TokenClassifier` without a CRF.
        alpha: weight of the divergence, at least 0.

    Raises:
        InputError: the model is not supported, or `alpha` is negative.

    Source: Liang et al. 2021 (arXiv:2106.14448), section 2.2.

    Example:
        from keras_bert_impl.tasks import RDrop
        model.compile(objective=RDrop(model, alpha=1.0))
    """

    def __init__(self, model: TaskModel, alpha: float):
        _check_task(model, "R-Drop")
        self._model, self._alpha = model, check("alpha", alpha, NonNegativeFloat)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        """See `ReplicatedTrainer`."""
        again = self._model(x, training=True)
        losses = (
            self._compute_divergence(y_pred, again) + self._compute_divergence(again, y_pred)
        ) / 2
        label_loss = sum(
            self._model.loss_share(x, y, outputs, sample_weight, totals)
            for outputs in (y_pred, again)
        )
        return label_loss + self._alpha * self._compute_loss_share(losses, y, sample_weight, totals)


def _read_problem_type(model):
    return getattr(model, "problem_type", SINGLE)


def _check_task(model, method):
    if not model.has_class_logits or getattr(model, "crf", False):
        raise InputError(
            f"{method} supports only TextClassifier, and TokenClassifier without a CRF. Received: a "
            f"{type(model).__name__}"
        )


def _check_pair(student, teacher):
    _check_task(student, "distillation")
    if type(teacher) is not type(student):
        raise InputError(
            "teacher and student must have the same class. Received: a "
            f"{type(teacher).__name__} and a {type(student).__name__}"
        )
    _check_task(teacher, "distillation")
    if teacher.labels != student.labels:
        raise InputError(
            "teacher and student must have the same labels in the same order. Received: "
            f"{listed(teacher.labels)} for the teacher, {listed(student.labels)} for the student"
        )
    if _read_problem_type(teacher) != _read_problem_type(student):
        raise InputError(
            "teacher and student must have the same problem type. Received: "
            f"{_read_problem_type(teacher)} and {_read_problem_type(student)}"
        )
    if teacher.tokenizer.fingerprint != student.tokenizer.fingerprint:
        raise InputError(
            "teacher and student have different tokenizers. Use a teacher with the student's "
            "tokenizer."
        )
    if teacher.config.max_length < student.max_length:
        raise InputError(
            f"the teacher supports {teacher.config.max_length} tokens, fewer than the student's "
            f"max_length={student.max_length}."
        )
    if len({model.long_texts.has_windows for model in (teacher, student)}) > 1:
        raise InputError("teacher and student must both split long texts into windows, or neither.")
