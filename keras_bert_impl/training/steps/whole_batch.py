"""Losses that compare the examples of a batch with each other, on any number of devices.

In shapes, `batch` is the number of examples of one replica, and `global` the number of examples of
all replicas.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert_impl.utils.errors import InputError

_Mixin: Any = object  # The methods use attributes of `keras.Model`, which is a later base class.
_Step: Any
if keras.backend.backend() == "jax":
    import jax

    from keras_bert_impl.training.steps.jax_step import of_micro_batches, without_padding

    class _JaxStep(_Mixin):
        def train_step(self, state: tuple, data: Any) -> tuple[dict[str, Any], tuple]:
            if not self.compares_examples or self._accumulation_steps == 1:
                return super().train_step(state, data)
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(without_padding(data))
            y_pred = self._compute_training_outputs(state, x)
            return super().train_step(
                state, (x, self._prepare_second_pass(y, y_pred), sample_weight)
            )

        def _compute_training_outputs(self, state, x):
            """Computes the outputs of a batch, with the same dropout as in the second pass."""
            trainable, non_trainable, optimizer_values, _ = state
            seed = self._compute_step_seed(optimizer_values)

            def compute_outputs(rows, index):
                with self._open_training_scope(
                    trainable, non_trainable, jax.random.fold_in(seed, index)
                ):
                    return self._forward(rows, training=True)

            return of_micro_batches(compute_outputs, x, self._accumulation_steps)

        def _compute_output_gradients(self, y, y_pred):
            return jax.value_and_grad(lambda outputs: self.batch_loss(y, outputs))(y_pred)

    _Step = _JaxStep
else:
    import tensorflow as tf

    from keras_bert_impl.layers.basic import dropout_seed as dropout_seed_scope
    from keras_bert_impl.training.steps.tensorflow_parts import micro_batch, unpack
    from keras_bert_impl.training.steps.tensorflow_step import num_replicas

    class _TensorFlowStep(_Mixin):
        def train_step(self, data: Any) -> dict[str, tf.Tensor]:
            if not self.compares_examples or self._accumulation_steps * num_replicas() == 1:
                return super().train_step(data)
            x, y, sample_weight = unpack(data)
            compute = self._compute_training_outputs
            if self._compiles:  # Dropout must be the same as in the second pass, which is compiled.
                compute = tf.function(compute, jit_compile=True, autograph=False)
            y_pred = compute(x, self._compute_step_seed())
            return super().train_step((x, self._prepare_second_pass(y, y_pred), sample_weight))

        def test_step(self, data: Any) -> dict[str, tf.Tensor]:
            if not self.compares_examples or num_replicas() == 1:
                return super().test_step(data)
            x, y, sample_weight = unpack(data)
            y_pred = self._forward(x, training=False)
            return super().test_step((x, self._prepare_second_pass(y, y_pred), sample_weight))

        def _compute_training_outputs(self, x, seed):
            """Computes the outputs of a batch, with the same dropout as in the second pass."""
            count = self._accumulation_steps

            def compute_outputs(index):
                rows = micro_batch(x, index, count, exact=self._compiles)
                with dropout_seed_scope(tf.random.experimental.stateless_fold_in(seed, index)):
                    return self._forward(rows, training=True)

            if count == 1:
                return compute_outputs(tf.constant(0))
            shape = [None, *self.output_shape[1:]]
            parts = tf.TensorArray(tf.float32, count, element_shape=shape, infer_shape=False)
            _, parts = tf.while_loop(
                lambda index, _: index < count,
                lambda index, parts: (index + 1, parts.write(index, compute_outputs(index))),
                (tf.constant(0), parts),
                parallel_iterations=1,
            )
            return parts.concat()

        def _compute_output_gradients(self, y, y_pred):
            with tf.GradientTape() as tape:
                tape.watch(y_pred)
                # Each replica computes the whole loss. The gradient of the gather operation is a
                # sum over replicas.
                loss = self.batch_loss(_gather(y), _gather(y_pred))
                share = loss / num_replicas()
            return loss, tape.gradient(share, y_pred)

    def _gather(tensor):
        if tensor is None or num_replicas() == 1:
            return tensor
        return tf.distribute.get_replica_context().all_gather(tensor, axis=0)

    _Step = _TensorFlowStep


class WholeBatchTrainer(_Step):
    """Mixin for a `ReplicatedTrainer` with a loss that is a function of the global batch.

    In the list of base classes, `WholeBatchTrainer` must precede `ReplicatedTrainer`.

    If the batch is split over replicas or micro-batches, a step has two passes. The first pass
    computes the outputs of the whole batch, the loss, and the gradient of the loss with respect to
    the outputs. The second pass has the same dropout and propagates the gradient from the outputs
    to the weights, one micro-batch after the other. A step needs one additional forward pass, and
    gives the same weights as a step on one device.

    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
    Setup", section 3.
    """

    @property
    def compares_examples(self) -> bool:
        """If True, the loss is `batch_loss`. If False, `loss_totals` and `loss_share` are used."""
        return True

    def batch_loss(self, y: Any, y_pred: Any) -> Any:
        """Returns the loss of the global batch, a float32 scalar.

        Args:
            y: labels `[global, ...]`, or None if the dataset has none.
            y_pred: the network's outputs, float32 `[global, ...]`.
        """
        raise NotImplementedError

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        if not self.compares_examples:
            return super().loss_share(x, y, y_pred, sample_weight, totals)
        if sample_weight is not None:
            raise InputError("sample_weight has no meaning in a loss that compares examples.")
        if not isinstance(y, _Linearized):
            return self.batch_loss(y, y_pred)
        linear = ops.sum(y_pred * y.gradients)
        return ops.sum(y.losses) / totals + linear - ops.stop_gradient(linear)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        y = y.labels if isinstance(y, _Linearized) else y
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _prepare_second_pass(self, y, y_pred):
        """Returns `y` for the second pass: the labels, the loss and the gradients of the loss."""
        loss, gradients = self._compute_output_gradients(y, y_pred)
        return _Linearized(y, ops.broadcast_to(loss, ops.shape(y_pred)[:1]), gradients)


class _Linearized(NamedTuple):
    """The labels in the second pass, with the results of the first pass.

    Attributes:
        labels: `[batch, ...]`, or None.
        losses: float32 `[batch]`, the loss of the global batch, repeated for each example.
        gradients: float32 `[batch, ...]`, the gradient of the loss with respect to the outputs.
    """

    labels: Any
    losses: Any
    gradients: Any
