"""Training with token labels. The loss and metrics are means over the labeled tokens."""

import functools
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert_impl.data.scores.counting import TokenAccuracy, token_weights
from keras_bert_impl.tasks.base.keras_losses import as_list
from keras_bert_impl.utils.internals import track_loss

_Mixin: Any = object  # for mypy: the methods use attributes of `TaskModel`


class TokenLabels(_Mixin):
    """Mixin for task models with token labels.

    Labels are int `[batch, tokens]`, negative for tokens without a label. Subclasses list
    `TokenLabels` before `TaskModel` in their bases.
    """

    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training; see `RawTextTrainer.compile`.

        Args:
            metrics, weighted_metrics: lists of metrics; both count only labeled tokens. Default:
            accuracy; `[]` for none.
        """
        if metrics is None and weighted_metrics is None:
            metrics = ["accuracy"]
        weighted_metrics = [*as_list(metrics), *as_list(weighted_metrics)]
        super().compile(optimizer, loss, [], weighted_metrics, **kwargs)

    def named_metrics(self) -> dict[str, Callable]:
        return {"accuracy": functools.partial(TokenAccuracy, name="accuracy")}

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Computes the metrics on labeled tokens only."""
        return super().compute_metrics(x, y, y_pred, token_weights(y, sample_weight))

    def loss_totals(self, x: Any, y: Any, sample_weight: Any) -> Any:
        return ops.sum(token_weights(y, sample_weight))

    def _record_loss(self, loss, batch):
        # The epoch loss is the mean over the labeled tokens, like the step loss.
        track_loss(self, loss, self.loss_totals(*batch))
