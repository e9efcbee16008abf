"""The step of a `WholeBatchTrainer` on JAX, where it is one program for the global batch."""

from typing import Any

import jax
import keras

from keras_bert_impl.training.steps.jax_micro_batches import of_micro_batches
from keras_bert_impl.training.steps.uneven_batches import without_padding

_Mixin: Any = object  # the methods use attributes of the `keras.Model` that follows in the bases


class WholeBatchStep(_Mixin):
    """Mixin: two passes if the batch is split into micro-batches; see `WholeBatchTrainer`."""

    def train_step(self, state: tuple, data: Any) -> tuple[dict[str, Any], tuple]:
        if not self.compares_examples or self._accumulation_steps == 1:
            return super().train_step(state, data)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(without_padding(data))
        y_pred = self._training_outputs(state, x)
        return super().train_step(state, (x, self._linearized(y, y_pred), sample_weight))

    def _training_outputs(self, state, x):
        """Computes the outputs of the batch, with the dropout of its micro-batches."""
        trainable, others, of_optimizer, _ = state
        seed = self._step_seed(of_optimizer)

        def outputs_of(rows, index):
            with self._training_scope(trainable, others, jax.random.fold_in(seed, index)):
                return self._forward(rows, training=True)

        return of_micro_batches(outputs_of, x, self._accumulation_steps)

    def _loss_and_gradients_of(self, y, y_pred):
        return jax.value_and_grad(lambda outputs: self.batch_loss(y, outputs))(y_pred)
