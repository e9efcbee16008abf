"""Stages of a pre-training run: plan, datasets and checks."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from keras_bert_impl.pretraining.baseline import OBJECTIVES, unigram_scores
from keras_bert_impl.pretraining.examples.records import check_first_rows, read_manifest
from keras_bert_impl.pretraining.masking.dataset import num_held_out_batches, pretraining_dataset
from keras_bert_impl.pretraining.settings import MASKED_OBJECTIVES, PretrainSettings
from keras_bert_impl.training.jax_devices import JaxDevices, host_index, num_hosts
from keras_bert_impl.training.sharding import nearest_multiples, part_of_host
from keras_bert_impl.training.strategy import device_names
from keras_bert_impl.utils.errors import InputError

if TYPE_CHECKING:
    from keras_bert_impl.training.strategy import Strategy

_CHECKED_BATCHES = 8
_COUNTED_BATCHES = 100  # to count token frequencies


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run in which records, batch size and steps per report do not change."""

    records: str  # folder
    batch_size: int  # rows of the global batch
    first: int  # index of the first interval
    end: int  # index after the last interval
    steps: int  # steps per interval
    first_step: int  # steps of the run before this stage
    first_row: int  # rows of the same records that were read in earlier stages

    def step(self, finished: int) -> int:
        """Returns the number of steps in the first `finished` report intervals of a run."""
        return self.first_step + (finished - self.first) * self.steps

    def row(self, finished: int) -> int:
        """Returns the number of rows of `records` that are read in `finished` report intervals."""
        return self.first_row + (finished - self.first) * self.rows

    @property
    def rows(self) -> int:
        return self.steps * self.batch_size

    def begins(self, finished: int) -> bool:
        """Returns whether training starts to read `records` after `finished` intervals."""
        return finished == self.first and not self.first_row

    def same_batches(self, other: Stage | None) -> bool:
        shape = self.records, self.batch_size
        return other is not None and shape == (other.records, other.batch_size)


def plan(records: str | Path, settings: PretrainSettings) -> list[Stage]:
    total, sizes = settings.total_steps, settings.batch_sizes()
    long_from = settings.long_from()
    ends = sorted({*sizes, long_from, total, *range(0, total, settings.report_every)})
    stages: list[Stage] = []
    row, size = 0, None
    for number, (first_step, end) in enumerate(itertools.pairwise(ends)):
        size = sizes.get(first_step, size)
        if first_step == long_from:
            records, row = settings.long_records, 0
        stage = Stage(str(records), size, number, number + 1, end - first_step, first_step, row)
        last = stages[-1] if stages else None
        if stage.same_batches(last) and stage.steps == last.steps:
            stages[-1] = dataclasses.replace(last, end=stage.end)
        else:
            stages.append(stage)
        row += stage.rows
    return stages


def step_of(stages: Iterable[Stage], finished: int) -> int:
    """Returns the number of steps in the first `finished` report intervals of a run."""
    stage = next(stage for stage in stages if finished <= stage.end)
    return stage.step(finished)


