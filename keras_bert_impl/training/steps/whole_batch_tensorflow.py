"""The step of a `WholeBatchTrainer` on TensorFlow, under any `tf.distribute` strategy.

Shape legend: see `whole_batch`.
"""

from typing import Any

import tensorflow as tf

from keras_bert_impl.layers.basic import dropout_seed as dropout_seed_scope
from keras_bert_impl.training.steps.micro_batches import micro_batch, unpack
from keras_bert_impl.training.steps.tensorflow_step import num_replicas

_Mixin: Any = object  # the methods use attributes of the `keras.Model` that follows in the bases


class WholeBatchStep(_Mixin):
    """Mixin: two passes if the batch is split; see `WholeBatchTrainer`."""

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        if not self.compares_examples or self._accumulation_steps * num_replicas() == 1:
            return super().train_step(data)
        x, y, sample_weight = unpack(data)
        compute = self._training_outputs
        if self._compiles:  # like the second pass; otherwise dropout would differ
            compute = tf.function(compute, jit_compile=True, autograph=False)
        y_pred = compute(x, self._step_seed())
        return super().train_step((x, self._linearized(y, y_pred), sample_weight))

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        if not self.compares_examples or num_replicas() == 1:
            return super().test_step(data)
        x, y, sample_weight = unpack(data)
        y_pred = self._forward(x, training=False)
        return super().test_step((x, self._linearized(y, y_pred), sample_weight))

    def _training_outputs(self, x, seed):
        """Computes the outputs of this replica's batch, with the dropout of its micro-batches."""
        count = self._accumulation_steps

        def outputs_of(index):
            rows = micro_batch(x, index, count, exact=self._compiles)
            with dropout_seed_scope(tf.random.experimental.stateless_fold_in(seed, index)):
                return self._forward(rows, training=True)

        if count == 1:
            return outputs_of(tf.constant(0))
        shape = [None, *self.output_shape[1:]]
        parts = tf.TensorArray(tf.float32, count, element_shape=shape, infer_shape=False)
        _, parts = tf.while_loop(
            lambda index, _: index < count,
            lambda index, parts: (index + 1, parts.write(index, outputs_of(index))),
            (tf.constant(0), parts),
            parallel_iterations=1,
        )
        return parts.concat()

    def _loss_and_gradients_of(self, y, y_pred):
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            # Each replica computes the whole loss; the gradient of gathering sums over replicas.
            loss = self.batch_loss(_gather(y), _gather(y_pred))
            share = loss / num_replicas()
        return loss, tape.gradient(share, y_pred)


def _gather(tensor):
    if tensor is None or num_replicas() == 1:
        return tensor
    return tf.distribute.get_replica_context().all_gather(tensor, axis=0)
