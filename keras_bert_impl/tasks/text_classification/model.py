"""`TextClassifier`: classification or regression of texts and text pairs."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    classifier_dropout,
    classifier_dropout_key,
    has_head,
    head_tensors,
)
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.scores.calibration import (
    Calibration,
    Goal,
    bounds_of,
    calibration_of,
    thresholds_of,
)
from keras_bert_impl.data.scores.counting import score_metrics
from keras_bert_impl.data.scores.decisions import at_least, check_scores, likeliest
from keras_bert_impl.data.tables.label_codec import LabelCodec, text_labels
from keras_bert_impl.data.tables.labels import (
    MULTI,
    PROBLEM_TYPES,
    REGRESSION,
    SINGLE,
    check_several,
    classes_in_head,
    copy_classes,
    label_config,
    label_names,
    tensors_to_read,
    with_labels,
)
from keras_bert_impl.data.tables.user_input import is_one_text
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import (
    check_sees_all,
    needs_pooler,
    sequence_head,
    sequence_vector,
)
from keras_bert_impl.tasks.base.explaining import TargetScore, label_number, log_odds
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskLoss, multi_label_metrics
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.tasks.base.raw_text import quantized_error
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.text_classification.poolings import pooling_named
from keras_bert_impl.tasks.text_classification.signature import (
    ClassSignatures,
    TextClassifierNetwork,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, Rate, check


@keras.saving.register_keras_serializable("keras_bert_impl")
class TextClassifier(TaskModel):
    """Text classifier: a pre-trained encoder with a classification head.

    The head is the head that was published with the architecture. For BERT and ALBERT, it is a
    linear layer on the pooled output.

    See `RawTextTrainer` for the inputs of `fit`, `evaluate` and `predict`. Labels depend on
    `problem_type`:

    - `"single_label_classification"`: a class index or a label name for each text;
    - `"multi_label_classification"`: a list of label names, or 0 and 1 `[num_classes]`, for each
      text;
    - `"regression"`: a number, or `num_classes` numbers, for each text.

    The network returns logits, float32 `[batch, num_classes]`. `predict` and the exported model
    return scores of the same shape: softmax probabilities, sigmoid probabilities for multi-label
    classification, or the values for regression.

    `long_texts` sets how texts longer than `max_length` are handled; see `LongTexts`. If a text is
    split into windows, the vectors of its windows are pooled, and the head classifies the pooled
    vector. With mean pooling and a linear head, the logits are the mean of the logits of the
    windows. In a text pair, only the second text is split.

    Args:
        encoder: `Encoder`. A BERT or ALBERT encoder must have a pooler.
        num_classes: number of classes, or number of values per text in regression.
        labels: class names. Replaces `num_classes`.
        problem_type: see above. Default: regression if `num_classes=1`, else single label.
        head_dropout: dropout rate before the linear layer. Default: the dropout rate of the
            encoder.
        max_length: sequence length in tokens. Default 128.
        pooling: input of the head. `"cls"` is the hidden state of the first token. `"mean"`,
            `"max"` and `"attention"` are the mean, the elementwise maximum and a learned weighted
            mean of all hidden states. If `pooling` is set, the pooler of the encoder is not used.
            Default: the pooling that was published for the architecture.
        long_texts: `LongTexts`, or a str, the argument `way` of `LongTexts`. Default: long texts
            are truncated.
        thresholds: dict of label -> minimum probability. For multi-label classification, the
            default is 0.5 for each label. For single-label classification, one label may have a
            threshold; otherwise, the label with the highest score is predicted. `calibrate` selects
            thresholds.

    Source: Devlin et al., "BERT", section 4.1.

    Example:
        classifier = TextClassifier.from_pretrained("path/to/model", labels=["bad", "good"])
        classifier.fit(["dull", "a joy"], ["bad", "good"], epochs=3)
        classifier.predict(["what a film"])  # float32 [1, 2]
        classifier.export("exported")
    """

    head = "classifier"
    signature_class = ClassSignatures
    has_class_logits = True
    has_attribution = True
    pipeline_tag = "text-classification"
    example_call = ".predict(['a text'])"
    network = TextClassifierNetwork
    settings = ("pooling", "long_texts", "thresholds")

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        num_classes: int | None = None,
        labels: list[str] | None = None,
        problem_type: str | None = None,
        head_dropout: Rate | None = None,
        max_length: int | None = None,
        pooling: str | None = None,
        long_texts: LongTexts | str | dict[str, Any] | None = None,
        thresholds: dict[str, float] | None = None,
        name: str | None = None,
    ) -> None:
        token_pooling = None if pooling is None else pooling_named(pooling)
        labels = label_names(num_classes, labels)
        problem_type = problem_type or (REGRESSION if len(labels) == 1 else SINGLE)
        check("problem_type", problem_type, Annotated[str, OneOf(*PROBLEM_TYPES)])
        if problem_type == SINGLE:
            check_several(labels)
        head = sequence_head(
            encoder,
            len(labels),
            head_dropout,
            name="classifier",
            pools_tokens=token_pooling is not None,
        )
        long_texts = LongTexts().changed(long_texts)
        inputs = long_texts.inputs()

        def pool_rows(rows):
            if token_pooling is None:
                return self.row_vectors(encoder, rows)
            states = encoder(rows)["sequence_output"]  # [rows, length, hidden]
            return token_pooling.pool(encoder, states, rows["padding_mask"])

        vectors = long_texts.vectors(pool_rows, inputs, encoder)
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            outputs=head(vectors),  # [batch, num_classes]
            max_length=max_length,
            long_texts=long_texts,
            name=name,
        )
        self.pooling = pooling
        self.head_layer = head
        self.labels = labels
        self.problem_type = problem_type
        self.outputs_are = Outputs(problem_type, len(labels))
        self.thresholds = thresholds

    @staticmethod
    def row_vectors(encoder: Encoder, inputs: dict[str, Any]) -> Any:
        """Returns the vectors that are the input of the head, `[rows, hidden]`.

        Raises:
            InputError: the encoder has causal (left-to-right) attention.
        """
        check_sees_all(encoder.config)
        return sequence_vector(encoder, encoder(inputs))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "labels": self.labels,
            "problem_type": self.problem_type,
            "head_dropout": self.head_layer.dropout.rate,
        }

    @property
    def num_classes(self) -> int:
        """Number of classes, or number of values per text in regression."""
        return len(self.labels)

    @property
    def thresholds(self) -> dict[str, float] | None:
        """Dict of label -> minimum probability; None for the defaults."""
        return thresholds_of(self._bounds, self.labels)

    @thresholds.setter
    def thresholds(self, value: dict[str, float] | None) -> None:
        self._bounds = bounds_of(value, self.labels, self.problem_type)

    @property
    def bounds(self) -> np.ndarray | None:
        """Threshold of each label, float32 `[num_classes]`; NaN for labels without a threshold."""
        if self.problem_type == MULTI:
            return np.where(np.isnan(self._bounds), np.float32(0.5), self._bounds)
        return None if np.isnan(self._bounds).all() else self._bounds

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Converts scores `[texts, num_classes]` to predictions. NaN scores give NaN predictions.

        Returns:
            Class indices `[texts]`; for multi-label classification, 0 and 1 `[texts, num_classes]`.
        """
        if self.problem_type == SINGLE:
            return likeliest(scores, self.bounds)
        return at_least(scores, self.bounds)

    def calibrate(
        self, x: Any, y: Any, threshold: str | None = None, label: str | None = None
    ) -> Calibration:
        """Calibrates probabilities on held-out texts, and optionally selects thresholds.

        Divides the weights of the last layer by a temperature, so that all logits are divided by
        the temperature. Models that are saved or exported afterwards are also calibrated. If the
        model has no thresholds, calibration does not change the predicted labels.

        Args:
            x, y: texts that the model was not trained on, and their labels; see `fit`.
            threshold: rule for selecting the threshold. `"f1"` maximizes the F1 score. In rules
                such as `"f2"`, the number is the beta of the F-score. `"recall=0.9"` maximizes the
                precision among thresholds with at least this recall, and `"precision=0.9"`
                maximizes the recall among thresholds with at least this precision. `"cost=1,10"`
                minimizes the total cost of false positives (1 each) and false negatives (10 each).
                Default: no threshold is selected.
            label: label to select a threshold for. Default: the second class if there are two
                classes; all labels in multi-label classification.

        Raises:
            InputError: the model is for regression, the temperature cannot be fitted, no threshold
                satisfies the rule, or the rule is unknown.

        Source: Guo et al. 2017, "On Calibration of Modern Neural Networks" (arXiv:1706.04599).

        Example:
            print(classifier.calibrate(texts, labels, threshold="f1"))
            classifier.save_pretrained("calibrated")
        """
        if self.is_quantized:
            raise quantized_error("calibrated")
        texts = self.as_texts(x)
        calibration = calibration_of(
            self.predict(texts, verbose=0),
            self.label_codec.encode(y, len(texts)),
            self.labels,
            self.problem_type,
            Goal(threshold, label),
        )
        for weight in self.head_layer.dense.weights:
            weight.assign(weight / calibration.temperature)
        self.thresholds = calibration.thresholds
        return calibration

    def classify(
        self, texts: Any, batch_size: int | None = None, verbose: int | str = 0
    ) -> str | list:
        """Returns the predicted label name of each text.

        In multi-label classification, returns a list of names for each text. Predictions depend on
        `thresholds`.

        Args:
            texts: texts or (first, second) tuples. For a single text or tuple, a single result is
                returned.
        """
        if self.problem_type == REGRESSION:
            raise InputError("a regression model has no label names; predict() returns its values.")
        scores = self.predict(texts, batch_size=batch_size, verbose=verbose)
        check_scores(scores)
        if self.problem_type == SINGLE:
            names = [self.labels[number] for number in self.decide(scores)]
        else:
            names = [[self.labels[i] for i in np.flatnonzero(row)] for row in self.decide(scores)]
        return names[0] if is_one_text(texts) else names

    # === Training ===

    def checked_texts(self, x: Any) -> list:
        texts = super().checked_texts(x)
        names = frozenset(self.labels)
        if texts and all(isinstance(text, tuple) and text[1] in names for text in texts):
            raise InputError(
                "all second segments are labels of this model. Pass texts and labels separately, "
                "fit(texts, labels)."
            )
        return texts

    @property
    def label_codec(self) -> LabelCodec:
        takes_soft = isinstance(self.loss, TaskLoss) and self.loss.takes_soft_labels
        return text_labels(self.labels, self.problem_type, takes_soft)

    def named_metrics(self) -> dict[str, Callable[[], Any]]:
        if self.problem_type == REGRESSION:
            return {}
        if self.problem_type == MULTI:
            return multi_label_metrics()
        return score_metrics(self.num_classes)

    def default_loss(self) -> keras.losses.Loss:
        if self.problem_type == REGRESSION:
            return keras.losses.MeanSquaredError()
        if self.problem_type == MULTI:
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return super().default_loss()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        if self.problem_type == REGRESSION:
            return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]
        return super().default_metrics()

    def scores(self, outputs: Any) -> Any:
        return self.outputs_are.probabilities(outputs)

    def attribution_target(self, row: Any, outputs: Any, target: Any) -> tuple[str, TargetScore]:
        number = label_number(self.labels, target)
        number = int(np.argmax(outputs[0])) if number is None else number
        if self.problem_type == SINGLE and len(self.labels) > 1:
            return self.labels[number], lambda logits: log_odds(logits, number)
        return self.labels[number], lambda logits: logits[:, number]

    # === Files ===

    @staticmethod
    def uses_pooler(config: EncoderConfig) -> bool:
        return needs_pooler(config)

    @classmethod
    def encoder_config(cls, config: EncoderConfig, arguments: dict[str, Any]) -> EncoderConfig:
        pools_tokens = arguments.get("pooling") is not None
        return dataclasses.replace(config, use_pooler=False) if pools_tokens else config

    def only_here(self) -> list[str]:
        """Returns the settings that change scores and are not supported by `transformers`."""
        pooling = [] if self.pooling is None else [f"pooling={self.pooling!r}"]
        return super().only_here() + pooling

    def pooling_names(self) -> list[TensorName]:
        token_tensors = [] if self.pooling is None else pooling_named(self.pooling).tensors
        return super().pooling_names() + token_tensors

    @classmethod
    def saved_settings(cls, source: ModelSource, given: dict[str, Any]) -> dict[str, Any]:
        saved = super().saved_settings(source, given)
        if "labels" in given or "num_classes" in given:  # saved thresholds are for other classes
            saved.pop("thresholds", None)
        return saved

    @classmethod
    def pretrained_arguments(
        cls, source: ModelSource, config: EncoderConfig, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        with_head = has_head(source, config, cls.head)
        last = head_tensors(config, cls.head)[-1].tensor if with_head else None
        arguments = with_labels(source, arguments, last, "an encoder without a classifier")
        if with_head:
            stated = source.config.text("problem_type", None, choices=PROBLEM_TYPES)
            arguments.setdefault("problem_type", stated)
        arguments.setdefault("head_dropout", classifier_dropout(source, config))
        return arguments

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        names = head_tensors(self.config, self.head)
        classes = classes_in_head(source, self.labels)
        return tensors_to_read(source, names, self.num_classes, classes) + self.pooling_names()

    def order_classes(self, source: ModelSource) -> None:
        classes = classes_in_head(source, self.labels)
        if classes is not None:
            copy_classes(self, source, head_tensors(self.config, self.head), classes)

    def task_config(self) -> dict[str, Any]:
        return {
            **label_config(self.labels),
            "problem_type": self.problem_type,
            classifier_dropout_key(self.config): self.head_layer.dropout.rate,
        }