class StageData:
    """Datasets of the stages, distributed over the replicas of a strategy."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy | JaxDevices,
        input_workers: Sequence[str] = (),
        **arguments: Any,
    ) -> None:
        self._strategy = strategy
        self._input_workers = input_workers
        self._arguments = arguments

    def check(self, stage: Stage, accumulation_steps: int) -> None:
        """Raises `InputError` if batches cannot be divided evenly or the records are unreadable."""
        replicas = self._strategy.num_replicas_in_sync
        parts = replicas * accumulation_steps
        if stage.batch_size % parts:
            raise InputError(
                f"batch_size must be a multiple of {parts} (number of replicas times "
                f"accumulation_steps), such as {nearest_multiples(stage.batch_size, parts)}. "
                f"Received: batch_size={stage.batch_size}, "
                f"accumulation_steps={accumulation_steps}, {replicas} replicas"
            )
        check_first_rows(stage.records, read_manifest(stage.records))
        if self._arguments["masking"].unit != "token":
            self._check_masks(stage)

    def _check_masks(self, stage):
        """Raises `InputError` if no token is masked in the first batches."""
        batches = pretraining_dataset(stage.records, stage.batch_size, **self._arguments)
        masked = [weights for *_, weights in batches.take(_CHECKED_BATCHES)]
        names = set(MASKED_OBJECTIVES) & set(masked[0])
        if names and not any(weights[name].numpy().any() for weights in masked for name in names):
            masking = self._arguments["masking"]
            raise InputError(
                f"nothing is masked in {stage.records}: its examples are too short to mask "
                f"a {masking.unit} with mask_rate={masking.rate}. Prepare longer "
                "examples, increase mask_rate, or set mask_unit=token."
            )

    def train(self, stage: Stage, row: int) -> tf.data.Dataset:
        """Returns the training batches of a stage, starting with a given row."""
        return self._build_dataset(stage, start_row=row, input_workers=self._input_workers)

    def held_out(self, stage: Stage) -> tuple[tf.data.Dataset, int] | tuple[None, None]:
        """Returns (held-out batches, number of batches), or (None, None) without held-out rows."""
        num_batches = num_held_out_batches(read_manifest(stage.records), stage.batch_size)
        if not num_batches:
            return None, None
        # For a distributed dataset, Keras would count each replica's batch as a step.
        return self._build_dataset(stage, split="held_out"), num_batches

    def unigram_scores(self, stage: Stage, vocabulary_size: int) -> dict[str, float]:
        """Returns the held-out scores of token frequencies, or an empty dict."""
        manifest = read_manifest(stage.records)
        predicted = [name for name in OBJECTIVES if name in self._arguments["objectives"]]
        if not predicted or not num_held_out_batches(manifest, stage.batch_size):
            return {}
        arguments = {"batch_size": stage.batch_size, **self._arguments}
        epoch = math.ceil(manifest["splits"]["train"]["rows"] / stage.batch_size)
        train = pretraining_dataset(stage.records, **arguments).take(min(epoch, _COUNTED_BATCHES))
        held_out = pretraining_dataset(stage.records, split="held_out", **arguments)
        return unigram_scores(train, held_out, vocabulary_size, predicted[0])

    def _build_dataset(self, stage, **arguments):
        arguments = {"batch_size": stage.batch_size, **self._arguments, **arguments}
        replicas = self._strategy.num_replicas_in_sync
        if isinstance(self._strategy, JaxDevices):
            shard = {"shard_index": host_index(), "num_shards": num_hosts()}
            return part_of_host(pretraining_dataset(stage.records, **shard, **arguments))
        if replicas == 1:
            return pretraining_dataset(stage.records, **arguments)

        def build_for_worker(context):
            dataset = pretraining_dataset(
                stage.records,
                shard_index=context.input_pipeline_id,
                num_shards=context.num_input_pipelines,
                **arguments,
            )
            return dataset.rebatch(stage.batch_size // replicas)

        return self._strategy.distribute_datasets_from_function(build_for_worker)


def summary(
    pretrainer: keras.Model,
    stages: Sequence[Stage],
    manifests: dict[str, dict[str, Any]],
    strategy: Strategy,
) -> list[str]:
    """Summarizes the records and the training of a run in a few lines."""
    lines = []
    for folder, manifest in manifests.items():
        train, held_out = (manifest["splits"][name] for name in ("train", "held_out"))
        num_rows_read = sum((s.end - s.first) * s.rows for s in stages if s.records == folder)
        lines.append(
            f"{folder}: {train['tokens']:,} tokens in {train['rows']:,} rows of "
            f"{manifest['settings']['length']}, {train['fill']:.0%} full, read "
            f"{num_rows_read / train['rows']:.3g} times; {held_out['rows']:,} rows held out"
        )
    steps = stages[-1].step(stages[-1].end)
    sizes = " to ".join(dict.fromkeys(f"{stage.batch_size:,}" for stage in stages))
    lines.append(
        f"training: {steps:,} steps of {sizes} rows, on {device_names(strategy)}, "
        f"{pretrainer.encoder.dtype_policy.name}"
    )
    return [*lines, f"parameters: {pretrainer.count_params():,}"]
