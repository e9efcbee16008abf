"""`ReplicatedTrainer`: `fit`, `evaluate` and `predict` that are right on any number of replicas."""

import inspect
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import PositiveInt, check

if keras.backend.backend() == "tensorflow":
    from keras_bert_impl.training.steps.tensorflow_step import TensorFlowStep as _Step
    from keras_bert_impl.training.steps.tensorflow_step import num_replicas
elif keras.backend.backend() == "jax":
    from keras_bert_impl.training.steps.jax_step import JaxStep as _Step
    from keras_bert_impl.training.steps.jax_step import num_replicas
else:
    from keras_bert_impl.training.steps.stock_step import StockStep as _Step
    from keras_bert_impl.training.steps.stock_step import num_replicas


class _StepOptions(NamedTuple):
    """What `compile` takes more than Keras's, for the step of a backend."""

    accumulation_steps: int
    dropout_seed: int
    objective: object
    remat: bool
    watch_steps: bool


class ReplicatedTrainer(_Step):
    """Mixin in front of `keras.Model`: the same weights from any number of devices.

    The loss of a step is a sum of shares. Each replica, and each micro-batch of a replica, computes
    its share of the loss of the whole global batch; the shares and their gradients are summed once,
    then clipped, then applied. So the result depends on the global batch alone, not on how it was
    cut: one device, MirroredStrategy, MultiWorkerMirroredStrategy, TPUStrategy, accumulation.

    By default the loss is Keras's: the mean over the examples of the global batch, with
    `add_loss`. A model whose loss is a mean over something else (masked tokens, say) overrides
    `loss_totals` to count it and `loss_share` to divide by the global count.

    `compile` takes more arguments than Keras's:
        accumulation_steps: int, default 1. The batch of each replica is cut into so many
            micro-batches, and the optimizer takes one step for all of them.
        dropout_seed: int, default 0. Dropout of a step is a function of (this seed,
            `optimizer.iterations`, micro-batch, replica), so that a resumed run repeats it.
        objective: what training minimizes in place of the model's own loss, which evaluation
            keeps: an object with `loss_totals` and `loss_share` as below, which may call the
            model again or another one, and `variables`, a list of what of it learns. Default
            None: the model's loss.
        remat: bool, default False. The activations inside each layer of an encoder are computed
            again in the backward pass, with the same dropout, in place of being kept.
        watch_steps: bool, default False. Logs of training hold `gradient_norm`, the mean over the
            epoch of the global norm before clipping, and `highest_loss`, that of the worst step;
            it is infinite where a loss or a gradient was not finite. `step_watch` has the rest.

    A model that computes in float16 gets a `keras.optimizers.LossScaleOptimizer` around its
    optimizer, if it has none.

    On the JAX backend the step is of the global batch, on all devices of `keras.distribution`; there
    are no objectives and no float16. On other backends Keras's own step is used, with the loss of
    the two hooks.

    Example:
        class Regressor(ReplicatedTrainer, keras.Model):
            pass

        inputs = keras.Input((4,))
        model = Regressor(inputs, keras.layers.Dense(1)(inputs))
        model.compile(optimizer=AdamW(1e-3), loss="mse", accumulation_steps=2)
        model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    """

    def compile(
        self,
        *args,
        accumulation_steps=1,
        dropout_seed=0,
        objective=None,
        remat=False,
        watch_steps=False,
        **kwargs,
    ):
        """Configures training as in Keras, with the arguments above."""
        accumulation_steps = check("accumulation_steps", accumulation_steps, PositiveInt)
        options = _StepOptions(accumulation_steps, dropout_seed, objective, remat, watch_steps)
        self._compile(options, *args, **kwargs)
        given = inspect.signature(keras.Model.compile).bind(self, *args, **kwargs).arguments
        del given["self"]
        # In a namespace, where Keras does not look for metrics of the model.
        self._compiled = SimpleNamespace(arguments=given | options._asdict(), lost=None)

    def compile_arguments(self) -> dict[str, Any]:
        """The arguments of `compile` that compile the model again as it is."""
        return self._compiled.arguments

    def get_compile_config(self) -> dict[str, Any]:
        """What a `.keras` file holds of `compile`; called by Keras.

        An objective has models and variables of its own, which the file does not hold.
        """
        if not self.compiled:
            return {}
        arguments = dict(self.compile_arguments())
        objective = arguments.pop("objective", None)
        lost = self._compiled.lost if objective is None else type(objective).__name__
        return keras.saving.serialize_keras_object(arguments) | {"lost_objective": lost}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model as it was when it was saved; called by Keras, which then reads the
        state of the optimizer."""
        config = dict(config)
        lost = config.pop("lost_objective", None)
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._compiled.lost = lost
        if self.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)

    def fit(self, *args, **kwargs):
        """Trains as in Keras.

        Raises:
            InputError: the model was loaded from a file that does not hold its objective.
        """
        self._check_objective()
        return super().fit(*args, **kwargs)

    def _check_objective(self):
        lost = self.compiled and self._compiled.lost
        if lost:
            raise InputError(
                f"the model was saved while it trained on {lost}, which a .keras file does not "
                f"hold: write compile(objective={lost}(...)) again."
            )

    def loss_totals(self, x, y, sample_weight):
        """What the loss divides by, counted over this replica's whole batch.

        Called before the forward pass; the counts are then summed over all replicas.

        Args:
            x, y, sample_weight: this replica's batch, as the data set gives it.

        Returns:
            A float32 scalar, or a dictionary or list of them. Default: the number of examples.
        """
        return num_examples(x)

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        """This micro-batch's share of the loss of the global batch.

        Args:
            x, y, sample_weight: the micro-batch.
            y_pred: what the model returned for it.
            totals: as from `loss_totals`, summed over all replicas.

        Returns:
            A float32 scalar. The shares of all micro-batches of all replicas add up to the loss.
        """
        # Keras divides its mean by the number of replicas, for its own sum over them.
        mean = keras.Model.compute_loss(self, x, y, y_pred, sample_weight) * num_replicas()
        return mean * num_examples(x) / totals

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss of a batch taken alone. To change the loss, override `loss_share`."""
        totals = self.loss_totals(x, y, sample_weight)
        return self.loss_share(x, y, y_pred, sample_weight, totals)


def num_examples(batch):
    """Number of rows of a batch (any nest of tensors `[batch, ...]`), a float32 scalar."""
    first = next(leaf for leaf in keras.tree.flatten(batch) if leaf is not None)
    return ops.cast(ops.shape(first)[0], "float32")
