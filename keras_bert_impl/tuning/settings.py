"""Settings of how a model is tuned; imports nothing heavy, for the command line's help."""

import dataclasses
from typing import Annotated

from keras_bert_impl.adapter import ADAPTER_KINDS, ADAPTER_RATES, HEAD_RATES, PROJECTIONS, Adapter
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import (
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Range,
    Rate,
    validate,
)

FULL, HEAD, BIAS = "full", "head", "bias"
TUNINGS = (FULL, HEAD, BIAS, *ADAPTER_KINDS)
_RATES = {FULL: 3e-5, HEAD: 1e-3, BIAS: 1e-3, **ADAPTER_RATES}
CRF_RATE = 5e-3


@dataclasses.dataclass(frozen=True)
class TuningSettings:
    """Which weights learn, and how fast.

    In all ways the head learns, and what is above the blocks. Where blocks share weights, as in
    ALBERT, layers are those with weights of their own.

    Args:
        tuning: str. `"full"`: all weights learn; `"head"`: none of the embeddings and blocks;
            `"bias"`: of the encoder its biases alone; or a kind of `Adapter`: small weights that
            are added learn in place of the encoder's. Of all but `"full"` a run keeps no more than
            what learned, to be read onto the model that it started from.
        learning_rate: float or None for 3e-5, and where few weights learn for more: 5e-4
            (adapters), 1e-3 (LoRA, head, bias), 5e-3 (prefix), 3e-2 (prompt). The highest.
        head_rate: float or None for `learning_rate`, and of prefix and prompt for 1e-3. The same of
            what is above the blocks: the pooler and the head.
        crf_rate: float. The same of the scores of a CRF. They begin at 0, and the sums that they
            are added to are of some units: at a rate for an encoder they would stay where they are.
        layer_decay: float in (0, 1]. The rate of the last block is that times `learning_rate`, and
            so on downwards, the embeddings last; pooler and head learn at `head_rate`. (In the code
            of ELECTRA the last block has the square.)
        frozen_layers: int or None. The embeddings and so many first layers do not learn.
        reinitialized_layers: int. So many last layers, and the pooler, begin with random weights.
        unfreeze_gradually: bool. The first epoch trains the head, and each epoch one layer more,
            from the last.
        adapter_size, lora_alpha, lora_dropout, lora_projections: as `size`, `alpha`, `dropout` and
            `projections` of `Adapter`.

    Raises:
        InputError: settings that do not go together.

    Source: Ben Zaken et al. 2022 (arXiv:2106.10199) for biases; Clark et al. 2020
    (arXiv:2003.10555), appendix B, for the decay; Zhang et al. 2021 (arXiv:2006.05987), section
    4, for layers that begin anew; Howard & Ruder 2018 (arXiv:1801.06146), section 3.3, for
    unfreezing; of the others see `Adapter`.
    """

    tuning: Annotated[str, OneOf(*TUNINGS)] = FULL
    learning_rate: PositiveFloat | None = None
    head_rate: PositiveFloat | None = None
    crf_rate: PositiveFloat = CRF_RATE
    layer_decay: Annotated[float, Range(above=0, most=1)] = 1.0
    frozen_layers: NonNegativeInt | None = None
    reinitialized_layers: NonNegativeInt = 0
    unfreeze_gradually: bool = False
    adapter_size: PositiveInt | None = None
    lora_alpha: PositiveFloat = 16.0
    lora_dropout: Rate = 0.0
    lora_projections: tuple[Annotated[str, OneOf(*PROJECTIONS)], ...] = PROJECTIONS

    def __post_init__(self):
        validate(self)
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", _RATES[self.tuning])
        self._check_together()
        _ = self.adapter

    def _check_together(self):
        defaults = {field.name: field.default for field in dataclasses.fields(TuningSettings)}
        chosen = {n for n, default in defaults.items() if getattr(self, n) != default}
        if self.tuning != FULL:
            # What a run would not keep, or what does not learn.
            of_full = {"frozen_layers", "reinitialized_layers", "unfreeze_gradually"}
            self._refuse(chosen & of_full)
        if self.tuning not in ADAPTER_KINDS:
            self._refuse(chosen & {"adapter_size"})
        if self.tuning != "lora":
            self._refuse(chosen & {"lora_alpha", "lora_dropout", "lora_projections"})

    def _refuse(self, names):
        for name in sorted(names):
            raise InputError(f"{name} does not go together with tuning={self.tuning}.")

    @property
    def adapter(self):
        """The `Adapter` to add, or None."""
        if self.tuning not in ADAPTER_KINDS:
            return None
        projections = [name for name in PROJECTIONS if name in self.lora_projections]
        if len(projections) != len(self.lora_projections):
            projections = self.lora_projections  # for its message
        return Adapter(
            self.tuning, self.adapter_size, self.lora_alpha, self.lora_dropout, projections
        )

    @property
    def head_factor(self):
        """float. What the learning rate is multiplied by for the pooler and the head."""
        rate = HEAD_RATES.get(self.tuning, self.learning_rate)
        return (self.head_rate or rate) / self.learning_rate

    @property
    def is_small(self):
        """bool. Whether a run keeps no more than what learned."""
        return self.tuning != FULL
