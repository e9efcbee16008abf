"""`ReplicatedTrainer`: training and evaluation with the same results on any number of replicas."""

import contextlib
import inspect
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import keras
from keras import ops

from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.internals import (
    compiled_loss,
    compute_loss,
    results_or_logs,
    variables_of,
)
from keras_bert_impl.utils.settings import OneOf, PositiveInt, check

# For type checks, the base class is `keras.Model`, because the mixins use its attributes.
_Step: Any
if keras.backend.backend() == "tensorflow":
    from keras_bert_impl.training.steps.tensorflow_step import TensorFlowStep, num_replicas

    _Step = TensorFlowStep
elif keras.backend.backend() == "jax":
    from keras_bert_impl.training.steps.jax_step import JaxStep, num_replicas

    _Step = JaxStep
else:

    def num_replicas() -> int:
        return 1  # Under `keras.distribution`, the input of a step is the global batch.

    class _StockStep:
        """Accepts the `compile` arguments that are available on TensorFlow."""

        step_watch = None

        def _compile(self, options, *args, **kwargs):
            for name in ("objective", "remat"):
                if getattr(options, name):
                    raise InputError(f"{name}=... needs the TensorFlow backend.")
            if options.accumulation_steps != 1:
                raise InputError(
                    "accumulation_steps needs the TensorFlow backend. On this backend, create "
                    f"the optimizer with gradient_accumulation_steps={options.accumulation_steps}."
                )
            super().compile(*args, **kwargs)

        @contextlib.contextmanager
        def _prepare_fit(self, arguments):
            yield arguments

    _Step = _StockStep


_KERAS_ARGUMENTS: dict[str, Any] = {
    "steps_per_execution": PositiveInt,
    "run_eagerly": bool,
    "jit_compile": bool | Annotated[str, OneOf("auto")] | None,
    "auto_scale_loss": bool,
}


class _StepOptions(NamedTuple):
    """Arguments that `ReplicatedTrainer` adds to `compile`."""

    accumulation_steps: int
    dropout_seed: int
    objective: object
    remat: bool
    watch_steps: bool


@keras.saving.register_keras_serializable("keras_bert_impl")
class OwnModel:
    """Dict of `compile` arguments that only a `ReplicatedTrainer` accepts."""

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "OwnModel":
        raise InputError(
            "clone_model creates a plain functional model, which does not accept these compile "
            "arguments. Use copy.deepcopy(model), or clone before compile()."
        )


