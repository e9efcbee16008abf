"""Settings of pre-training. Does not import TensorFlow, so that `--help` is fast."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Annotated

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import (
    DType,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Range,
    Rate,
    Seed,
    Share,
    check,
    validate,
)

DISTILLATIONS = ("distillation", "layer_distillation")
TEXT_FORMATS = ("auto", "sentences", "wikiextractor", "jsonl", "files")  # for `prepare`
RUNNERS = ("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")  # for `prepare`
MaskSplit = tuple[Share, ...]
MASK_UNITS = ("token", "word", "ngram", "span")
_MASK_SETTINGS = ("mask_unit", "mask_rate", "mask_split", "max_predictions", "dupe_factor")
RowLength = Annotated[int, Range(least=8)]  # sequence length of records
# Objective of `prepare` -> pre-training objectives that have labels in the records.
RECORDS_OBJECTIVES = {
    "mlm_nsp": ("masked_lm", "next_sentence"),
    "mlm_sop": ("masked_lm", "sentence_order"),
    "mlm": ("masked_lm",),
    "tlm": ("masked_lm",),
}
PAIR_OBJECTIVES = ("next_sentence", "sentence_order")
MASKED_OBJECTIVES = ("masked_lm", "span_boundary", "replaced_token", "distillation")
OBJECTIVES = (*MASKED_OBJECTIVES, *PAIR_OBJECTIVES, "left_to_right", "layer_distillation")


def check_mask_split(mask_split: Sequence[float]) -> tuple[float, ...]:
    """Raises `InputError` unless the three fractions add up to 1."""
    fractions = check("mask_split", mask_split, MaskSplit)
    if len(fractions) != 3 or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(
            f"mask_split must be three fractions that add up to 1. Received: {list(fractions)}"
        )
    return fractions


@known_arguments("PretrainSettings")
@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """Settings of a pre-training run. The defaults are the settings of BERT, except `total_steps`.

    If the records do not meet the requirements in the `records_...` settings, the run raises an
    error.

    Args:
        model: Model directory to continue from, or a model name or `config.json` to train from
            scratch. See `keras-bert models` for names. From scratch, the model gets the vocabulary
            size of the records. `EncoderConfig` objects and dicts of its fields are also accepted.
        total_steps: Number of optimizer steps. If `budget_hours` is set, the run may end earlier.
        batch_size: Global batch size in packed rows.
        first_batch_size: Global batch size at the start, doubled until it reaches `batch_size`.
            None for `batch_size`.
        ramp_steps: Number of steps until `batch_size` is reached.
        long_records: Folder of records with longer rows, used for the last steps of the run.
        long_part: Fraction of the steps in which `long_records` are used.
        records_length: Required sequence length of the records. None for any.
        long_records_length: Required sequence length of `long_records`. None for any.
        records_objective: Required `prepare` objective: `"mlm"`, `"mlm_nsp"`, `"mlm_sop"` or
            `"tlm"`. None for any.
        records_tokenizer: Required kind of tokenizer: `"wordpiece"`, `"byte-level BPE"`,
            `"SentencePiece"` or `"moses bpe"`. None for any.
        optimizer: Optimizer.
        learning_rate: Peak learning rate.
        schedule: Learning-rate schedule. `"linear"` or `"cosine"` decay, `"one_cycle"`, or
            `"budget"`, which depends on the elapsed time instead of the step.
        warmup_steps: Number of warm-up steps. None means a tenth of `total_steps`, or three tenths
            with `one_cycle`. With `budget`, the warm-up takes a tenth of the time.
        budget_hours: Duration of the run. Only with `schedule=budget`.
        weight_decay: Weight decay of the optimizer, decoupled from the gradient.
        beta_2: Decay rate of the optimizer's second moments.
        epsilon: Value added to the denominator of the optimizer's update.
        bias_correction: Whether to correct the bias of the optimizer's moments. The original BERT
            did not correct it.
        global_clipnorm: Limit of the global gradient norm. None for no clipping.
        ema: Momentum of the exponential moving average of the weights, such as 0.999. The averaged
            weights are evaluated and saved.
        dropout: Dropout rate. None means the rate in the model's configuration.
        objectives: Names of the pre-training objectives. One or more of `masked_lm`,
            `next_sentence`, `sentence_order`, `span_boundary`, `replaced_token`, `left_to_right`,
            `distillation` and `layer_distillation`. None means the objectives for which the records
            were prepared.
        teacher: Directory or name of the teacher model for `distillation` and `layer_distillation`.
        mask_unit: Masking unit.
        mask_rate: Fraction of the tokens to predict.
        mask_split: Fractions of the predicted tokens that are masked, replaced by random tokens and
            unchanged.
        max_predictions: Maximum number of predictions per example. None for no limit.
        dupe_factor: Number of static masks per row; epoch `e` uses mask `e % dupe_factor`. None
            means new masks in each epoch. With records from `prepare --passes`, 1 reproduces BERT's
            script.
        generator: Published name or `config.json` of the generator of `replaced_token`. None uses
            the generator in the model directory. If the model directory has no generator, a
            generator with a quarter of the model's width is created.
        accumulation_steps: Gradient accumulation: number of micro-batches per batch.
        remat: Activation checkpointing: recompute each layer's activations in the backward pass.
        steps_per_execution: Number of steps per call of the compiled graph, as in
            `keras.Model.compile`. Must divide `total_steps` and `report_every`.
        report_every: Number of steps between reports and checkpoints. A report and a checkpoint are
            also written after the last step and when the records or the batch size change.
        input_workers: Machines that run `keras-bert input-worker` and create the batches, such as
            `grpc://host:5050`. Input workers do not change the batches.
        evaluate_every: Number of steps between evaluations on the held-out rows, a multiple of
            `report_every`. None evaluates only at the end of the run.
        on_spike: Action after a loss spike. A loss is a spike if it is not finite, or if it is more
            than `spike_factor` times as high as the mean loss of the preceding report interval and
            more than 1 above this mean. `"stop"` raises an error. `"skip"` restores the last
            checkpoint and skips the rows of the interval with the spike.
        spike_factor: Minimum ratio of a spike to the mean loss; see `on_spike`.
        dtype: Dtype policy of Keras, such as `"mixed_bfloat16"`. `"mixed_float16"` uses loss scaling.
        jit_compile: Whether to compile the forward and backward pass with XLA.
        seed: Seed of all random choices.

    Source: Devlin et al., "BERT", appendix A.2, and the published code.
    """

    model: dict | str = "bert-base-uncased"
    total_steps: PositiveInt = 100_000
    batch_size: PositiveInt = 256
    first_batch_size: PositiveInt | None = None
    ramp_steps: NonNegativeInt = 0
    long_records: str | None = None
    long_part: Fraction = 0.1
    records_length: PositiveInt | None = None
    long_records_length: PositiveInt | None = None
    records_objective: Annotated[str, OneOf(*RECORDS_OBJECTIVES)] | None = None
    records_tokenizer: str | None = None
    optimizer: Annotated[str, OneOf("adamw", "lamb")] = "adamw"
    learning_rate: PositiveFloat = 1e-4
    schedule: Annotated[str, OneOf("linear", "cosine", "one_cycle", "budget")] = "linear"
    warmup_steps: NonNegativeInt | None = None
    budget_hours: PositiveFloat | None = None
    weight_decay: NonNegativeFloat = 0.01
    beta_2: Rate = 0.999
    epsilon: PositiveFloat = 1e-6
    bias_correction: bool = False
    global_clipnorm: PositiveFloat | None = 1.0
    ema: Fraction | None = None
    dropout: Rate | None = None
    objectives: tuple[Annotated[str, OneOf(*OBJECTIVES)], ...] | None = None
    teacher: str | None = None
    mask_unit: Annotated[str, OneOf(*MASK_UNITS)] = "token"
    mask_rate: Fraction = 0.15
    mask_split: MaskSplit = (0.8, 0.1, 0.1)
    max_predictions: PositiveInt | None = None
    dupe_factor: PositiveInt | None = None
    generator: str | None = None
    accumulation_steps: PositiveInt = 1
    remat: bool = False
    steps_per_execution: PositiveInt = 1
    report_every: PositiveInt = 100
    input_workers: tuple[str, ...] = ()
    evaluate_every: PositiveInt | None = None
    on_spike: Annotated[str, OneOf("stop", "skip")] = "stop"
    spike_factor: Annotated[float, Range(above=1)] = 3.0
    dtype: DType = "float32"
    jit_compile: bool = False
    seed: Seed = 0

    def __post_init__(self):
        if hasattr(self.model, "to_dict"):
            object.__setattr__(self, "model", self.model.to_dict())  # for recipe.yaml
        validate(self)
        for name in ("total_steps", "report_every"):
            if getattr(self, name) % self.steps_per_execution:
                raise InputError(
                    f"{name} must be a multiple of steps_per_execution. Received: "
                    f"{name}={getattr(self, name)}, steps_per_execution={self.steps_per_execution}"
                )
        for address in self.input_workers:
            if not re.fullmatch(r"grpc://[^/]+:\d+", address):
                raise InputError(f"input_workers must be grpc://host:port. Received: {address}")
            if self.input_workers.count(address) > 1:
                raise InputError(f"input_workers names {address} twice.")
        self._check_schedule()
        self._check_stages()
        self._check_teacher()
        self._check_unused()
        check_mask_split(self.mask_split)
        if self.evaluate_every is not None and self.evaluate_every % self.report_every:
            raise InputError(
                "evaluate_every must be a multiple of report_every. Received: "
                f"evaluate_every={self.evaluate_every}, report_every={self.report_every}"
            )

    def _check_schedule(self):
        has_budget = self.schedule == "budget"
        if has_budget != (self.budget_hours is not None):
            raise InputError(
                "schedule=budget requires budget_hours, and no other schedule accepts it. "
                f"Received: schedule={self.schedule}, budget_hours={self.budget_hours}"
            )
        if has_budget and self.warmup_steps is not None:
            raise InputError(
                "schedule=budget warms up for a tenth of the time and accepts no warmup_steps. "
                f"Received: {self.warmup_steps}"
            )

    def batch_sizes(self) -> dict[int, int]:
        """Returns a dict from the step at which the global batch size changes to the new size."""
        size = self.first_batch_size or self.batch_size
        doublings = (self.batch_size // size).bit_length() - 1
        return {
            self._round_to_executions(number / max(doublings, 1) * self.ramp_steps): size << number
            for number in range(doublings + 1)
        }

    def long_from(self) -> int:
        """Returns the first step that uses `long_records`, or `total_steps` if no step does."""
        if self.long_records is None:
            return self.total_steps
        steps = self._round_to_executions(self.long_part * self.total_steps)
        return self.total_steps - max(steps, self.steps_per_execution)

    def _round_to_executions(self, step):
        return self.steps_per_execution * round(step / self.steps_per_execution)

    def _check_stages(self):
        first, last = self.first_batch_size or self.batch_size, self.batch_size
        if first > last or last % first or (last // first).bit_count() != 1:
            raise InputError(
                "batch_size must be first_batch_size times a power of two. Received: "
                f"first_batch_size={first}, batch_size={last}"
            )
        doublings = (last // first).bit_length() - 1
        least = doublings * self.steps_per_execution
        is_reached = least <= self.ramp_steps and max(self.batch_sizes()) < self.total_steps
        if not is_reached or (self.ramp_steps > 0) != (first < last):
            raise InputError(
                "ramp_steps must be 0 if first_batch_size equals batch_size. Otherwise it must "
                f"be at least {least} (one step per batch size) and, rounded to a multiple of "
                f"steps_per_execution={self.steps_per_execution}, less than total_steps. Received: "
                f"ramp_steps={self.ramp_steps}, total_steps={self.total_steps}, "
                f"first_batch_size={first}, batch_size={last}"
            )
        if self.long_from() < self.steps_per_execution:
            raise InputError(
                f"long_part={self.long_part} of total_steps={self.total_steps} leaves no step for "
                "the shorter records. Decrease long_part, or increase total_steps."
            )
        if self.long_records_length is not None and self.long_records is None:
            raise InputError(
                f"the last steps (long_part={self.long_part:.0%}) need rows of "
                f"{self.long_records_length} tokens. Prepare records with --length "
                f"{self.long_records_length} and set long_records=DIR, or set "
                "long_records_length=null to omit these steps."
            )

    def _check_teacher(self):
        takes_one = [name for name in self.objectives or () if name in DISTILLATIONS]
        if takes_one and self.teacher is None:
            raise InputError(f"{takes_one[0]} needs a teacher model; set teacher=DIR.")
        if self.teacher is not None and not takes_one:
            raise InputError(
                f"teacher is only for the objectives {' and '.join(DISTILLATIONS)}. "
                f"Received: teacher={self.teacher}, objectives={list(self.objectives or ())}"
            )

    def _check_unused(self):
        objectives = list(self.objectives or ())
        if self.generator is not None and "replaced_token" not in objectives:
            raise InputError(
                "generator is only for the objective replaced_token. Use this objective, or set "
                f"generator=null. Received: generator={self.generator}, objectives={objectives}"
            )
        changed = [name for name in _MASK_SETTINGS if getattr(self, name) != _default(name)]
        if changed and objectives and not set(objectives) & set(MASKED_OBJECTIVES):
            raise InputError(
                f"nothing is masked with objectives={objectives}; use one of "
                f"{', '.join(MASKED_OBJECTIVES)}, or set {' '.join(map(_format_default, changed))}."
            )
        if self.long_records is None and self.long_part != _default("long_part"):
            raise InputError(
                "long_part is only with long_records; pass long_records=DIR, or set "
                f"{_format_default('long_part')}. Received: long_part={self.long_part}"
            )


def _default(name):
    return getattr(PretrainSettings, name)


def _format_default(name):
    """Formats a setting with its default value, such as `max_predictions=null`."""
    value = json.dumps(_default(name), separators=(",", ":")).strip('"')
    return f"{name}={value}"


@known_arguments("AdaptationSettings")
@dataclasses.dataclass(frozen=True)
class AdaptationSettings:
    """Settings of continued pre-training on texts of a domain.

    Args:
        adapt_steps: Number of optimizer steps, with a checkpoint every 100 steps.
        adapt_batch_size: Global batch size in packed rows.
        adapt_learning_rate: Peak learning rate, reached after 10% of the steps.
        adapt_length: Sequence length in tokens. None means 128, or the model's maximum if it is
            less.

    Source: Gururangan et al. 2020, where 12,500 steps are trained on larger domains.
    """

    adapt_steps: PositiveInt = 1000
    adapt_batch_size: PositiveInt = 32
    adapt_learning_rate: PositiveFloat = 1e-4
    adapt_length: RowLength | None = None

    def __post_init__(self):
        validate(self)

    @property
    def report_every(self) -> int:
        return min(self.adapt_steps, 100)
