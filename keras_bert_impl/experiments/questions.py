"""Questions and settings of `ablate`, without TensorFlow, so that `--help` is fast."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, PositiveInt, Range, Seed, check, validate


@dataclasses.dataclass(frozen=True)
class Variant:
    """One of the variants that a question of `ablate` compares.

    Attributes:
        name: name in the results.
        pretraining: changed fields of `PretrainSettings`.
        finetuning: changed fields of `FinetuneSettings`.
        records: objective of `prepare`.
        steps: factor for the number of pre-training steps; 0 for random weights.
        layers: factor for the number of layers.
        width: factor for the number of attention heads and for all dimensions.
    """

    name: str
    pretraining: dict[str, Any] = dataclasses.field(default_factory=dict)
    finetuning: dict[str, Any] = dataclasses.field(default_factory=dict)
    records: str = "mlm"
    steps: float = 1.0
    layers: float = 1.0
    width: float = 1.0


FINETUNING = {"learning_rate": 5e-4}  # settings that replace the defaults of `FinetuneSettings`
_CAUSAL = {"objectives": ("left_to_right",)}
_PAIRS = {"objectives": ("masked_lm", "next_sentence")}
_HEAD = {"tuning": "head", "learning_rate": None}

# Question -> variants. All variants are compared with the first variant.
QUESTIONS: dict[str, tuple[Variant, ...]] = {
    # Devlin et al., section 5.1
    "objective": (
        Variant("masked LM"),
        Variant("left to right", _CAUSAL),
        Variant("random weights", steps=0),
    ),
    "nsp": (
        Variant("masked LM on pairs", {"objectives": ("masked_lm",)}, records="mlm_nsp"),
        Variant("masked LM and next sentence", _PAIRS, records="mlm_nsp"),
    ),
    # section 5.2
    "size": (
        Variant("all layers and dimensions"),
        Variant("half the layers", layers=0.5),
        Variant("half the width", width=0.5),
        Variant("half of both", layers=0.5, width=0.5),
    ),
    # section 5.3
    "features": (
        Variant("fine-tuned"),
        Variant("features: only the head is trained", finetuning=_HEAD),
        Variant("random weights, fine-tuned", steps=0),
        Variant("random weights, only the head is trained", finetuning=_HEAD, steps=0),
    ),
    # appendix C.1
    "steps": (
        Variant("masked LM, all steps"),
        Variant("masked LM, 1/2 of the steps", steps=0.5),
        Variant("masked LM, 1/4 of the steps", steps=0.25),
        Variant("left to right, all steps", _CAUSAL),
        Variant("left to right, 1/2 of the steps", _CAUSAL, steps=0.5),
        Variant("left to right, 1/4 of the steps", _CAUSAL, steps=0.25),
    ),
    # appendix C.2
    "masks": (
        Variant("80% [MASK], 10% random, 10% unchanged"),
        Variant("100% [MASK]", {"mask_split": (1.0, 0.0, 0.0)}),
        Variant("100% random", {"mask_split": (0.0, 1.0, 0.0)}),
    ),
}


def with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """Adds the defaults of ablations to the settings of fine-tuning."""
    for name in ("model", "seed"):
        if name in options:
            raise InputError(f"leave out {name}: ablations set the model and the seed of each run.")
    return FINETUNING | options


def checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """Returns the seeds. Raises `InputError` for no seeds and for repeated seeds."""
    checked = check("seeds", seeds, tuple[Seed, ...])
    if not checked or len({*checked}) < len(checked):
        raise InputError(f"seeds must be different numbers. Received: {list(checked)}")
    return checked


def chosen_questions(
    questions: Sequence[str] | Mapping[str, Sequence[Variant]],
) -> Mapping[str, Sequence[Variant]]:
    """Returns {question: variants}. Raises `InputError` for unknown names."""
    if isinstance(questions, Mapping):
        return questions
    names = check("questions", questions, tuple[Annotated[str, OneOf(*QUESTIONS)], ...])
    return {name: QUESTIONS[name] for name in names}


@dataclasses.dataclass(frozen=True)
class AblationSettings:
    """Settings of pre-training in ablations.

    Args:
        budget: Number of pre-training steps of a run.
        vocabulary_size: Number of tokens to learn from the corpus, if there is no tokenizer.
    """

    budget: PositiveInt = 1600
    vocabulary_size: Annotated[int, Range(least=300)] = 8192

    def __post_init__(self):
        validate(self)