@results_or_logs
class ReplicatedTrainer(_Step):
    """Mixin for `keras.Model`: training gives the same weights on any number of devices.

    In the list of base classes, `ReplicatedTrainer` must precede `keras.Model`.

    The loss of the global batch is summed over all micro-batches of all replicas. The optimizer
    clips and applies the sum of the gradients. A global batch therefore gives the same update on
    one device, with every strategy and with gradient accumulation.

    By default, the loss is the mean over the batch, as in Keras. For a mean over other units, such
    as masked tokens, override two methods: `loss_totals` returns the number of units in a batch,
    and `loss_share` divides by the number of units in the global batch. Losses added by layers
    (regularizers and `add_loss`) are always included.

    Additional arguments of `compile`:
        accumulation_steps: int, default 1. Number of micro-batches into which each replica's batch
            is split; the optimizer takes one step for all of them.
        dropout_seed: int, default 0. The dropout of a step depends only on this seed,
            `optimizer.iterations`, the micro-batch and the replica. A resumed run therefore has the
            same dropout as an uninterrupted run.
        objective: object or None, default None. Training minimizes the loss of the objective;
            evaluation uses the loss of the model. An objective has the methods `loss_totals` and
            `loss_share`, as below, and the list `variables` of its trainable variables. The two
            methods may also call other models, such as a teacher.
        remat: bool, default False. Whether to recompute the activations inside each encoder layer
            in the backward pass, with the same dropout, instead of storing them.
        watch_steps: bool, default False. Whether training logs include `gradient_norm` and
            `highest_loss`. `gradient_norm` is the mean global norm before clipping. `highest_loss`
            is the highest loss of a step, or infinity if a loss or gradient was not finite.
            `step_watch` contains more statistics.

    A model that computes in float16 gets a `keras.optimizers.LossScaleOptimizer` around its
    optimizer, unless it already has one.

    On the JAX backend, a step processes the global batch on all devices of `keras.distribution`;
    float16 is not supported. On JAX, an objective may also have a list `read_variables` of
    variables that it only reads, such as a teacher's. Other backends use Keras's step with the loss
    from `loss_totals` and `loss_share`.

    Example:
        from keras_bert_impl.training import ReplicatedTrainer
        class Regressor(ReplicatedTrainer, keras.Model):
            pass

        inputs = keras.Input((4,))
        model = Regressor(inputs, keras.layers.Dense(1)(inputs))
        model.compile(optimizer=AdamW(1e-3), loss="mse", accumulation_steps=2)
        model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    """

    _compiled = SimpleNamespace(arguments={}, lost=None, logged=set())
    batches_done = 0  # finished batches in the first epoch of a resumed run
    _objective: Any = None

    def compile(
        self,
        *args: Any,
        accumulation_steps: int = 1,
        dropout_seed: int = 0,
        objective: Any = None,
        remat: bool = False,
        watch_steps: bool = False,
        **kwargs: Any,
    ) -> None:
        """Configures training as in Keras, with the additional arguments above."""
        accumulation_steps = check("accumulation_steps", accumulation_steps, PositiveInt)
        for name, kind in _KERAS_ARGUMENTS.items():
            if name in kwargs:
                kwargs[name] = check(name, kwargs[name], kind)
        self._check_own_loss(accumulation_steps, objective)
        options = _StepOptions(accumulation_steps, dropout_seed, objective, remat, watch_steps)
        self._compile(options, *args, **kwargs)
        self._check_optimizer()
        arguments = inspect.signature(keras.Model.compile).bind(self, *args, **kwargs).arguments
        del arguments["self"]
        # A namespace hides the metrics from Keras.
        self._compiled = SimpleNamespace(
            arguments=arguments | options._asdict(), lost=None, logged=set()
        )
        self.note_trained_variables()

    def compile_arguments(self) -> dict[str, Any]:
        """Returns the arguments with which the model was compiled, to compile it again."""
        return self._compiled.arguments

    @property
    def variables(self) -> list[keras.Variable]:
        """Variables of the model and of the objective that are trained and saved."""
        variables = super().variables
        return variables if self._objective is None else [*variables, *self._objective.variables]

    @property
    def trains_other_variables(self) -> bool:
        """Whether layers were frozen or unfrozen since the last `note_trained_variables()`."""
        return self._compiled.variables != [id(variable) for variable in self.trainable_variables]

    def note_trained_variables(self) -> None:
        """Stores which variables are trainable, for `trains_other_variables`."""
        self._compiled.variables = [id(variable) for variable in self.trainable_variables]

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the `compile` arguments to save in a `.keras` file; Keras calls this.

        The objective is not saved, because it has separate models and variables.
        """
        if not self.compiled:
            return {}
        arguments = dict(self.compile_arguments())
        objective = arguments.pop("objective", None)
        lost = self._compiled.lost if objective is None else type(objective).__name__
        additions = {"lost_objective": lost, "only_for": OwnModel()}
        return keras.saving.serialize_keras_object(arguments | additions)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model with the saved arguments.

        Keras calls this method when it loads a `.keras` file, before it loads the optimizer state.
        """
        config = dict(config)
        lost = config.pop("lost_objective", None)
        config.pop("only_for", None)
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._compiled.lost = lost
        self._build_optimizer()

    def load_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Loads weights as in Keras, and the optimizer state of a compiled model."""
        self._build_optimizer()
        super().load_weights(filepath, *args, **kwargs)

    def _build_optimizer(self):
        # Keras skips the saved state of an optimizer that is not built.
        if self.compiled and self.built and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains as in Keras.

        Raises:
            InputError: the model was loaded from a file and had an objective, which is not saved.
        """
        with self._prepare_fit({"x": x, **kwargs}) as arguments:
            return super().fit(arguments.pop("x"), *args, **arguments)

    @contextlib.contextmanager
    def _prepare_fit(self, arguments):
        self._check_objective()
        self._check_optimizer()
        with super()._prepare_fit(arguments) as arguments:
            yield arguments

    def _check_optimizer(self):
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if optimizer is None or not optimizer.built:
            return
        optimizer_ids = {id(variable) for variable in variables_of(optimizer)}
        unknown = [v.path for v in self.trainable_variables if id(v) not in optimizer_ids]
        if unknown:
            raise InputError(
                f"the optimizer was built without {len(unknown)} of the trainable weights, such as "
                f"{unknown[0]}. Pass a new optimizer: compile("
                f"optimizer={type(optimizer).__name__}(...))."
            )

    def _check_objective(self):
        lost = self.compiled and self._compiled.lost
        if lost:
            raise InputError(
                f"the model was saved with the objective {lost}, which a .keras file does not "
                f"contain: call compile(objective={lost}(...)) again."
            )

    def loss_totals(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """Returns the denominator of the loss for the whole batch of this replica.

        `fit` calls this method before the forward pass, and sums the results over all replicas.

        Args:
            x, y, sample_weight: this replica's batch from the dataset.

        Returns:
            float32 scalar, or a dict or list of scalars. Default: the number of examples.
        """
        return num_examples(x, y)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        """Returns this micro-batch's contribution to the loss of the global batch.

        Args:
            x, y, sample_weight: the micro-batch.
            y_pred: the output of the model.
            totals: result of `loss_totals`, summed over all replicas.

        Returns:
            float32 scalar, without losses added by layers. The loss is the sum over all
            micro-batches and replicas.
        """
        # Keras divides the mean by the number of replicas, because it sums over replicas later.
        mean = ops.cast(compiled_loss(self, y, y_pred, sample_weight), "float32") * num_replicas()
        return mean * num_examples(x, y) / totals

    def scores(self, outputs: Any) -> Any:
        """Converts the network's outputs to the values that `predict` returns."""
        return outputs

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the loss of a single batch.

        As in Keras, a subclass may override this method. If the model is trained on several
        replicas, with gradient accumulation or with an objective, override `loss_share` instead.
        """
        if x is None and y is None:
            x = y_pred  # Layers add all losses.
        totals = self.loss_totals(x, y, sample_weight)
        share = self.loss_share(x, y, y_pred, sample_weight, totals)
        examples = num_examples(x, y)
        return self._add_layer_losses(share, examples, examples)

    # === For the steps of the backends ===

    @property
    def _has_own_loss(self):
        return type(self).compute_loss is not ReplicatedTrainer.compute_loss

    def _check_own_loss(self, accumulation_steps, objective):
        strategy = getattr(self, "distribute_strategy", None)
        replicas = getattr(strategy, "num_replicas_in_sync", 1)
        if self._has_own_loss and (accumulation_steps * replicas > 1 or objective is not None):
            raise InputError(
                f"{type(self).__name__} overrides compute_loss, which does not support several "
                "replicas, accumulation_steps or an objective. Override loss_share(x, y, "
                "y_pred, sample_weight, totals) instead."
            )

    def _choose_loss_owner(self):
        # This is not a property, because Keras follows properties when it saves and would visit the
        # model again.
        return self if self._objective is None else self._objective

    def _compute_totals(self, x, y, sample_weight, training):
        """Returns the loss totals and the number of examples of this replica."""
        owner = self._choose_loss_owner() if training else self
        return owner.loss_totals(x, y, sample_weight), num_examples(x, y)

    def _compute_loss_share(self, x, y, y_pred, sample_weight, totals, training):
        """Returns a micro-batch's contribution to the loss of the global batch."""
        if self._has_own_loss:
            return compute_loss(self, x, y, y_pred, sample_weight, training)
        owner = self._choose_loss_owner() if training else self
        totals, examples = totals
        share = owner.loss_share(x, y, y_pred, sample_weight, totals)
        return self._add_layer_losses(share, num_examples(x, y), examples)

    def _add_layer_losses(self, share, micro_examples, examples):
        for loss in self.losses:
            share += ops.cast(ops.sum(loss), "float32") * micro_examples / examples
        return share

    def _update_metrics(self, x, y, y_pred, sample_weight):
        self._note_logs(self.compute_metrics(x, y, y_pred, sample_weight))

    def _note_logs(self, logs):
        for name, value in (logs if isinstance(logs, dict) else {}).items():
            self._compiled.logged.update(value if isinstance(value, dict) else [name])

    def _check_logs(self, logs):
        """Returns `logs`.

        Raises an error if `logs` do not contain every value that a step returned.
        """
        missing = self._compiled.logged - {*logs, "loss"}
        if missing:
            raise InputError(
                f"{type(self).__name__} returns {listed(missing)} from train_step, test_step or "
                "compute_metrics, but logs are the results of metrics: create a keras.metrics."
                "Metric of this name in __init__ and update it there."
            )
        return logs


def num_examples(*parts: Any) -> Any:
    """Returns the number of examples in a batch, a float32 scalar.

    Args:
        *parts: nested structures of tensors `[batch, ...]`. Some may be None, but not all.
    """
    leaves = [leaf for leaf in keras.tree.flatten(parts) if leaf is not None]
    if not leaves:
        raise InputError("the loss of a batch needs x, y or y_pred. Received: None for each.")
    return ops.cast(ops.shape(leaves[0])[0], "float32")
