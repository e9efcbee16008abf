"""Settings of a pre-training run; imports nothing heavy, for the command line's help."""

import dataclasses

from keras_bert_impl.errors import InputError


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """Settings of a pre-training run. The defaults are BERT's, but for the length of the run.

    Args:
        model: str. A published name (`keras-bert models`), for its shape with new weights and the
            vocabulary of the records; or a `config.json`, likewise; or a model directory, to go
            on from its weights.
        total_steps: int. Optimizer steps.
        batch_size: int. Rows of the global batch.
        learning_rate: float. The peak.
        warmup_steps: int or None for a tenth of `total_steps`.
        weight_decay: float.
        beta_2: float.
        epsilon: float.
        bias_correction: bool. The first BERT had none.
        global_clipnorm: float.
        dropout: float or None for the model's own.
        objectives: list of names, of `masked_lm`, `next_sentence`, `sentence_order`,
            `span_boundary`, `replaced_token` and `left_to_right`; None for those that the records
            were prepared for.
        mask_unit: str. What is masked as a whole: `"token"`, `"word"`, `"ngram"` or `"span"`.
        mask_rate: float. Part of the tokens to predict.
        mask_split: list of three floats. The parts of those that become the mask token, become a
            random piece, and stay.
        max_predictions: int or None for no limit. The most predictions of an example.
        generator: str. A published name or a `config.json`, for the shape of the generator of
            `replaced_token`; None for a quarter of the model's width, or for the one that a model
            directory has.
        accumulation_steps: int. Micro-batches of a replica in a step.
        steps_per_execution: int. Steps in one call of the graph.
        report_every: int. Steps between reports and checkpoints; divides `total_steps`.
        evaluate_every: int or None for the end alone. Steps between evaluations on the held-out
            rows; a multiple of `report_every`.
        dtype: str. Keras dtype policy, such as `"mixed_bfloat16"`.
        jit_compile: bool. Compile the forward and backward pass with XLA.
        seed: int.

    Source: Devlin et al., "BERT", appendix A.2, and the published code.
    """

    model: str = "bert-base-uncased"
    total_steps: int = 100_000
    batch_size: int = 256
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    weight_decay: float = 0.01
    beta_2: float = 0.999
    epsilon: float = 1e-6
    bias_correction: bool = False
    global_clipnorm: float = 1.0
    dropout: float | None = None
    objectives: tuple[str, ...] | None = None
    mask_unit: str = "token"
    mask_rate: float = 0.15
    mask_split: tuple[float, ...] = (0.8, 0.1, 0.1)
    max_predictions: int | None = None
    generator: str | None = None
    accumulation_steps: int = 1
    steps_per_execution: int = 1
    report_every: int = 100
    evaluate_every: int | None = None
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
