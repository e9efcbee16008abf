"""A label for each word: entities, parts of speech."""

import functools

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop import classifier_dropout_key, has_head, head_tensors
from keras_bert_impl.interop.layouts.names import TensorName
from keras_bert_impl.layers import CRF
from keras_bert_impl.models.heads import token_head
from keras_bert_impl.tasks.entities import find_entities
from keras_bert_impl.tasks.labels import (
    label_config,
    label_names,
    label_numbers,
    labels_of,
    tensors_to_read,
)
from keras_bert_impl.tasks.spans import is_entity_label
from keras_bert_impl.tasks.task_model import TaskModel, task_inputs
from keras_bert_impl.tasks.token_weights import TokenAccuracy, token_weights
from keras_bert_impl.tasks.windows import tokenize_windows
from keras_bert_impl.tasks.word_scores import over_sequences, token_targets, word_scores
from keras_bert_impl.tasks.words import as_words

AGGREGATIONS = ("first", "mean", "max")
_CRF_TENSORS = [
    TensorName(f"crf/{name}", f"crf.{name}", optional=True)
    for name in ("transitions", "start", "end")
]


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenClassifier(TaskModel):
    """A linear layer on each token, fine-tuned on words and their labels.

    `fit`, `evaluate` and `predict` take

    - a list of lists of words, or of str, whose words `words.find_words` finds; and for each a list
      of as many labels: names, or numbers, of which negative ones stand for none;
    - features, as a dict or in a `tf.data.Dataset`, with labels int32 `[batch, length]`, one for
      each token, negative where there is none.

    A word's label is learned at its first piece and predicted from it. Texts longer than
    `max_length` become windows that overlap; each word is learned and asked in the window where it
    has most context, so that it counts once. The loss is the mean over the labelled tokens of the
    global batch. A word without pieces, as one of control characters alone, is predicted to be
    `"O"`, or where there is no such label the first.

    The network returns logits, float32 `[batch, length, num_classes]`. Of features, `predict`
    returns probabilities `[rows, max_length, num_classes]`, padded with 0.

    With `crf` a conditional random field is over the first pieces of the words, and the loss is the
    negative log likelihood of the labels, by word. In training a sequence is the words that one
    window is asked for, so that no transition is learned across the border of two; predictions
    are for the sequence of all words of the text. The files keep its scores as tensors
    `crf.transitions`, `crf.start` and `crf.end`, which `transformers` passes over. Of features,
    `predict` then returns the logits. Its weights begin at 0, so that it learns as slowly as the
    learning rate tells it to.

    Args:
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.
        num_classes: int. Number of labels.
        labels: list of str, their names, in place of `num_classes`.
        head_dropout: float. Rate before the linear layer; default: the encoder's.
        max_length: int. Tokens of a window, special ones included. Default 128.
        doc_stride: int. Tokens from the start of one window to that of the next. Default: half
            of `max_length`.
        label_all_pieces: bool. Whether every piece of a word is trained with its label.
        aggregation: what is predicted of several pieces of a word: that of the `"first"`, the
            `"mean"` of the probabilities, or those of the piece with the highest, `"max"`.
        crf: bool.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = TokenClassifier.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=3)
        tagger.tag([["Ada", "wrote"]])  # [["B-PER", "O"]]
        tagger.entities(["Ada wrote."])  # [[Entity("PER", "Ada", 0, 3, 0.9...)]]
    """

    head = "token_classifier"
    has_windows = True
    settings = ("doc_stride", "label_all_pieces", "aggregation", "crf")

    def __init__(
        self,
        encoder,
        tokenizer,
        num_classes=None,
        labels=None,
        head_dropout=None,
        max_length=None,
        doc_stride=None,
        label_all_pieces=None,
        aggregation=None,
        crf=None,
        name="token_classifier_model",
    ):
        labels = label_names(num_classes, labels)
        head = token_head(encoder, len(labels), head_dropout)
        inputs = task_inputs()
        outputs = head(encoder(inputs)["sequence_output"])  # [batch, length, num_classes]
        super().__init__(encoder, tokenizer, inputs, outputs, max_length=max_length, name=name)
        self.head_layer = head
        self.labels = labels
        self.doc_stride = self.max_length // 2 if doc_stride is None else doc_stride
        self.label_all_pieces = bool(label_all_pieces)
        self.aggregation = aggregation or "first"
        self.crf = bool(crf)
        self._check()
        if self.crf:
            self.crf_layer = CRF(len(labels), dtype=encoder.dtype_policy, name="crf")
            self.crf_layer.build(outputs.shape)

    def _check(self):
        if not isinstance(self.doc_stride, int) or self.doc_stride < 1:
            raise InputError(
                f"doc_stride must be a positive integer. Received: doc_stride={self.doc_stride!r}"
            )
        if self.aggregation not in AGGREGATIONS:
            raise InputError(
                f"aggregation must be one of {', '.join(AGGREGATIONS)}. "
                f"Received: aggregation={self.aggregation!r}"
            )
        if self.crf and (self.label_all_pieces or self.aggregation != "first"):
            raise InputError(
                "a CRF is over the first pieces of words: label_all_pieces must be off and "
                "aggregation 'first'."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "labels": self.labels,
            "head_dropout": self.head_layer.dropout.rate,
        }

    @property
    def num_classes(self):
        """Number of labels."""
        return len(self.labels)

    # === Answers ===

    def predict(self, x, batch_size=None, **kwargs):
        """The probabilities of the labels of each word.

        Args:
            x: as of the class.
            batch_size, **kwargs: as of `RawTextTrainer.predict`.

        Returns:
            list (a text) of float32 arrays `[words, num_classes]`; with `crf` the probabilities
            over all sequences. Of features: see the class.
        """
        answers = super().predict(x, batch_size, **kwargs)
        return answers if isinstance(answers, np.ndarray) else self._probabilities(answers)

    def tag(self, texts, batch_size=None, verbose=0):
        """The label name of each word; with `crf` those of the likeliest sequence.

        Args:
            texts: list of str, or of lists of words.

        Returns:
            list of lists of str.
        """
        answers = super().predict(as_words(texts), batch_size, verbose=verbose)
        return [[self.labels[label] for label in row] for row in self._label_numbers(answers)]

    def entities(self, texts, batch_size=None, verbose=0):
        """The entities in each text, of whatever scheme the labels are.

        Args:
            texts: list of str, or of lists of words.

        Returns:
            list (a text) of lists of `Entity`, in order. Of words, places are in the words joined
            by single spaces.

        Raises:
            InputError: a label that marks no entity.
        """
        for label in self.labels:
            if not is_entity_label(label):
                raise InputError(f"the label {label!r} marks no entity; tag() gives labels.")
        return self.annotate(texts, batch_size, verbose)[1]

    def annotate(self, texts, batch_size=None, verbose=0):
        """Labels and entities from one pass of the network.

        Args:
            texts: list of str, or of lists of words.

        Returns:
            (what `tag` returns, what `entities` returns; or None where a label marks no entity).
        """
        texts = as_words(texts)
        answers = super().predict(texts, batch_size, verbose=verbose)
        numbers = self._label_numbers(answers)
        labels = [[self.labels[label] for label in row] for row in numbers]
        if not all(map(is_entity_label, self.labels)):
            return labels, None
        parts = zip(texts, answers, numbers, self._probabilities(answers))
        return labels, [find_entities(*part, self.labels) for part in parts]

    def _label_numbers(self, answers):
        """list of int arrays [words]."""
        if not self.crf:
            return [answer.scores.argmax(axis=-1) for answer in answers]
        return over_sequences(self._decode, answers, self._unknown)

    def _probabilities(self, answers):
        """list of float32 arrays [words, num_classes]."""
        if not self.crf:
            return [answer.scores for answer in answers]
        certain = np.arange(self.num_classes) == self._unknown
        return over_sequences(self._marginals, answers, certain)

    @property
    def _unknown(self):
        """Number of the label of words without pieces."""
        return self.labels.index("O") if "O" in self.labels else 0

    @functools.cached_property
    def _decode(self):
        return self._in_graph(lambda *sequences: self.crf_layer.decode(*sequences))

    @functools.cached_property
    def _marginals(self):
        return self._in_graph(lambda *sequences: self.crf_layer(*sequences))

    def _in_graph(self, function):
        """The function traced once, for any number and length of sequences; to numpy arrays."""
        shapes = [None, None, self.num_classes], [None, None]
        traced = tf.function(function, [tf.TensorSpec(shape) for shape in shapes], autograph=False)
        return lambda *sequences: traced(*sequences).numpy()

    def joined(self, outputs, texts, tokenized):
        return word_scores(outputs, texts, tokenized, self.aggregation, self._unknown)

    # === What the labels are ===

    def as_texts(self, x):
        return as_words(x)

    def encode_labels(self, labels, count):
        if labels is None or len(labels) != count:
            received = "none" if labels is None else len(labels)
            raise InputError(f"{count} texts, but labels for {received}.")
        if isinstance(labels, np.ndarray) and labels.ndim == 2:
            return label_numbers(labels, self.labels, "labels")
        return [
            label_numbers(row, self.labels, f"text {position}")
            for position, row in enumerate(labels)
        ]

    def label_tensor(self, labels):
        return labels

    def rows(self, texts, labels=None, weights=None):
        tokenized = tokenize_windows(
            [words.text for words in texts],
            self.tokenizer,
            self.max_length,
            self.doc_stride,
            widths=self.widths(),
        )
        if labels is None:
            return tokenized, ()
        for position, (words, row) in enumerate(zip(texts, labels)):
            if len(words.starts) != len(row):
                raise InputError(
                    f"text {position} has {len(words.starts)} words, but {len(row)} labels."
                )
        weights = np.ones(len(texts), "float32") if weights is None else weights
        targets = token_targets(labels, weights, texts, tokenized, self.label_all_pieces)
        splits = tokenized.row_splits
        return tokenized, tuple(tf.RaggedTensor.from_row_splits(t, splits) for t in targets)

    # === Training ===

    def compile(self, optimizer=None, loss=None, metrics=None, seed=0, **kwargs):
        """As of `RawTextTrainer`; metrics are weighted, so that they see labelled tokens alone.

        Args:
            loss: as of Keras, for each token; default: cross-entropy. None with `crf`.
            metrics: default: accuracy, of the logits with `crf` too; `[]` for none.
        """
        if self.crf and loss is not None:
            raise InputError("with crf the loss is its negative log likelihood; give no loss.")
        if metrics is None:
            with self.distribute_strategy.scope():
                metrics = [TokenAccuracy(name="accuracy")]
        super().compile(optimizer, loss, [], seed, weighted_metrics=metrics, **kwargs)

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_totals(self, x, y, sample_weight):
        return ops.sum(token_weights(y, sample_weight))

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        weights = token_weights(y, sample_weight)  # [batch, length]
        y = ops.maximum(y, 0)
        if self.crf:
            losses = -self.crf_layer.log_likelihood(y_pred, y, weights > 0)  # [batch]
            weights = ops.max(weights, axis=1)
        else:
            losses = keras.losses.get(self.loss).call(y, y_pred)
        return ops.divide_no_nan(ops.sum(losses * weights), totals)

    def _track_loss(self, loss, batch):
        # The loss of an epoch is, as that of a step, the mean over the labelled tokens.
        self._loss_tracker.update_state(loss, sample_weight=self.loss_totals(*batch))

    def scores(self, outputs):
        scores = outputs if self.crf else ops.softmax(outputs)
        # Batches of all lengths are put together.
        length = outputs.shape[1] or ops.shape(outputs)[1]
        return ops.pad(scores, [[0, 0], [0, self.max_length - length], [0, 0]])

    # === Files ===

    @classmethod
    def pretrained_arguments(cls, source, config, arguments):
        arguments = dict(arguments)
        if arguments.get("num_classes") is None and arguments.get("labels") is None:
            if not has_head(source, config, cls.head):
                raise InputError(
                    f"{source.path} is an encoder without a token classifier; give num_classes or "
                    "labels."
                )
            arguments["labels"] = labels_of(source, head_tensors(config, cls.head)[-1].tensor)
        arguments.setdefault("head_dropout", source.config.get(classifier_dropout_key(config)))
        return arguments

    def head_names(self):
        names = head_tensors(self.config, self.head)
        return names + _CRF_TENSORS if self.crf else names

    def pretrained_head(self, source):
        names = head_tensors(self.config, self.head)
        return self.head_names() if tensors_to_read(source, names, self.num_classes) else []

    def task_config(self):
        return {
            **label_config(self.labels),
            classifier_dropout_key(self.config): self.head_layer.dropout.rate,
        }
