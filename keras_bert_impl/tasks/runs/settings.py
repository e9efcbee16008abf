"""Settings of a fine-tuning run; imports nothing heavy, for the command line's help."""

import dataclasses
from typing import Annotated, ClassVar

from keras_bert_impl.first_guesses import known_fields
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import (
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
from keras_bert_impl.tasks.base.options import LONG_TEXTS
from keras_bert_impl.tuning.settings import CRF_RATE, FULL, TuningSettings

# The grid that BERT was fine-tuned with on every task: Devlin et al., appendix A.3.
PAPER_GRID = {"batch_size": [16, 32], "learning_rate": [5e-5, 3e-5, 2e-5], "epochs": [2, 3, 4]}
SOFT, TINYBERT = "soft", "tinybert"
_DEFAULTS = {  # of the kinds of distillation
    SOFT: {"temperature": 2.0, "teacher_weight": 0.5},
    TINYBERT: {"temperature": 1.0, "teacher_weight": 1.0, "intermediate_epochs": 10},
}


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(TuningSettings):
    """Training signals besides the labels: a teacher, or R-Drop.

    Args:
        teacher: Run or model directory whose predictions are learned from too. It has the same
            task, labels and tokenizer; see `SoftTargets`.
        distillation: What is learned from the teacher. soft learns from its predictions; tinybert
            first learns from its layers for `intermediate_epochs` (see `IntermediateLayers`), then
            from its predictions for `epochs`. Each of the two phases has its own optimizer and a
            complete learning-rate schedule. Default: soft with a teacher.
        temperature: Divides the logits of both models. Not for regression. Default: 2 for soft, 1
            for tinybert.
        teacher_weight: Share of the teacher's predictions in the loss. The labels have the rest.
            Default: 0.5 for soft, 1 for tinybert.
        intermediate_epochs: Epochs on the teacher's layers, for tinybert. Default: 10.
        r_drop: Weight in the loss of the divergence between two passes with different dropout. See
            `RDrop`. A step is two forward and two backward passes. Default: none.

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


@known_fields("FinetuneSettings")
@dataclasses.dataclass(frozen=True)
class FinetuneSettings(ObjectiveSettings):
    """Settings of a fine-tuning run.

    See `TuningSettings` for which weights are trained and at which learning rates, and
    `ObjectiveSettings` for training signals besides the labels.

    Args:
        model: Model directory or name to start from.
        epochs: Passes over the training texts.
        batch_size: Texts of the global batch.
        warmup: Share of the steps in which the learning rate rises. Then it falls to 0.
        weight_decay: Decoupled weight decay. Not applied to biases and normalization layers.
        clip_norm: Limit of the global gradient norm. None for no limit.
        max_length: Row length in tokens. Longer texts are truncated, or split into windows of this
            length for tagging, questions and depending on `long_texts`. Default: 384 for questions,
            else 128.
        dropout: Dropout rate. Default: that of the model.
        accumulation_steps: Micro-batches per replica and step.
        dtype: Dtype policy of Keras, such as `"mixed_bfloat16"`.
        doc_stride: For windows: tokens from the start of one to the start of the next. Default: 128
            for questions, else half of `max_length`.
        long_texts: Use of texts, pairs and prompts of choices longer than `max_length`. See
            `LongTexts`. Default: `"truncate"`.
        max_windows: Maximum number of windows of a text longer than `max_length`. Default: 8.
        class_weight: Factor of each class in the loss. `"balanced"`, or label name -> factor. For
            texts with one label each; see `TextClassifier.fit`.
        max_question_length: Maximum tokens of a question. Longer ones are truncated. Default: 64.
        label_all_tokens: For tagging: every subword of a word learns its label.
        crf: For tagging: use a conditional random field over the words.
        features: For tagging: number of hidden states, or names, for a BiLSTM on a frozen encoder.
            The default `learning_rate` is then 1e-3; see `FeatureTagger`. None fine-tunes the
            encoder.
        loss: Loss for similarity. cosine (the default, learns the labels as cosines) or cosent
            (learns their order); for texts without labels, multiple_negatives (the default) or,
            with three texts, triplet.
        pooling: Vector of a text. For similarity: see `TextEmbedder`; mean is the default of models
            without one. For texts with classes or numbers: mean, max or attention over all tokens,
            instead of the vector that the encoder was published with. Default: that of the model.
        keep_best: Keep the epoch with the best score on --dev, not the last. The score is the first
            of the task's metrics.
        patience: Stop after this many epochs without a better score. Implies `keep_best`. The
            learning rate falls as in a run of all `epochs`.
        seed: Seed of the new head, the order of the texts and dropout.

    Source: Devlin et al., "BERT", appendix A.3.
    """

    model: str = ""
    epochs: PositiveInt = 3
    batch_size: PositiveInt = 32
    warmup: Rate = 0.1
    weight_decay: NonNegativeFloat = 0.01
    clip_norm: PositiveFloat | None = 1.0
    max_length: Annotated[int, Range(least=3)] | None = None
    dropout: Rate | None = None
    accumulation_steps: PositiveInt = 1
    dtype: DType = "float32"
    doc_stride: PositiveInt | None = None
    long_texts: Annotated[str, OneOf(*LONG_TEXTS)] | None = None
    max_windows: PositiveInt | None = None
    class_weight: dict | str | None = None
    max_question_length: PositiveInt | None = None
    label_all_tokens: bool = False
    crf: bool = False
    features: int | str | None = None
    loss: str | None = None
    pooling: str | None = None
    keep_best: bool = False
    patience: PositiveInt | None = None
    seed: Seed = 1

    of_tasks: ClassVar = (
        "doc_stride",
        "long_texts",
        "max_windows",
        "class_weight",
        "max_question_length",
        "label_all_tokens",
        "crf",
        "features",
        "loss",
        "pooling",
    )

    def __post_init__(self):
        if self.features is not None:
            if self.tuning != FULL:
                raise InputError(f"features cannot be combined with tuning={self.tuning}.")
            if self.learning_rate is None:
                object.__setattr__(self, "learning_rate", 1e-3)
        super().__post_init__()
        if self.patience is not None:
            object.__setattr__(self, "keep_best", True)
        if self.crf_rate != CRF_RATE and not self.crf:
            raise InputError("crf_rate requires crf=true.")
