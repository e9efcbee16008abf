"""`TaskCompile`: `compile` with the losses, metrics and optimizer of a task."""

from types import SimpleNamespace
from typing import Annotated

import keras

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.settings import NonNegativeFloat, Range, check
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskLoss, TaskMetric, as_list
from keras_bert_impl.tasks.base.score_metrics import SCORES, ScoreMetric
from keras_bert_impl.training.optimizers.adamw import default_optimizer
from keras_bert_impl.training.optimizers.run_schedule import restart

_Int64 = Annotated[int, Range(least=-(2**63), most=2**63 - 1)]


class TaskCompile:
    """Mixin before `ReplicatedTrainer`: `compile` with the defaults of a task.

    Subclasses define the training objective: `outputs_are`, `default_loss`, `default_metrics`,
    `named_metrics`, `scores`.
    """

    default_learning_rate = 3e-5
    default_rates = ()  # factors of the learning rate for some weights, see `AdamW`
    outputs_are = Outputs()  # meaning of the logits, for Keras losses and metrics
    _given = SimpleNamespace(arguments={})  # arguments of `compile`

    # === For subclasses ===

    def default_loss(self):
        """Returns the loss used when `compile` is given none."""
        raise NotImplementedError

    def default_metrics(self):
        """Returns the list of metrics used when `compile` is given none."""
        raise NotImplementedError

    def named_metrics(self):
        """Returns the task's scores that `compile(metrics=...)` accepts by name: dict of name ->
        function that creates the metric."""
        return {}

    def scores(self, outputs):
        """Converts the network's outputs to the values that `predict` returns."""
        return outputs

    def class_factors(self, class_weight, labels):
        """Computes the factor of each class in the loss, in the order of the network's outputs.

        Args:
            class_weight: see `class_weights.class_weights`.
            labels: return value of `encode_labels`; None if labels come in batches.

        Returns:
            list of float.

        Raises:
            InputError: the labels of this model are not classes.
        """
        raise InputError(
            "class_weight is for labels that are classes, which those of a "
            f"{type(self).__name__} are not; give sample_weight, a number for each example."
        )

    # === Keras ===

    @known_arguments("TaskModel.compile")
    def compile(
        self,
        optimizer=None,
        loss=None,
        metrics=None,
        weighted_metrics=None,
        learning_rate=None,
        seed=0,
        **kwargs,
    ):
        """Configures training as in Keras, with the task's defaults; `fit` calls it if needed.

        The network returns logits. A Keras loss or metric, by name or as an object, receives the
        form it expects: the probabilities that `predict` returns, or the logits if it has
        `from_logits=True`; class indices or one-hot rows, whichever form the labels have. A
        user-defined function or class receives the labels and the probabilities. For two classes,
        metrics such as `AUC`, `Precision` and `Recall` count the second one as positive, as
        scikit-learn does.

        Args:
            optimizer: default: AdamW over the steps of each `fit`, with 10 % warm-up, linear decay
                to 0 and clipping to a global gradient norm of 1.0. Each `fit` restarts it.
            loss: default: the task's cross-entropy; squared error for regression.
            metrics: list. Default: accuracy; absolute error for regression; `[]` for none. Besides
                Keras metrics, accepts the task's own scores by name, such as `"macro_f1"`,
                `"matthews"`, `"entity_f1"` or `"exact_match"`.
            weighted_metrics: list, as in Keras.
            learning_rate: float. Peak learning rate of the default optimizer. Default 3e-5, or the
                default for the kind of adapter.
            seed: int. Determines the order of the texts and the dropout masks.
            **kwargs: arguments of `ReplicatedTrainer.compile` and `keras.Model.compile`:
                `accumulation_steps`, `objective`, `steps_per_execution`, `jit_compile`, ...

        Raises:
            InputError: a loss or metric cannot be computed for the task; the message gives the
                line to write.
        """
        check_backend()
        given = {
            "optimizer": optimizer,
            "loss": loss,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "learning_rate": learning_rate,
            "seed": seed,
            **kwargs,
        }
        if optimizer is not None and learning_rate is not None:
            raise InputError("give an optimizer, or the learning_rate of the default one.")
        if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            raise InputError(
                "learning_rate is a number, the highest of the default schedule: write "
                "compile(optimizer=AdamW(schedule)) for another one."
            )
        check("learning_rate", learning_rate, NonNegativeFloat | None)
        check("seed", seed, _Int64)
        _check_optimizer(optimizer)
        with self.distribute_strategy.scope():
            super().compile(
                self._default_optimizer(learning_rate) if optimizer is None else optimizer,
                loss=self.default_loss() if loss is None else TaskLoss(loss, self.outputs_are),
                metrics=self.default_metrics() if metrics is None else self._task_metrics(metrics),
                weighted_metrics=self._task_metrics(weighted_metrics),
                dropout_seed=seed,
                **kwargs,
            )
        # In a namespace, so that Keras does not find the metrics in it.
        variables = [id(variable) for variable in self.trainable_variables]
        self._given = SimpleNamespace(arguments=given, variables=variables)

    def _task_metrics(self, metrics):
        """Converts a user's list of metrics to metrics of the network's outputs."""
        named = self.named_metrics()
        return [self._task_metric(metric, named) for metric in as_list(metrics)]

    def _task_metric(self, metric, named):
        if isinstance(metric, ScoreMetric):
            return metric
        if isinstance(metric, str) and metric in named:
            return named[metric]()
        if isinstance(metric, str) and metric in SCORES:
            raise InputError(
                f"{metric!r} is not a score of this model; it has "
                f"{listed(named) or 'none by name'}."
            )
        return TaskMetric(metric, self.outputs_are)

    def compile_arguments(self):
        return self._given.arguments

    def _compile_if_needed(self):
        if not self.compiled:
            self.compile()

    @property
    def _uses_default_optimizer(self):
        return self._given.arguments.get("optimizer") is None

    def _default_optimizer(self, learning_rate=None):
        rate = self.default_learning_rate if learning_rate is None else learning_rate
        return default_optimizer(None, rate, rates=self.default_rates)

    def _begin_run(self, steps, epochs):
        """Restarts the default optimizer with a learning rate over all steps of `epochs`."""
        if not self._uses_default_optimizer or epochs < 1:
            return
        if steps < 1:
            raise InputError(
                "the length of the data set is unknown, and the default learning rate depends on "
                "it; give steps_per_epoch, or compile with an optimizer."
            )
        if self._given.variables != [id(variable) for variable in self.trainable_variables]:
            self.compile(**self._given.arguments)  # layers were frozen or unfrozen in between
        restart(self.optimizer, steps * epochs)


def _check_optimizer(optimizer):
    if optimizer is None:
        return
    try:
        keras.optimizers.get(optimizer)
    except (TypeError, ValueError) as error:
        line = "compile(optimizer='adam')"
        if isinstance(optimizer, type):
            line = f"compile(optimizer={optimizer.__name__}(3e-5))"
        elif isinstance(optimizer, float):
            line = f"compile(learning_rate={optimizer})"
        raise InputError(
            "optimizer must be a name or an object of keras.optimizers. Received: "
            f"{getattr(optimizer, '__name__', None) or repr(optimizer):.60}; write {line}."
        ) from error


def check_backend():
    """Raises `InputError` if the Keras backend is not TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "tasks need the TensorFlow backend of Keras (KERAS_BACKEND=tensorflow). The encoder "
            "and its pre-training also run on JAX."
        )
