"""Settings of a fine-tuning run; imports nothing heavy, for the command line's help."""

import dataclasses
from typing import Annotated, ClassVar

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import (
    DType,
    NonNegativeFloat,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Range,
    Rate,
    Seed,
)
from keras_bert_impl.tasks.base.options import LONG_TEXTS
from keras_bert_impl.tasks.runs.objective_settings import ObjectiveSettings
from keras_bert_impl.tuning.settings import CRF_RATE, FULL

# The grid that BERT was fine-tuned with on every task: Devlin et al., appendix A.3.
PAPER_GRID = {"batch_size": [16, 32], "learning_rate": [5e-5, 3e-5, 2e-5], "epochs": [2, 3, 4]}


@dataclasses.dataclass(frozen=True)
class FinetuneSettings(ObjectiveSettings):
    """Settings of a fine-tuning run.

    See `TuningSettings` for which weights are trained and at which learning rates, and
    `ObjectiveSettings` for training signals besides the labels.

    Args:
        model: str. A model directory.
        epochs: int.
        batch_size: int. Texts of the global batch.
        warmup: float. Share of the steps in which the learning rate rises; then it falls to 0.
        weight_decay: float. Not applied to biases and normalization layers.
        clip_norm: float or None. Limit of the global gradient norm.
        max_length: int or None for the task's: 384 for questions, else 128. Row length in tokens.
            Longer texts are truncated, or split into windows of this length for tagging, questions
            and depending on `long_texts`.
        dropout: float or None for the model's own.
        accumulation_steps: int. Micro-batches per replica and step.
        dtype: str. Keras dtype policy, such as `"mixed_bfloat16"`.
        doc_stride: int or None for the task's: 128 for questions, else half of `max_length`. For
            windows: tokens from the start of one to the start of the next.
        long_texts: str or None for `"truncate"`. For texts, pairs and the prompts of choices: how
            those longer than `max_length` are handled; see `LongTexts`.
        max_windows: int or None for 8. Maximum number of windows of such a text.
        class_weight: `"balanced"`, or dict of label name -> factor in the loss. For texts with one
            label each; see `TextClassifier.fit`.
        max_question_length: int or None for 64. Questions are truncated to this number of tokens.
        label_all_pieces: bool. For tagging: whether every subword of a word learns its label.
        crf: bool. For tagging: whether to use a conditional random field over the words.
        features: str or int. For tagging: freezes the encoder and trains a BiLSTM on these of its
            hidden states, with a default `learning_rate` of 1e-3; see `FeatureTagger`. None
            fine-tunes the encoder.
        loss: str or None for the first. For similarity: cosine (learns the labels as cosines) or
            cosent (learns their order); for texts without labels, multiple_negatives or, with
            three texts, triplet.
        pooling: str or None for the model's own. For similarity: cls, mean (the default of models
            without one) or max. For texts with classes or numbers: mean, max or attention over all
            tokens, instead of the vector that the encoder was published with.
        keep_best: bool. Whether to keep the model of the epoch with the best score on the
            development set, by the first of the task's metrics, instead of the last epoch.
        patience: int or None. The run ends after this number of consecutive epochs without a better
            score; implies `keep_best`. The learning rate falls as in a run of all `epochs`.
        seed: int. Determines the newly initialized head, the order of the texts and dropout.

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
    label_all_pieces: bool = False
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
        "label_all_pieces",
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
