"""Fine-tuning settings. Does not import TensorFlow, so that `--help` is fast."""

import dataclasses
from typing import Annotated

from keras_bert_impl.checkpoints.config import (
    ADAPTER_KINDS,
    ADAPTER_RATES,
    HEAD_RATES,
    PROJECTIONS,
    Adapter,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import (
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
    """Settings for the trained weights and their learning rates.

    All weights above the blocks, including the head, are always trained. Blocks with the same
    weights, as in ALBERT, count as one layer.

    Args:
        tuning: Weights to train, such as `"full"`, `"head"` or `"lora"`. `"full"` trains all
            weights. `"head"` freezes the embeddings and blocks. `"bias"` trains only the biases of
            the encoder. The other values add an `Adapter` of this kind and train the adapter
            instead of the encoder. Except for `"full"`, a run saves only the trained weights, and
            loading them also requires the base model.
        learning_rate: Peak learning rate. Default: 3e-5; 3e-4 for tagging with a hidden dimension
            of at most 384. The default is higher if few weights are trained. It is 5e-4 for adapters, 1e-3 for LoRA, head and bias, 5e-3 for prefix, and 3e-2 for prompt.
        head_rate: Peak learning rate of the weights above the blocks: the pooler and the head.
            Default: `learning_rate`; 1e-3 for prefix and prompt.
        crf_rate: Peak learning rate of the CRF weights. CRF weights start at 0 and must grow to
            about 1, so they need a higher learning rate than the encoder.
        layer_decay: Layer-wise learning-rate decay: factor from each layer to the layer below, in
            (0, 1]. The rate of the last block is `layer_decay * learning_rate`. The factor is
            applied again at each lower layer, down to the embeddings. The pooler and the head use
            `head_rate`. ELECTRA's code uses `layer_decay ** 2` for the last block.
        frozen_layers: Number of first layers to freeze, together with the embeddings.
        reinitialized_layers: Number of last layers that start from random weights, together with
            the pooler.
        unfreeze_gradually: Gradual unfreezing: the first epoch trains the head, and each later
            epoch trains one more layer.
        adapter_size: Rank of LoRA, width of adapters, or length of the prefix or prompt. See `size`
            of `Adapter`. Default: see `Adapter`.
        lora_alpha: The LoRA update is multiplied by `lora_alpha` divided by the LoRA rank. See
            `alpha` of `Adapter`.
        lora_dropout: Dropout before the LoRA weights. See `dropout` of `Adapter`.
        lora_projections: Attention projections that get LoRA weights. See `projections` of
            `Adapter`.

    Raises:
        InputError: the settings cannot be combined.

    Source: Ben Zaken et al. 2022 (arXiv:2106.10199) for biases; Clark et al. 2020
    (arXiv:2003.10555), appendix B, for the decay; Zhang et al. 2021 (arXiv:2006.05987), section 4,
    for reinitialized layers; Howard & Ruder 2018 (arXiv:1801.06146), section 3.3, for gradual
    unfreezing. For the other methods, see `Adapter`.
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
        changed_names = {n for n, default in defaults.items() if getattr(self, n) != default}
        if self.tuning != FULL:
            # These settings change weights that the run neither saves nor trains.
            weight_settings = {"frozen_layers", "reinitialized_layers", "unfreeze_gradually"}
            self._refuse(changed_names & weight_settings)
        if self.tuning not in ADAPTER_KINDS:
            self._refuse(changed_names & {"adapter_size"})
        if self.tuning != "lora":
            self._refuse(changed_names & {"lora_alpha", "lora_dropout", "lora_projections"})

    def _refuse(self, names):
        for name in sorted(names):
            raise InputError(f"{name} cannot be combined with tuning={self.tuning}.")

    @property
    def adapter(self) -> Adapter | None:
        """The `Adapter` to add, or None if no adapter is used."""
        if self.tuning not in ADAPTER_KINDS:
            return None
        projections = tuple(name for name in PROJECTIONS if name in self.lora_projections)
        return Adapter(
            self.tuning, self.adapter_size, self.lora_alpha, self.lora_dropout, projections
        )

    @property
    def head_factor(self) -> float:
        """Learning-rate factor of the pooler and the head."""
        rate = HEAD_RATES.get(self.tuning, self.learning_rate)
        return (self.head_rate or rate) / self.learning_rate

    @property
    def is_small(self) -> bool:
        """Whether a run saves only the trained weights."""
        return self.tuning != FULL
