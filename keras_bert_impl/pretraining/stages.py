"""The parts of a run that differ in what a batch is: its rows, and how long they are."""

import dataclasses
import itertools

from keras_bert_impl.errors import InputError
from keras_bert_impl.pretraining.dataset import num_held_out_batches, pretraining_dataset
from keras_bert_impl.pretraining.records import read_manifest
from keras_bert_impl.training.strategy import JaxDevices


@dataclasses.dataclass(frozen=True)
class Stage:
    """Report intervals of a run with batches of one shape.

    Args:
        records: str. The folder.
        batch_size: int. Rows of the global batch.
        first, end: ints. The intervals, `end` not among them.
        steps: int. Steps of an interval.
        first_row: int. Rows of these records that the stages before have read.
    """

    records: str
    batch_size: int
    first: int
    end: int
    steps: int
    first_row: int

    def row(self, finished):
        """int. Rows of these records that are read after so many intervals of the run."""
        return self.first_row + (finished - self.first) * self.rows

    @property
    def rows(self):
        """int. Rows of an interval."""
        return self.steps * self.batch_size


def plan(records, settings):
    """The stages of a run, in order.

    Args:
        records: str.
        settings: `PretrainSettings`.

    Returns:
        list of `Stage`.
    """
    steps = settings.report_every
    intervals = settings.total_steps // steps
    long_from = intervals
    if settings.long_records is not None:
        long_from -= round(settings.long_part * intervals)
    sizes = dict(_ramp(settings, intervals))  # by the interval from which on
    stages, row, size = [], 0, None
    for first, end in itertools.pairwise(sorted({*sizes, long_from, intervals})):
        size = sizes.get(first, size)
        if first == long_from:
            records, row = settings.long_records, 0
        stages.append(Stage(str(records), size, first, end, steps, row))
        row = stages[-1].row(end)
    return stages


def _ramp(settings, intervals):
    """(interval, batch size from there on), by doubling."""
    size = settings.first_batch_size or settings.batch_size
    doublings = (settings.batch_size // size).bit_length() - 1
    for doubling in range(doublings + 1):
        part = doubling / max(doublings, 1)
        start = round(part * settings.ramp_steps / settings.report_every)
        if start < intervals:
            yield start, size * 2**doubling


class StageData:
    """The data of stages, for the replicas of a strategy.

    Args:
        strategy: of `get_strategy`.
        input_workers: as of `pretraining_dataset`, for training.
        **arguments: of `pretraining_dataset`: `seed`, `objectives`, `masking`, `tokenizer`.
    """

    def __init__(self, strategy, input_workers=(), **arguments):
        self._strategy = strategy
        self._input_workers = input_workers
        self._arguments = arguments

    def check(self, stage):
        """Raises `InputError` where the replicas cannot share the batches of a `Stage`."""
        replicas = self._strategy.num_replicas_in_sync
        if stage.batch_size % replicas:
            raise InputError(
                f"batch_size must be a multiple of the {replicas} replicas. "
                f"Received: {stage.batch_size}"
            )

    def train(self, stage, row):
        """The batches of a `Stage` from a row on."""
        return self._distribute(stage, start_row=row, input_workers=self._input_workers)

    def held_out(self, stage):
        """(one pass over the held-out rows of a `Stage`'s records, its batches); None without."""
        num_batches = num_held_out_batches(read_manifest(stage.records), stage.batch_size)
        if not num_batches:
            return None, None
        # Counted here: Keras takes the batches of all replicas of a distributed data set for steps.
        return self._distribute(stage, split="held_out"), num_batches

    def _distribute(self, stage, **arguments):
        """The data set of each input worker, in batches of one replica."""
        arguments = {"batch_size": stage.batch_size, **self._arguments, **arguments}
        replicas = self._strategy.num_replicas_in_sync
        if replicas == 1 or isinstance(self._strategy, JaxDevices):
            return pretraining_dataset(stage.records, **arguments)

        def per_worker(context):
            dataset = pretraining_dataset(
                stage.records,
                shard_index=context.input_pipeline_id,
                num_shards=context.num_input_pipelines,
                **arguments,
            )
            return dataset.rebatch(stage.batch_size // replicas)

        return self._strategy.distribute_datasets_from_function(per_worker)
