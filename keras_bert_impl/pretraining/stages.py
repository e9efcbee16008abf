"""The parts of a run that differ in what a batch is: its rows, and how long they are."""

import dataclasses
import itertools

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.examples.records import check_first_rows, read_manifest
from keras_bert_impl.pretraining.masking.dataset import num_held_out_batches, pretraining_dataset
from keras_bert_impl.pretraining.settings import MASKED_OBJECTIVES
from keras_bert_impl.training.strategy import JaxDevices

_CHECKED_BATCHES = 8


@dataclasses.dataclass(frozen=True)
class Stage:
    """Report intervals of a run with as many steps each and batches of one shape.

    Args:
        records: str. The folder.
        batch_size: int. Rows of the global batch.
        first, end: ints. The intervals, `end` not among them.
        steps: int. Steps of an interval.
        first_step: int. Steps of the run before.
        first_row: int. Rows of these records that the stages before have read.
    """

    records: str
    batch_size: int
    first: int
    end: int
    steps: int
    first_step: int
    first_row: int

    def step(self, finished):
        """int. Steps of the run after `finished` of its intervals."""
        return self.first_step + (finished - self.first) * self.steps

    def row(self, finished):
        """int. Rows of these records that are read after so many intervals of the run."""
        return self.first_row + (finished - self.first) * self.rows

    @property
    def rows(self):
        """int. Rows of an interval."""
        return self.steps * self.batch_size

    def begins(self, finished):
        """bool. Whether its records are still unread after `finished` intervals of the run."""
        return finished == self.first and not self.first_row

    def same_batches(self, other):
        """bool. Whether another `Stage`, or None, has batches of the same shape."""
        return other is not None and (self.records, self.batch_size) == (
            other.records,
            other.batch_size,
        )


def plan(records, settings):
    """The stages of a run, in order.

    An interval ends after each `report_every` steps, where the records or the size of the batch
    change, and with the run.

    Args:
        records: str.
        settings: `PretrainSettings`.

    Returns:
        list of `Stage`.
    """
    total, sizes = settings.total_steps, settings.batch_sizes()
    long_from = settings.long_from()
    ends = sorted({*sizes, long_from, total, *range(0, total, settings.report_every)})
    stages, row, size = [], 0, None
    for number, (first_step, end) in enumerate(itertools.pairwise(ends)):
        size = sizes.get(first_step, size)
        if first_step == long_from:
            records, row = settings.long_records, 0
        one = Stage(
            str(records), size, number, number + 1, end - first_step, first_step, row
        )
        last = stages[-1] if stages else None
        if one.same_batches(last) and one.steps == last.steps:
            stages[-1] = dataclasses.replace(last, end=one.end)
        else:
            stages.append(one)
        row += one.rows
    return stages


def step_of(stages, finished):
    """int. Steps of a run after `finished` of its intervals."""
    stage = next(stage for stage in stages if finished <= stage.end)
    return stage.step(finished)


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

    def check(self, stage, accumulation_steps):
        """Raises `InputError` where the batches of a `Stage` cannot be cut into equal parts, or its
        records cannot be read."""
        replicas = self._strategy.num_replicas_in_sync
        if stage.batch_size % (replicas * accumulation_steps):
            raise InputError(
                f"batch_size must be a multiple of {replicas * accumulation_steps}, replicas times "
                f"accumulation_steps. Received: batch_size={stage.batch_size}, "
                f"accumulation_steps={accumulation_steps}, {replicas} replicas"
            )
        check_first_rows(stage.records, read_manifest(stage.records))
        if self._arguments["masking"].unit != "token":
            self._check_masks(stage)

    def _check_masks(self, stage):
        """Raises `InputError` where words are longer than what of an example may be hidden."""
        batches = pretraining_dataset(stage.records, stage.batch_size, **self._arguments)
        masked = [weights for *_, weights in batches.take(_CHECKED_BATCHES)]
        names = set(MASKED_OBJECTIVES) & set(masked[0])
        if names and not any(weights[name].numpy().any() for weights in masked for name in names):
            masking = self._arguments["masking"]
            raise InputError(
                f"in {stage.records} nothing is masked: the examples are so short that mask_rate="
                f"{masking.rate} of their tokens are fewer than a {masking.unit} has. Prepare longer "
                "examples, or choose a larger mask_rate or mask_unit=token."
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
