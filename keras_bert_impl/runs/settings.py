"""Settings of a fine-tuning run; does not import TensorFlow."""

import dataclasses
import inspect
from typing import Annotated, Any

from keras_bert_impl.tasks.names import settings_of_tasks
from keras_bert_impl.training.tuning.settings import FULL, TuningSettings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import (
    DType,
    NonNegativeFloat,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Range,
    Rate,
    Seed,
    Share,
)

# The grid for fine-tuning BERT on all tasks: Devlin et al., appendix A.3.
PAPER_GRID = {"batch_size": [16, 32], "learning_rate": [5e-5, 3e-5, 2e-5], "epochs": [2, 3, 4]}
MAY_CHANGE = ("checkpoint_minutes",)  # settings that may change when a run is resumed
SOFT, TINYBERT = "soft", "tinybert"
_DEFAULTS = {  # default epochs for each value of `distillation`
    SOFT: {"temperature": 2.0, "teacher_weight": 0.5},
    TINYBERT: {"temperature": 1.0, "teacher_weight": 1.0, "intermediate_epochs": 10},
}


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(TuningSettings):
    """Settings of knowledge distillation and R-Drop.

    Args:
        teacher: Run or model directory of a teacher with the same task, labels and tokenizer. See
            `SoftTargets`.
        distillation: Distillation method. soft trains on the predictions of the teacher. tinybert
            first trains on the layers of the teacher for `intermediate_epochs` (see
            `IntermediateLayers`), then on the teacher's predictions for `epochs`. Each phase has a
            separate optimizer and learning-rate schedule. Default: soft, if there is a teacher.
        temperature: Divisor of both models' logits. Not for regression. Default: 2 for soft, 1 for
            tinybert.
        teacher_weight: Weight of the teacher's predictions in the loss. The labels have the weight
            `1 - teacher_weight`. Default: 0.5 for soft, 1 for tinybert.
        intermediate_epochs: Epochs of training on the teacher's layers, for tinybert. Default: 10.
        r_drop: Weight of the R-Drop loss, the divergence between two forward passes with different
            dropout. R-Drop doubles the computation. See `RDrop`. Default: none.

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


_OfTasks: Any = settings_of_tasks()


@known_arguments("FinetuneSettings")
@dataclasses.dataclass(frozen=True)
class FinetuneSettings(_OfTasks, ObjectiveSettings):
    """Settings of a fine-tuning run.

    `TuningSettings` declares which weights are trained, and the learning rates. `ObjectiveSettings`
    declares distillation and R-Drop. Task-specific settings are declared in the folders of the
    tasks.

    Args:
        model: Model directory or name to fine-tune.
        epochs: Passes over the training set.
        min_steps: Minimum number of steps. A small training set is repeated within each epoch.
            Default: none.
        batch_size: Texts per batch, over all devices.
        warmup: Fraction of the steps in which the learning rate rises. In the remaining steps, the
            learning rate falls to 0.
        weight_decay: Decoupled weight decay. Not applied to biases and normalization layers.
        clip_norm: Maximum global gradient norm. None for no limit.
        max_length: Maximum length in tokens. Longer texts are truncated. Tagging, question
            answering and some values of `long_texts` split longer texts into windows instead.
            Default: 128 (384 for questions).
        dropout: Dropout rate. Default: the model's rate.
        accumulation_steps: Gradient accumulation: number of micro-batches per batch.
        dtype: Dtype policy, such as `"mixed_bfloat16"`.
        keep_best: Save the epoch with the best `metric` on --dev.
        patience: Stop after this many epochs without a better score. Implies `keep_best`. The
            learning-rate schedule always covers all `epochs`.
        metric: Score used to compare epochs and runs, such as macro_f1, f1/CLASS or
            average_precision. Default: macro_f1 if the largest class has ten times as many
            examples as the smallest, else the task's default.
        checkpoint_minutes: Minutes between checkpoints within an epoch. You can change the value
            when you resume a run.
        seed: Seed of the head, the text order and dropout.

    Source: Devlin et al., "BERT", appendix A.3.
    """

    model: str = ""
    epochs: PositiveInt = 3
    min_steps: PositiveInt | None = None
    batch_size: PositiveInt = 32
    warmup: Rate = 0.1
    weight_decay: NonNegativeFloat = 0.01
    clip_norm: PositiveFloat | None = 1.0
    max_length: Annotated[int, Range(least=3)] | None = None
    dropout: Rate | None = None
    accumulation_steps: PositiveInt = 1
    dtype: DType = "float32"
    keep_best: bool = False
    patience: PositiveInt | None = None
    metric: str | None = None
    checkpoint_minutes: PositiveFloat = 10.0
    seed: Seed = 1

    def __post_init__(self):
        super().__post_init__()
        if self.patience is not None:
            object.__setattr__(self, "keep_best", True)

    @property
    def of_tasks(self) -> dict[str, Any]:
        """Task-specific settings that differ from their defaults."""
        general = {field.name for field in dataclasses.fields(ObjectiveSettings)}
        general |= set(inspect.get_annotations(FinetuneSettings))
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in general and getattr(self, field.name) != field.default
        }


def with_settings_of(settings_class: type, *tasks: Any) -> type:
    field_names = {field.name for field in dataclasses.fields(settings_class)}
    new = {name: task for task in tasks for name in task.settings if name not in field_names}
    if not new:
        return settings_class
    declared = [(name, *task.declared(name)) for name, task in new.items()]
    fields = [(name, kind, dataclasses.field(default=value)) for name, kind, value in declared]
    extended_class = dataclasses.make_dataclass(
        "FinetuneSettings", fields, bases=(settings_class,), frozen=True
    )
    lines = [f"    {name}: Argument of {new[name].model_classes[0].__name__}." for name in new]
    extended_class.__doc__ = "\n".join(
        ["Settings of tasks registered outside this package.", "", "Args:", *lines]
    )
    return known_arguments("FinetuneSettings")(extended_class)
