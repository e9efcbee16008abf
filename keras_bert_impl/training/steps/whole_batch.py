"""Losses that compare the examples of a batch with each other, on any number of devices.

Shape legend: batch = examples of one replica; rows = examples of one micro-batch; global = examples
of all replicas.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_bert_impl.io.errors import InputError

_Step: Any
if keras.backend.backend() == "jax":
    from keras_bert_impl.training.steps.whole_batch_jax import WholeBatchStep

    _Step = WholeBatchStep
else:
    from keras_bert_impl.training.steps.whole_batch_tensorflow import WholeBatchStep

    _Step = WholeBatchStep


class WholeBatchTrainer(_Step):
    """Mixin for `ReplicatedTrainer` whose loss is a function of the global batch.

    List it before `ReplicatedTrainer` in the bases.

    If the batch is split over replicas or micro-batches, no part can compute the loss alone. A step
    then computes the outputs of all parts, gathers them, and computes the loss and its gradient
    with respect to the outputs once. A second pass, with the same dropout, propagates this gradient
    to the weights, one part at a time as usual. This costs one extra forward pass and gives the
    same weights as one device.

    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
    Setup", section 3.
    """

    @property
    def compares_examples(self) -> bool:
        """Whether to use `batch_loss`, rather than `loss_totals` and `loss_share`."""
        return True

    def batch_loss(self, y: Any, y_pred: Any) -> Any:
        """Returns the loss of the global batch, a float32 scalar.

        Args:
            y: labels `[global, ...]`, or None.
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

    def _linearized(self, y, y_pred):
        """Returns what stands for the labels of a batch when its loss was already computed."""
        loss, gradients = self._loss_and_gradients_of(y, y_pred)
        return _Linearized(y, ops.broadcast_to(loss, ops.shape(y_pred)[:1]), gradients)


class _Linearized(NamedTuple):
    """First-order expansion of the loss at a batch's outputs, passed instead of its labels.

    Attributes:
        labels: `[batch, ...]`, or None.
        losses: float32 `[batch]`, the loss of the global batch, repeated for each example.
        gradients: float32 `[batch, ...]`, gradient of the loss with respect to the outputs.
    """

    labels: Any
    losses: Any
    gradients: Any
