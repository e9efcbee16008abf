"""`TaskCompile`: `compile` of a task model, with the losses, metrics and optimizer of its task."""

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
    """Mixin in front of `ReplicatedTrainer`: `compile` with the defaults of a task.

    A class that uses it says what is learned: `outputs_are`, `default_loss`, `default_metrics`,
    `named_metrics`, `scores`.
    """

    default_learning_rate = 3e-5
    default_rates = ()  # factors of it for some weights, see `AdamW`
    outputs_are = Outputs()  # what the logits stand for, for losses and metrics of Keras
    _given = SimpleNamespace(arguments={})  # to `compile`

    # === What a subclass says ===

    def default_loss(self):
        """The loss where `compile` is given none."""
        raise NotImplementedError

    def default_metrics(self):
        """List of metrics where `compile` is given none."""
        raise NotImplementedError

    def named_metrics(self):
        """dict of the task's scores that `compile(metrics=...)` takes by name: name -> function
        that makes the metric."""
        return {}

    def scores(self, outputs):
        """What `predict` returns of the network's outputs."""
        return outputs

    def class_factors(self, class_weight, labels):
        """The factor of each class in the loss, in the order of the network's outputs.

        Args:
            class_weight: as `class_weights.class_weights` takes it.
            labels: what `encode_labels` returned; None where labels come in batches.

        Returns:
            list of float.

        Raises:
            InputError: labels of this model are not of classes.
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
        """Configures training as in Keras, with defaults of the task; `fit` calls it if you do not.

        The network returns logits. A loss or a metric of Keras, by name or as an object, is given
        what it expects: the probabilities that `predict` returns, or the logits where it has
        `from_logits=True`; class numbers or one-hot rows, whichever the labels are. A function or
        class of your own is given the labels and the probabilities. Of two classes metrics such
        as `AUC`, `Precision` and `Recall` count the second one, as scikit-learn does.

        Args:
            optimizer: default: AdamW over the steps of each `fit`, with 10 % warm-up, linear decay
                to 0 and clipping by a global norm of 1.0. Each `fit` starts it anew.
            loss: default: the cross-entropy of the task; of a regression the squared error.
            metrics: list. Default: accuracy; of a regression the absolute error; `[]` for none.
                Beside Keras's the task's own scores by name, such as `"macro_f1"`, `"matthews"`,
                `"entity_f1"` or `"exact_match"`.
            weighted_metrics: list, as in Keras.
            learning_rate: float. The highest of the default optimizer. Default 3e-5, or what the
                kind of adapter learns with.
            seed: int. Decides the order of the texts and the units that dropout drops.
            **kwargs: arguments of `ReplicatedTrainer.compile` and `keras.Model.compile`:
                `accumulation_steps`, `objective`, `steps_per_execution`, `jit_compile`, ...

        Raises:
            InputError: a loss or metric that cannot be computed for the task; the message has the
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
        # In a namespace, where Keras does not look for metrics of the model.
        variables = [id(variable) for variable in self.trainable_variables]
        self._given = SimpleNamespace(arguments=given, variables=variables)

    def _task_metrics(self, metrics):
        """The metrics of a list as a user gives it, of the network's outputs."""
        named = self.named_metrics()
        return [self._task_metric(metric, named) for metric in as_list(metrics)]

    def _task_metric(self, metric, named):
        if isinstance(metric, ScoreMetric):
            return metric
        if isinstance(metric, str) and metric in named:
            return named[metric]()
        if isinstance(metric, str) and metric in SCORES:
            raise InputError(
                f"{metric!r} is not a score of this model; it has {listed(named) or 'none by name'}."
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
        """Starts the default optimizer anew, with a learning rate over all steps of `epochs`."""
        if not self._uses_default_optimizer or epochs < 1:
            return
        if steps < 1:
            raise InputError(
                "the length of the data set is unknown, and the default learning rate depends on "
                "it; give steps_per_epoch, or compile with an optimizer."
            )
        if self._given.variables != [id(variable) for variable in self.trainable_variables]:
            self.compile(**self._given.arguments)  # layers were frozen or unfrozen since
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
    """Raises an `InputError` on another backend of Keras than TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "tasks need the TensorFlow backend of Keras (KERAS_BACKEND=tensorflow). The encoder "
            "and its pre-training also run on JAX."
        )
