"""Settings of a run's training objective; imports nothing heavy, for the command line's help."""

import dataclasses
from typing import Annotated

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import OneOf, PositiveFloat, PositiveInt, Share
from keras_bert_impl.tuning.settings import FULL, TuningSettings

SOFT, TINYBERT = "soft", "tinybert"
_DEFAULTS = {  # of the kinds of distillation
    SOFT: {"temperature": 2.0, "teacher_weight": 0.5},
    TINYBERT: {"temperature": 1.0, "teacher_weight": 1.0, "intermediate_epochs": 10},
}


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(TuningSettings):
    """Training signals besides the labels: a teacher, or R-Drop.

    Args:
        teacher: str or None. A run or model directory with the same task, labels and tokenizer; the
            model also learns from its predictions; see `SoftTargets`.
        distillation: str or None for soft. Requires a teacher. soft learns from its predictions;
            tinybert first learns from its layers for `intermediate_epochs` (see
            `IntermediateLayers`), then from its predictions for `epochs`. Each of the two phases
            has its own optimizer and a complete learning-rate schedule.
        temperature: float or None for 2 (tinybert 1). Divides the logits of both models; not for
            regression.
        teacher_weight: float or None for 0.5 (tinybert 1). Share of the teacher's predictions in
            the loss; the labels have the rest.
        intermediate_epochs: int or None for 10. For tinybert.
        r_drop: float or None for none. Weight in the loss of the divergence between two passes with
            different dropout; see `RDrop`. A step is two forward and two backward passes.

    Raises:
        InputError: the settings are incompatible.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3; Jiao et al. 2020, "TinyBERT", section
    4.2; Liang et al. 2021 (arXiv:2106.14448).
    """

    teacher: str | None = None
    distillation: Annotated[str, OneOf(*_DEFAULTS)] | None = None
    temperature: PositiveFloat | None = None
    teacher_weight: Share | None = None
    intermediate_epochs: PositiveInt | None = None
    r_drop: PositiveFloat | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.teacher is None:
            for name in ("distillation", *_DEFAULTS[TINYBERT]):
                if getattr(self, name) is not None:
                    raise InputError(f"{name} requires a teacher.")
        else:
            self._resolve()

    def _resolve(self):
        if self.r_drop is not None:
            raise InputError("r_drop cannot be combined with a teacher.")
        if self.distillation is None:
            object.__setattr__(self, "distillation", SOFT)
        if self.distillation == SOFT and self.intermediate_epochs is not None:
            raise InputError("intermediate_epochs requires distillation=tinybert.")
        if self.distillation == TINYBERT and (self.tuning != FULL or self.unfreeze_gradually):
            raise InputError(
                "distillation=tinybert requires tuning=full without unfreeze_gradually."
            )
        for name, value in _DEFAULTS[self.distillation].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
