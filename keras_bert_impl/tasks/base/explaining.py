"""Methods of task models for attribution, HTML pages and model cards."""

import html
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert_impl.data.batches.words import Words
from keras_bert_impl.data.tables.examples import segments_of
from keras_bert_impl.utils.errors import InputError, listed

TargetScore = Callable[[Any], Any]  # network output -> float32 [batch]


class Explained:
    """Base class of `TaskModel` with methods for attribution and model cards.

    Attributes:
        pipeline_tag: the task's name on the Hugging Face hub, for the model card.
        example_call: method call that the model card shows, such as `".predict(['a text'])"`.
        has_attribution: whether `attribution_target` is implemented.
        has_masked_losses: whether `look` shows the loss of each token when it is masked.
    """

    pipeline_tag = ""
    example_call = ""
    has_attribution = False
    has_masked_losses = False

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._collect_facts().items())
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:  # notebooks call it
        cells = (
            f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in self._collect_facts().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{''.join(cells)}</table>"

    def _collect_facts(self):
        config, labels = self.config, getattr(self, "labels", None) or []
        facts = {
            "encoder": f"{config.num_layers} layers of {config.hidden_dim}",
            "parameters": f"{self.count_params():,}",
            "tokenizer": f"{type(self.tokenizer).__name__} of {len(self.tokenizer.vocabulary):,}",
            "max_length": self.max_length,
        }
        if labels:
            suffix = f", ... ({len(labels)} in all)" if len(labels) > 10 else ""
            facts["labels"] = f"{', '.join(labels[:10])}{suffix}"
        return facts if config.adapter is None else facts | {"adapter": config.adapter}

    def attribution_target(self, row: Any, outputs: Any, target: Any) -> tuple[str, TargetScore]:
        """Returns the name of an output, and a function that computes the score to attribute.

        Args:
            row: `attribution.rows.TextRow`.
            outputs: the network's outputs for the row's features.
            target: see `attribute`. None for the model's prediction.
        """
        raise NotImplementedError

    def as_example(self, text: Any) -> Any:
        """Checks a text or example, and converts it to an input of `rows`."""
        return self.as_texts([text])[0]  # type: ignore[attr-defined]

    def encoder_call(self, example: Any) -> tuple[Any, Callable[[dict], Any]]:
        """Returns the tokenized rows of an example and the network that encodes the rows."""
        return self.rows([example])[0], self  # type: ignore[attr-defined, return-value]

    @staticmethod
    def rows_of(text: Any) -> list[tuple[str, ...]]:
        """Splits a text or text pair into rows, each with one or two texts."""
        return [segments_of(text)]

    def segments_of_rows(self, example: Any) -> list[tuple]:
        """Splits an example (see `as_example`) into rows, each with one or two texts."""
        is_pair = isinstance(example, tuple) and not isinstance(example, Words)
        return [example if is_pair else (example,)]


def label_number(labels: list[str], target: Any) -> int | None:
    if target is None:
        return None
    if target in labels:
        return labels.index(target)
    is_number = isinstance(target, (int, np.integer)) and not isinstance(target, bool)
    if not is_number or not 0 <= target < len(labels):
        raise InputError(f"target must be one of {listed(labels)}. Received: target={target!r:.60}")
    return int(target)


def log_odds(logits: Any, number: int) -> Any:
    """Computes the log-odds of a class, float32 `[batch]`, from logits `[batch, classes]`."""
    other_logits = ops.concatenate([logits[:, :number], logits[:, number + 1 :]], axis=1)
    return logits[:, number] - ops.logsumexp(other_logits, axis=1)
