"""Settings of a pre-training run; imports nothing heavy, for the command line's help."""

import dataclasses
import re

from keras_bert_impl.errors import InputError

DISTILLATIONS = ("distillation", "layer_distillation")
TEXT_FORMATS = ("auto", "sentences", "wikiextractor", "jsonl", "files")  # of `prepare`
RUNNERS = ("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")  # of `prepare`
_CHOICES = {
    "optimizer": ("adamw", "lamb"),
    "schedule": ("linear", "cosine", "one_cycle", "budget"),
    "on_spike": ("stop", "skip"),
}


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """Settings of a pre-training run. The defaults are BERT's, but for the length of the run.

    Those of what the records must be (`records_...`) are checked against their manifest.

    Args:
        model: str. A published name (`keras-bert models`), for its shape with new weights and the
            vocabulary of the records; or a `config.json`, likewise; or a model directory, to go
            on from its weights.
        total_steps: int. Optimizer steps; with a `budget_hours` the most.
        batch_size: int. Rows of the global batch.
        first_batch_size: int or None for `batch_size`. Rows of the global batch at the start; it
            doubles until it is `batch_size`.
        ramp_steps: int. Steps in which it gets there, a multiple of `report_every`.
        long_records: str or None. A folder of records of longer rows, for the end of the run.
        long_part: float. Part of the steps that is for these.
        records_length, long_records_length: int or None for any. Tokens of a row of the records and
            of `long_records`; with the second, these must be given.
        records_objective: str or None for any. What `prepare` was told to make: `"mlm"`,
            `"mlm_nsp"` or `"mlm_sop"`.
        records_tokenizer: str or None for any. The kind of tokenizer: `"wordpiece"`,
            `"byte-level BPE"`, `"SentencePiece"` or `"moses bpe"`.
        optimizer: str. `"adamw"` or `"lamb"`.
        learning_rate: float. The peak.
        schedule: str. How the rate falls, `"linear"` or `"cosine"`; or `"one_cycle"`; or
            `"budget"`, which rises and falls with the time.
        warmup_steps: int or None for a tenth of `total_steps`, with `one_cycle` for three tenths.
            A budget rises for a tenth of the time.
        budget_hours: float or None. Time of the run, with `schedule=budget` alone.
        weight_decay: float.
        beta_2: float.
        epsilon: float.
        bias_correction: bool. The first BERT had none.
        global_clipnorm: float or None for no clipping.
        ema: float or None. Momentum of moving averages of the weights, such as 0.999: the model is
            evaluated and saved with these.
        dropout: float or None for the model's own.
        objectives: list of names, of `masked_lm`, `next_sentence`, `sentence_order`,
            `span_boundary`, `replaced_token`, `left_to_right`, `distillation` and
            `layer_distillation`; None for those that the records were prepared for.
        teacher: str or None. A model directory or a name, with the weights that the last two
            objectives learn from.
        mask_unit: str. What is masked as a whole: `"token"`, `"word"`, `"ngram"` or `"span"`.
        mask_rate: float. Part of the tokens to predict.
        mask_split: list of three floats. The parts of those that become the mask token, become a
            random piece, and stay.
        max_predictions: int or None for no limit. The most predictions of an example.
        dupe_factor: int or None for new masks in each epoch. Static masks: how many a row has, which
            take turns. Of records of some `prepare --passes`, 1 is what BERT's script does.
        generator: str. A published name or a `config.json`, for the shape of the generator of
            `replaced_token`; None for a quarter of the model's width, or for the one that a model
            directory has.
        accumulation_steps: int. Micro-batches of a replica in a step.
        remat: bool. Compute the activations of each layer again in the backward pass, in place of
            keeping them.
        steps_per_execution: int. Steps in one call of the graph.
        report_every: int. Steps between reports and checkpoints; divides `total_steps`.
        input_workers: list of str, such as `grpc://host:5050`: machines that make the batches, where
            `keras-bert input-worker` runs; they change nothing but who makes them.
        evaluate_every: int or None for the end alone. Steps between evaluations on the held-out
            rows; a multiple of `report_every`.
        on_spike: str. After a loss that is not finite, or over `spike_factor` times the mean of the
            report interval before and at least 1 above it: `"stop"`, or `"skip"`, which goes back
            to the last checkpoint and passes the rows of that interval over.
        spike_factor: float.
        dtype: str. Keras dtype policy, such as `"mixed_bfloat16"`, or `"mixed_float16"`, with which
            the loss is scaled.
        jit_compile: bool. Compile the forward and backward pass with XLA.
        seed: int.

    Source: Devlin et al., "BERT", appendix A.2, and the published code.
    """

    model: str = "bert-base-uncased"
    total_steps: int = 100_000
    batch_size: int = 256
    first_batch_size: int | None = None
    ramp_steps: int = 0
    long_records: str | None = None
    long_part: float = 0.1
    records_length: int | None = None
    long_records_length: int | None = None
    records_objective: str | None = None
    records_tokenizer: str | None = None
    optimizer: str = "adamw"
    learning_rate: float = 1e-4
    schedule: str = "linear"
    warmup_steps: int | None = None
    budget_hours: float | None = None
    weight_decay: float = 0.01
    beta_2: float = 0.999
    epsilon: float = 1e-6
    bias_correction: bool = False
    global_clipnorm: float | None = 1.0
    ema: float | None = None
    dropout: float | None = None
    objectives: tuple[str, ...] | None = None
    teacher: str | None = None
    mask_unit: str = "token"
    mask_rate: float = 0.15
    mask_split: tuple[float, ...] = (0.8, 0.1, 0.1)
    max_predictions: int | None = None
    dupe_factor: int | None = None
    generator: str | None = None
    accumulation_steps: int = 1
    remat: bool = False
    steps_per_execution: int = 1
    report_every: int = 100
    input_workers: tuple[str, ...] = ()
    evaluate_every: int | None = None
    on_spike: str = "stop"
    spike_factor: float = 3.0
    dtype: str = "float32"
    jit_compile: bool = False
    seed: int = 0

    def __post_init__(self):
        for name in ("total_steps", "batch_size", "report_every", "accumulation_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1. Received: {getattr(self, name)}")
        if self.total_steps % self.report_every:
            raise InputError(
                "total_steps must be a multiple of report_every. "
                f"Received: total_steps={self.total_steps}, report_every={self.report_every}"
            )
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} must be one of {', '.join(known)}. Received: {getattr(self, name)}"
                )
        if self.ema is not None and not 0 < self.ema < 1:
            raise InputError(f"ema must be between 0 and 1. Received: {self.ema}")
        for address in self.input_workers:
            if not re.fullmatch(r"grpc://[^/]+:\d+", address):
                raise InputError(f"input_workers are written grpc://host:port. Received: {address}")
        if self.spike_factor <= 1:
            raise InputError(f"spike_factor must be above 1. Received: {self.spike_factor}")
        self._check_schedule()
        self._check_stages()
        self._check_teacher()
        if len(self.mask_split) != 3 or abs(sum(self.mask_split) - 1) > 1e-6:
            raise InputError(
                "mask_split must be three numbers that add up to 1. "
                f"Received: {list(self.mask_split)}"
            )
        if self.evaluate_every is not None and self.evaluate_every % self.report_every:
            raise InputError(
                "evaluate_every must be a multiple of report_every. Received: "
                f"evaluate_every={self.evaluate_every}, report_every={self.report_every}"
            )

    def _check_schedule(self):
        has_budget = self.schedule == "budget"
        if has_budget != (self.budget_hours is not None) or (self.budget_hours or 1) <= 0:
            raise InputError(
                "schedule=budget takes budget_hours above 0, and no other schedule takes any. "
                f"Received: schedule={self.schedule}, budget_hours={self.budget_hours}"
            )
        if has_budget and self.warmup_steps is not None:
            raise InputError(
                "schedule=budget rises for a tenth of the time, and takes no warmup_steps. "
                f"Received: {self.warmup_steps}"
            )

    def _check_stages(self):
        first, last = self.first_batch_size, self.batch_size
        if first is None:
            first = last
        if first < 1 or first > last or last % first or (last // first).bit_count() != 1:
            raise InputError(
                "batch_size must be first_batch_size doubled some times. Received: "
                f"first_batch_size={first}, batch_size={last}"
            )
        if self.ramp_steps % self.report_every or (self.ramp_steps > 0) != (first < last):
            raise InputError(
                "ramp_steps must be a multiple of report_every, above 0 with a first_batch_size "
                f"below batch_size. Received: ramp_steps={self.ramp_steps}, "
                f"report_every={self.report_every}, first_batch_size={first}, batch_size={last}"
            )
        if not 0 < self.long_part < 1:
            raise InputError(f"long_part must be between 0 and 1. Received: {self.long_part}")
        if self.long_records_length is not None and self.long_records is None:
            raise InputError(
                f"the last {self.long_part:.0%} of the steps are for rows of "
                f"{self.long_records_length} tokens: prepare such records and give their folder, "
                "long_records=DIR, or leave these steps out with long_records_length=null."
            )

    def _check_teacher(self):
        takes_one = [name for name in self.objectives or () if name in DISTILLATIONS]
        if takes_one and self.teacher is None:
            raise InputError(f"{takes_one[0]} takes a model to learn from: write teacher=DIR.")
        if self.teacher is not None and not takes_one:
            raise InputError(
                f"a teacher is for the objectives {' and '.join(DISTILLATIONS)}. "
                f"Received: teacher={self.teacher}, objectives={list(self.objectives or ())}"
            )


@dataclasses.dataclass(frozen=True)
class AdaptationSettings:
    """Settings of going on with the pre-training of a model on text of a domain.

    Args:
        adapt_steps: int. Optimizer steps; above 100 a multiple of 100, after which there is a
            checkpoint each.
        adapt_batch_size: int. Rows of the global batch.
        adapt_learning_rate: float. The peak, after a tenth of the steps.
        adapt_length: int or None for 128, or what the model takes if that is less. Tokens of a row.

    Source: Gururangan et al. 2020, whose domains are larger: they took 12,500 steps for each.
    """

    adapt_steps: int = 1000
    adapt_batch_size: int = 32
    adapt_learning_rate: float = 1e-4
    adapt_length: int | None = None

    def __post_init__(self):
        for name in ("adapt_steps", "adapt_batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1. Received: {getattr(self, name)}")
        if self.adapt_steps % self.report_every:
            raise InputError(
                f"adapt_steps above 100 must be a multiple of 100. Received: {self.adapt_steps}"
            )
        if not 0 < self.adapt_learning_rate < float("inf"):
            raise InputError(
                f"adapt_learning_rate must be positive. Received: {self.adapt_learning_rate}"
            )
        if self.adapt_length is not None and self.adapt_length < 8:
            raise InputError(f"adapt_length must be at least 8. Received: {self.adapt_length}")

    @property
    def report_every(self):
        """int. Steps between reports and checkpoints."""
        return min(self.adapt_steps, 100)
