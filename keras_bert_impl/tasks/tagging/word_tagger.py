"""`WordTagger`: base class of models that predict a label for each word."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import classifier_dropout, classifier_dropout_key
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.batches.blocks import in_blocks
from keras_bert_impl.data.batches.windows import TokenizedWindows, tokenize_windows
from keras_bert_impl.data.batches.words import Words, as_words
from keras_bert_impl.data.scores.counting import token_weights
from keras_bert_impl.data.scores.decisions import check_scores
from keras_bert_impl.data.tables.label_codec import LabelCodec, WordLabels
from keras_bert_impl.data.tables.labels import (
    check_several,
    check_token_labels,
    classes_in_head,
    copy_classes,
    label_config,
    tensors_to_read,
    with_labels,
)
from keras_bert_impl.data.tags.spans import (
    misfits,
    outside_candidates,
    outside_number,
    read_labels,
)
from keras_bert_impl.layers import CRF, ClassificationHead
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks.base.keras_losses import Outputs
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.base.token_labels import TokenLabels
from keras_bert_impl.tasks.tagging.entities import Entity, find_entities
from keras_bert_impl.tasks.tagging.signature import TaggerSignatures
from keras_bert_impl.tasks.tagging.word_scores import in_few_shapes, over_sequences, tagging_metrics
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.tuning.settings import CRF_RATE
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.internals import track_layer
from keras_bert_impl.utils.one_graph import compiled
from keras_bert_impl.utils.settings import PositiveInt, check

_LOG = logging.getLogger(__name__)
# Small encoders need a higher rate; see docs/measurements/finetuning.md.
_SMALL, _SMALL_RATE = 384, 3e-4  # hidden dimension, learning rate
_CRF_TENSORS = [
    TensorName(f"crf/{name}", f"crf.{name}", optional=True)
    for name in ("transitions", "start", "end")
]


class WordTagger(TokenLabels, TaskModel):
    """Base class for models that predict a label for each word.

    Subclasses create the network, whose outputs are logits `[batch, length, num_classes]`.
    Subclasses also convert words to network inputs, and network outputs to `WordScores`.

    Args:
        encoder, tokenizer, inputs, outputs, **kwargs: see `TaskModel`.
        head_layer: the layer that computes the logits.
        labels: label names.
        doc_stride: tokens between the starts of consecutive windows. Default: half of `max_length`.
        crf: whether to add a conditional random field (CRF) on the logits. Default: False.
    """

    has_several_rows = True
    has_token_labels = True
    splits_texts = True
    text_columns = ("tokens",)
    most_columns = 1
    signature_class = TaggerSignatures
    pipeline_tag = "token-classification"
    example_call = ".tag(['a text'])"

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        inputs: dict[str, Any],
        outputs: Any,
        head_layer: ClassificationHead,
        labels: list[str],
        doc_stride: PositiveInt | None = None,
        crf: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, tokenizer, inputs, outputs, **kwargs)
        self.head_layer = head_layer
        check_several(labels)
        self._warn_of_labels(labels)
        self.labels = labels
        self.outputs_are = Outputs(num_classes=len(labels))
        doc_stride = self.max_length // 2 if doc_stride is None else doc_stride
        self.doc_stride = check("doc_stride", doc_stride, PositiveInt)
        self.crf = bool(check("crf", crf, bool | None))
        if self.crf:
            self.crf_layer = CRF(len(labels), dtype=encoder.dtype_policy, name="crf")
            self.crf_layer.build(outputs.shape)
            track_layer(self, self.crf_layer)

    @staticmethod
    def _warn_of_labels(labels):
        if misfit_labels := outside_candidates(labels) or misfits(labels):
            _LOG.warning(
                "the labels are not entity labels because of %s. Use 'O' for words outside of "
                "entities, and 'B-TYPE' and 'I-TYPE' for entities.",
                listed(misfit_labels),
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "labels": self.labels,
            "head_dropout": self.head_layer.dropout.rate,
        }

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def default_learning_rate(self) -> float:
        is_small = self.config.hidden_dim <= _SMALL and self.config.adapter is None
        return _SMALL_RATE if is_small else super().default_learning_rate

    @property
    def default_rates(self) -> list[tuple[str, float]]:
        """Learning-rate factors of weights. The learning rate of the CRF weights is `CRF_RATE`."""
        return [("^crf/", CRF_RATE / self.default_learning_rate), *super().default_rates]

    @property
    def has_entities(self) -> bool:
        """Whether the labels mark entities."""
        return read_labels(self.labels) is not None

    # === Predictions ===

    def predict(self, x: Any, batch_size: int | None = None, *args: Any, **kwargs: Any) -> Any:
        """Predicts the label probabilities of each word.

        Args:
            x: texts or features; see the documentation of the model class.
            batch_size, *args, **kwargs: see `RawTextTrainer.predict`.

        Returns:
            A list with one float32 array `[words, num_classes]` per text. If the model has a CRF,
            the arrays contain the marginal probabilities over all label sequences. For the result
            for features, see the documentation of the model class.
        """
        answers = super().predict(x, batch_size, *args, **kwargs)
        return answers if isinstance(answers, np.ndarray) else self._compute_probabilities(answers)

    def tag(self, texts: Any, batch_size: int | None = None, verbose: int | str = 0) -> list:
        """Returns the predicted label of each word. A CRF predicts the most likely label sequence.

        Args:
            texts: list of str or of lists of words. For a single str, a single result is returned.
            batch_size, verbose: see `predict`.
        """

        def name_block(texts, answers):
            return self._name_labels(self._label_numbers(answers))

        labels = self._predict_in_blocks(name_block, texts, batch_size, verbose)
        return labels[0] if isinstance(texts, (str, bytes)) else labels

    def tag_with_scores(
        self, texts: list, batch_size: int | None = None, verbose: int | str = 0
    ) -> tuple[list[list[str]], list[np.ndarray]]:
        """Returns the labels of `tag` and their probabilities, a float32 array [words] per text."""

        def score_block(texts, answers):
            numbers, rows = self._label_numbers(answers), self._compute_probabilities(answers)
            scores = [row[np.arange(len(row)), label] for row, label in zip(rows, numbers)]
            return list(zip(self._name_labels(numbers), scores))

        tagged = self._predict_in_blocks(score_block, texts, batch_size, verbose)
        return [labels for labels, _ in tagged], [scores for _, scores in tagged]

    def entities(self, texts: Any, batch_size: int | None = None, verbose: int | str = 0) -> list:
        """Returns the entities of each text. All label schemes are supported.

        If a text is a list of words, offsets refer to the text of the words joined by single
        spaces.

        Args:
            texts, batch_size, verbose: see `tag`.

        Raises:
            InputError: a label does not mark an entity.
        """
        if not self.has_entities:
            labels = misfits(self.labels) or self.labels
            raise InputError(f"label {labels[0]!r} is not an entity label. Use tag() instead.")
        entities = self.annotate(texts, batch_size, verbose)[1]
        return entities[0] if isinstance(texts, (str, bytes)) else entities

    def annotate(
        self, texts: list, batch_size: int | None = None, verbose: int | str = 0
    ) -> tuple[list[list[str]], list[list[Entity]] | None]:
        """Predicts word labels and entities together, which is faster than `tag` and `entities`.

        Args:
            texts, batch_size, verbose: see `tag`.

        Returns:
            (labels, entities), the results of `tag` and `entities`. If the labels do not mark
            entities, the second item is None.
        """

        def annotate_block(texts, answers):
            numbers = self._label_numbers(answers)
            labels = self._name_labels(numbers)
            if not self.has_entities:
                return labels
            probabilities = self._compute_probabilities(answers)
            entities = find_entities(texts, answers, numbers, probabilities, self.labels)
            return list(zip(labels, entities))

        annotations = self._predict_in_blocks(annotate_block, texts, batch_size, verbose)
        if not self.has_entities:
            return annotations, None
        return [labels for labels, _ in annotations], [entities for _, entities in annotations]

    def _predict_in_blocks(self, function, texts, batch_size, verbose):
        predict = functools.partial(super().predict, batch_size=batch_size, verbose=verbose)
        limits = self.block_texts, self.block_characters
        return in_blocks(
            lambda block: function(block, predict(block)), self.as_texts(texts), *limits
        )

    def _name_labels(self, numbers):
        return [[self.labels[label] for label in row] for row in numbers]

    def _label_numbers(self, answers):
        """Returns the predicted class indices of each text, int [words]."""
        check_scores([answer.scores for answer in answers])
        if not self.crf:
            return [answer.scores.argmax(axis=-1) for answer in answers]
        return over_sequences(self._decode, answers, self.unknown_label)

    def _compute_probabilities(self, answers):
        """Returns the probabilities of each text, float32 [words, num_classes]."""
        if not self.crf:
            return [answer.scores for answer in answers]
        certain = np.eye(self.num_classes, dtype="float32")[self.unknown_label]
        return over_sequences(self._marginals, answers, certain)

    @property
    def unknown_label(self) -> int:
        """Class index that is predicted for words without subwords."""
        return outside_number(self.labels)

    @functools.cached_property
    def _decode(self):
        return self._compile_in_graph(lambda *sequences: self.crf_layer.decode(*sequences))

    @functools.cached_property
    def _marginals(self):
        return self._compile_in_graph(lambda *sequences: self.crf_layer(*sequences))

    def _compile_in_graph(self, function):
        shapes = [None, None, self.num_classes], [None, None]
        run = compiled(function, self.crf_layer, [tf.TensorSpec(shape) for shape in shapes])
        return run if keras.backend.backend() == "tensorflow" else in_few_shapes(run)

    # === Labels ===

    def checked_texts(self, x: Any) -> list[Words]:
        return as_words(x)

    def windows(self, texts: list[Words]) -> TokenizedWindows:
        """Tokenizes texts and splits long texts into overlapping windows."""
        strings = [words.text for words in texts]
        sizes = self.max_length, self.doc_stride
        return tokenize_windows(strings, self.tokenizer, *sizes, widths=self.widths())

    @property
    def label_codec(self) -> LabelCodec:
        return WordLabels(self.labels)

    def check_labels(self, labels: Any, features: dict[str, Any], sample_weight: Any) -> None:
        mask = np.asarray(features["padding_mask" if "padding_mask" in features else "mask"])
        check_token_labels(labels, mask, sample_weight, self.labels)

    @staticmethod
    def check_lengths(texts: list[Words], labels: list[np.ndarray]) -> None:
        """Checks that each text has as many labels as words."""
        for position, (words, row) in enumerate(zip(texts, labels)):
            count = len(words.starts)
            if count != len(row):
                raise InputError(f"text {position} has {count} words, but {len(row)} labels.")

    # === Training ===

    def compile(self, optimizer: Any = None, loss: Any = None, *args: Any, **kwargs: Any) -> None:
        """Configures training; see `TokenLabels.compile`.

        If the model has a CRF, `loss` must be None, and the default metric (accuracy) is computed
        from the logits, not from the predicted label sequence.

        Args:
            loss: Keras loss per token. Default: cross-entropy.
        """
        if self.crf and loss is not None:
            raise InputError("the loss of a CRF is the negative log-likelihood: loss must be None.")
        super().compile(optimizer, loss, *args, **kwargs)

    def named_metrics(self) -> dict[str, Callable]:
        return super().named_metrics() | tagging_metrics(self.labels)

    def class_factors(self, class_weight: Any, labels: Any) -> list[float]:
        if self.crf:
            raise InputError(
                "class_weight is not supported with crf: the loss of a CRF is per text."
            )
        return super().class_factors(class_weight, labels)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        if self.crf and self.compile_arguments()["weighted_metrics"] != ["accuracy"]:
            # Logits of the marginal probabilities that `predict` returns.
            is_labeled = token_weights(y, sample_weight) > 0
            y_pred = ops.log(ops.maximum(self.crf_layer(y_pred, is_labeled), 1e-30))
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        weights = token_weights(y, sample_weight)  # [batch, length]
        y = ops.maximum(y, 0)
        if self.crf:
            y = ops.argmax(y, axis=-1) if len(y.shape) > 2 else y
            losses = -self.crf_layer.log_likelihood(y_pred, y, weights > 0)  # [batch]
            weights = ops.max(weights, axis=1)
        else:
            losses = self.loss.call(ops.cast(y, y_pred.dtype), y_pred)
        return ops.divide_no_nan(ops.sum(losses * weights), totals)

    # === Files ===

    @classmethod
    def last_tensor(cls, source: ModelSource, config: EncoderConfig) -> str | None:
        """Returns the tensor name of the last layer of the head; None if there is no head."""
        raise NotImplementedError

    def classifier_names(self) -> list[TensorName]:
        """Returns the tensor names of the head without the CRF, in the order of the layers."""
        raise NotImplementedError

    @classmethod
    def pretrained_arguments(
        cls, source: ModelSource, config: EncoderConfig, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        last = cls.last_tensor(source, config)
        arguments = with_labels(source, arguments, last, f"an encoder without a {cls.__name__}")
        arguments.setdefault("head_dropout", classifier_dropout(source, config))
        return arguments

    def only_here(self) -> list[str]:
        """Returns the settings that `transformers` does not support and that change predictions."""
        return super().only_here() + (["crf=True"] if self.crf else [])

    def head_names(self) -> list[TensorName]:
        return self.classifier_names() + (_CRF_TENSORS if self.crf else [])

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        classes = classes_in_head(source, self.labels)
        names = tensors_to_read(source, self.classifier_names(), self.num_classes, classes)
        if not self.crf or not names and classes is None:
            return names
        return names + tensors_to_read(source, _CRF_TENSORS, self.num_classes, classes)

    def order_classes(self, source: ModelSource) -> None:
        classes = classes_in_head(source, self.labels)
        if classes is not None:
            copy_classes(self, source, self.head_names(), classes)

    def task_config(self) -> dict[str, Any]:
        return {
            **label_config(self.labels),
            classifier_dropout_key(self.config): self.head_layer.dropout.rate,
        }
