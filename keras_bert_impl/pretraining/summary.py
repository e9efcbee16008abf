"""What a pre-training run says before it trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_bert_impl.pretraining.stages import Stage
from keras_bert_impl.training.strategy import device_names

if TYPE_CHECKING:
    from keras_bert_impl.training.strategy import Strategy


def summary(
    pretrainer: keras.Model,
    stages: Sequence[Stage],
    manifests: dict[str, dict[str, Any]],
    strategy: Strategy,
) -> list[str]:
    """Describes the records and the training of a run in a few lines."""
    lines = []
    for folder, manifest in manifests.items():
        train, held_out = (manifest["splits"][name] for name in ("train", "held_out"))
        seen = sum((s.end - s.first) * s.rows for s in stages if s.records == folder)
        lines.append(
            f"{folder}: {train['tokens']:,} tokens in {train['rows']:,} rows of "
            f"{manifest['settings']['length']}, {train['fill']:.0%} full, read "
            f"{seen / train['rows']:.3g} times; {held_out['rows']:,} rows held out"
        )
    steps = stages[-1].step(stages[-1].end)
    sizes = " to ".join(dict.fromkeys(f"{stage.batch_size:,}" for stage in stages))
    lines.append(
        f"training: {steps:,} steps of {sizes} rows, on {device_names(strategy)}, "
        f"{pretrainer.encoder.dtype_policy.name}"
    )
    return [*lines, f"parameters: {pretrainer.count_params():,}"]
