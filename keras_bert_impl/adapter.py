"""Configuration of a parameter-efficient adapter."""

import dataclasses
from typing import Annotated, Any

from keras_bert_impl.first_guesses import known_fields
from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.settings import OneOf, PositiveFloat, PositiveInt, Rate, validate

# Adapter kind -> default learning rate of the adapter's weights.
ADAPTER_RATES = {
    "lora": 1e-3,
    "houlsby": 5e-4,
    "pfeiffer": 5e-4,
    "prefix": 5e-3,
    "prompt": 3e-2,
}
# Default learning rate of the pooler and head, where it differs from the adapter's.
HEAD_RATES = {"prefix": 1e-3, "prompt": 1e-3}
ADAPTER_KINDS = tuple(ADAPTER_RATES)
_SIZES = {"lora": 4, "houlsby": 64, "pfeiffer": 64, "prefix": 20, "prompt": 20}
PROJECTIONS = ("query", "key", "value", "attention_output", "intermediate", "gate", "output")


@known_fields("Adapter")
@dataclasses.dataclass(frozen=True)
class Adapter:
    """Configuration of adapter weights that are trained instead of the encoder's own.

    Args:
        kind: `"lora"`: a low-rank product added to some weight matrices of the blocks. `"houlsby"`:
            a residual bottleneck network after the attention and after the feed-forward layer of
            each block, before the block's own residual. `"pfeiffer"`: only the one after the
            feed-forward layer. `"prefix"`: trained keys and values prepended to those of each
            attention. `"prompt"`: trained vectors prepended to the embeddings; when a task model is
            loaded, they are initialized to embeddings of common words.
        size: LoRA rank (default 4), bottleneck width (default 64) or number of vectors (default
            20).
        alpha: LoRA's product is scaled by `alpha / size`.
        dropout: Dropout rate, in [0, 1), on the inputs of LoRA's product.
        projections: Matrices that LoRA is added to, from `PROJECTIONS`. `"gate"` has no effect in
            blocks without gates.

    Blocks that share weights, as in ALBERT, also share their adapter weights.

    Raises:
        InputError: an invalid value.

    Source: Hu et al. 2021 (arXiv:2106.09685), section 4; Houlsby et al. 2019 (arXiv:1902.00751),
    section 2; Pfeiffer et al. 2021 (arXiv:2005.00247), for the position after the feed-forward
    layer; Li & Liang 2021 (arXiv:2101.00190), without the reparameterization network; Lester et
    al. 2021 (arXiv:2104.08691), section 2.

    Example:
        TextClassifier.from_pretrained("model", num_classes=2, adapter=Adapter("lora"))
    """

    kind: Annotated[str, OneOf(*ADAPTER_KINDS)]
    size: PositiveInt | None = None
    alpha: PositiveFloat = 16.0
    dropout: Rate = 0.0
    projections: tuple[Annotated[str, OneOf(*PROJECTIONS)], ...] = PROJECTIONS

    def __post_init__(self) -> None:
        validate(self)
        if self.size is None:
            object.__setattr__(self, "size", _SIZES[self.kind])

    @classmethod
    def of(cls, value: Any, source: str = "adapter") -> "Adapter | None":
        """Converts an `Adapter`, a dict of its fields or None to an `Adapter` or None.

        `source` names the setting in error messages.

        Raises:
            InputError: the value has another type, or invalid fields or field values.
        """
        if value is None or isinstance(value, cls):
            return value
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(value, dict) or not {"kind"} <= set(value) <= set(names):
            odd = sorted(set(value) - set(names)) if isinstance(value, dict) else value
            raise InputError(
                f"{source} must be an Adapter, or a dict of its fields: {', '.join(names)}; "
                f"kind is required. Received: {shown(odd)}"
            )
        try:
            return cls(**value)
        except (InputError, TypeError) as error:
            raise InputError(f"{source}: {error}") from error

    @property
    def num_virtual_tokens(self) -> int:
        """Number of vectors prepended to the embeddings."""
        return self.size if self.kind == "prompt" else 0
