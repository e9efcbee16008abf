"""`FeatureTagger`: word labels from the features of a frozen encoder."""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.batches import batching
from keras_bert_impl.data.batches.batching import sorted_batches
from keras_bert_impl.data.batches.words import Words, align_tokens
from keras_bert_impl.data.tables.labels import class_indices, label_names
from keras_bert_impl.layers import ClassificationHead, Dropout, ScalarMix
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks.base.feature_rows import FEATURES
from keras_bert_impl.tasks.base.fitting import outputs_of_batch
from keras_bert_impl.tasks.tagging.signature import FeatureTaggerSignatures
from keras_bert_impl.tasks.tagging.word_scores import WordScores, ragged_targets
from keras_bert_impl.tasks.tagging.word_tagger import WordTagger
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.one_graph import compiled
from keras_bert_impl.utils.settings import PositiveInt, Rate, check

_BIAS = "feature_tagger.classifier.dense.bias"
_BATCH = 64  # number of windows in a batch of the encoder


@dataclasses.dataclass(frozen=True)
class WordFeatures(batching.FlatRows):
    """Hidden states of the words of texts. Each row is a text.

    Attributes:
        states: float32 [words, layers, hidden], for the words of all texts.
    """

    states: tf.Tensor

    def features(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the network inputs of a batch.

        Args:
            rows: int64 [rows]. Texts of the batch, as indices into all texts.

        Returns:
            `states`, float32 [rows, words, layers, hidden], and `mask`, int32 [rows, words].
        """
        flat, place, lengths = self.positions(rows)
        is_real = (place < lengths)[:, :, tf.newaxis, tf.newaxis]
        states = tf.where(is_real, tf.gather(self.states, flat), 0.0)
        # Recurrent layers on a GPU need at least one step: a text without words gets one word of
        # zeros.
        mask = tf.cast(place < tf.maximum(lengths, 1), tf.int32)
        static = batching.static_size(self.widths)
        return {
            "mask": tf.ensure_shape(mask, [None, static]),
            "states": tf.ensure_shape(states, [None, static, *self.states.shape[1:]]),
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class FeatureTagger(WordTagger):
    """Word tagger: two BiLSTM layers and a linear layer on the hidden states of a frozen encoder.

    In `fit`, `evaluate` and `predict`, texts are lists of words or str. A str is split by
    `words.find_words`. The labels of a text are a list with one label per word, which is a label
    name or a class index. A negative class index means that the word has no label.

    Each word is represented by the hidden states of its first subword. If the subword is in several
    windows, the window with the most context is used. The hidden states are computed once, before
    the first epoch, and kept in memory. The hidden states need 4 bytes * words * layers * hidden,
    for example 2.5 GB for four layers of size 768 and the 204,000 training words of CoNLL-2003. The
    encoder is not trained. The input of the BiLSTM is a whole text, even if the encoder needed
    several windows.

    A saved model contains the encoder and the tagger. `transformers` only loads the encoder.

    Args:
        encoder, tokenizer: see `TaskModel`. The encoder is frozen.
        max_length: window length in tokens, see `TaskModel`.
        num_classes: number of labels.
        labels: label names. Replaces `num_classes`.
        features: hidden states to use. `"last_four"` (the default) concatenates the last four
            layers, `"mix_last_four"` is their `ScalarMix`, and `"mix"` is a `ScalarMix` of the
            embeddings and all layers. An int selects one layer: 0 for the embeddings, -1 for the
            last layer.
        lstm_dim: output size of each BiLSTM layer, both directions together. Must be even.
        head_dropout: dropout rate before each BiLSTM layer and before the linear layer. Default:
            the dropout rate of the encoder.
        doc_stride: tokens between the starts of consecutive windows. Default: half of `max_length`.
        crf: whether to add a conditional random field (CRF) over the words of a text. Default:
            False.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = FeatureTagger.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=30)
        tagger.tag([["Ada", "wrote"]])  # such as [["B-PER", "O"]]
    """

    settings = ("doc_stride", "features", "lstm_dim", "crf")
    signature_class = FeatureTaggerSignatures
    default_learning_rate = 1e-3
    block_characters = 1 << 16  # 12,000 words: 150 MB for the states of four layers of width 768

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        num_classes: int | None = None,
        labels: list[str] | None = None,
        features: str | int | None = None,
        lstm_dim: PositiveInt = 768,
        head_dropout: Rate | None = None,
        max_length: int | None = None,
        doc_stride: PositiveInt | None = None,
        crf: bool | None = None,
        name: str | None = None,
    ):
        labels = label_names(num_classes, labels)
        features = "last_four" if features is None else features
        lstm_dim = check("lstm_dim", lstm_dim, PositiveInt)
        if lstm_dim % 2:
            raise InputError(f"lstm_dim must be even and positive. Received: lstm_dim={lstm_dim!r}")
        config = encoder.config
        dropout = config.dropout if head_dropout is None else head_dropout
        dropout = check("head_dropout", dropout, Rate)
        layers = layer_numbers(features, config.num_layers)
        dtype: Any = encoder.dtype_policy
        # The initializer of the LSTM does not support 16-bit types.
        if dtype.variable_dtype != "float32":
            dtype = keras.DTypePolicy(f"mixed_{dtype.compute_dtype}")
        policy: dict[str, Any] = {"dtype": dtype}

        inputs = {
            "states": keras.Input((None, len(layers), config.hidden_dim), name="states"),
            "mask": keras.Input((None,), dtype="int32", name="mask"),
        }
        if str(features).startswith("mix"):
            first = ScalarMix(name="mix", **policy)
        else:
            first = keras.layers.Reshape((-1, len(layers) * config.hidden_dim), **policy)
        hidden = first(inputs["states"])  # [batch, words, dim]
        is_word = ops.not_equal(inputs["mask"], 0)
        recurrent = []
        for number in range(2):
            lstm = keras.layers.LSTM(lstm_dim // 2, return_sequences=True, name="lstm", **policy)
            layer = keras.layers.Bidirectional(lstm, name=f"bilstm_{number}", **policy)
            hidden = Dropout(dropout, name=f"dropout_{number}", **policy)(hidden)
            hidden = layer(hidden, mask=is_word)  # [batch, words, lstm_dim]
            recurrent.append(layer)
        head = ClassificationHead(
            len(labels),
            dropout=dropout,
            initializer_range=config.initializer_range,
            name="classifier",
            **policy,
        )
        encoder.trainable = False
        super().__init__(
            encoder,
            tokenizer,
            inputs,
            head(hidden),
            head_layer=head,
            labels=labels,
            doc_stride=doc_stride,
            crf=crf,
            max_length=max_length,
            name=name,
        )
        self.features = features
        self.lstm_dim = lstm_dim
        self._tagger = [first, *recurrent, head]

    # === Conversion between words and rows ===

    def rows(
        self,
        texts: list[Words],
        labels: list[np.ndarray] | None = None,
        weights: np.ndarray | None = None,
    ) -> tuple[WordFeatures, tuple]:
        if labels is not None:
            self.check_lengths(texts, labels)
        states, splits = self._compute_word_states(texts)
        longest = int(np.diff(splits).max(initial=1))  # number of words
        with tf.device("CPU:0"):
            states, splits = tf.constant(states), tf.constant(splits)
        rows = WordFeatures(splits, tuple(self.widths(longest)), states)
        if labels is None:
            return rows, ()
        numbers = np.concatenate([class_indices(row) for row in labels])
        weights = np.ones(len(texts), "float32") if weights is None else weights
        weights = np.repeat(weights, [len(row) for row in labels]) * (numbers >= 0)
        numbers, weights = np.maximum(numbers, 0).astype("int32"), weights.astype("float32")
        return rows, ragged_targets(labels, numbers, weights, splits, self.num_classes)

    def _compute_word_states(self, texts):
        """Computes the hidden states of the first subword of each word.

        Returns:
            `states`, float32 array [words, layers, hidden] for the words of all texts, with 0 for
            words without subwords; and `row_splits`, int64 array [texts + 1].
        """
        windows = self.windows(texts)
        alignment = align_tokens(texts, windows)
        rows, columns = windows.columns()
        places = np.flatnonzero(windows.has_most_context & (windows.tokens >= 0))
        positions = np.zeros(len(alignment.words), "int64")  # position of each token
        positions[windows.text_splits[windows.texts[rows[places]]] + windows.tokens[places]] = (
            places
        )
        words = np.flatnonzero(alignment.firsts >= 0)
        positions = positions[alignment.firsts[words]]  # [known words]

        data, order = sorted_batches(windows, (), _BATCH)
        number_of = np.argsort(order)[rows[positions]]  # index of the row in the batches
        by_batch = np.argsort(number_of, kind="stable")
        ends = np.searchsorted(number_of[by_batch], np.arange(0, len(order) + _BATCH, _BATCH))
        states = np.zeros((len(alignment.firsts), *self.input["states"].shape[2:]), "float32")
        for batch, (features,) in enumerate(data):
            outputs = self.states_of(features)  # [rows, length, layers, hidden]
            members = by_batch[ends[batch] : ends[batch + 1]]
            states[words[members]] = outputs[
                number_of[members] - batch * _BATCH, columns[positions[members]]
            ]
        return states, alignment.word_splits

    @functools.cached_property
    def encoder_of_states(self) -> keras.Model:
        """The encoder as a model that returns all hidden states."""
        return self.encoder.with_outputs("hidden_states")

    def states(self, features: dict[str, Any]) -> Any:
        """Returns the selected hidden states, float32 [rows, length, layers, hidden]."""
        hidden_states = self.encoder_of_states(features, training=False)["hidden_states"]
        layers = layer_numbers(self.features, self.config.num_layers)
        return ops.stack([ops.cast(hidden_states[number], "float32") for number in layers], axis=2)

    def encoder_call(self, example: Words) -> tuple[Any, Any]:
        return self.windows([example]), self.states

    @functools.cached_property
    def states_of(self) -> Any:
        spec = {name: tf.TensorSpec([None, None], tf.int32) for name in FEATURES}
        return compiled(self.states, self.encoder_of_states, [spec])

    def steps_per_epoch(self, x: Any, batch_size: int) -> int:
        return -(-len(self.as_texts(x)) // batch_size)

    def scores(self, outputs: Any) -> Any:
        return outputs if self.crf else ops.softmax(outputs)

    def predict_batches(self, data: tf.data.Dataset | list[tuple], **kwargs: Any) -> np.ndarray:
        if kwargs.get("callbacks"):
            raise InputError(
                "FeatureTagger.predict does not support callbacks. Leave out callbacks=..."
            )
        # Batches have different lengths and are not concatenated.
        parts: list[np.ndarray] = []
        for (features,) in data:
            arrays = {name: feature.numpy() for name, feature in features.items()}
            parts.extend(np.asarray(self.scores(outputs_of_batch(self, arrays))))
        rows = np.empty(len(parts), object)
        for number, part in enumerate(parts):
            rows[number] = part
        return rows

    def joined(
        self, outputs: np.ndarray, texts: list[Words], tokenized: WordFeatures
    ) -> list[WordScores]:
        # A view would keep the padded batch in memory.
        return [
            WordScores(scores[: len(words.starts)].copy(), np.arange(len(words.starts)))
            for scores, words in zip(outputs, texts)
        ]

    # === Files ===

    def only_here(self) -> list[str]:
        """Returns the settings that `transformers` does not support and that change predictions."""
        return ["a tagger on the encoder", *super().only_here()]

    @classmethod
    def last_tensor(cls, source: ModelSource, config: EncoderConfig) -> str | None:
        return None if source.shape(_BIAS) is None else _BIAS

    def classifier_names(self) -> list[TensorName]:
        paths = [weight.path for layer in self._tagger for weight in layer.trainable_weights]
        names = {path: f"feature_tagger.{path.replace('/', '.')}" for path in paths}
        return [TensorName(path, name, optional=True) for path, name in names.items()]


def layer_numbers(features: str | int, num_layers: int) -> list[int]:
    every = list(range(num_layers + 1))
    named = {"last_four": every[-4:], "mix": every, "mix_last_four": every[-4:]}
    if isinstance(features, str) and features in named:
        return named[features]
    if isinstance(features, int) and not isinstance(features, bool):
        if -num_layers - 1 <= features <= num_layers:
            return [every[features]]
    raise InputError(
        f"features must be one of {', '.join(named)}, or a layer from {-num_layers - 1} to "
        f"{num_layers}. Received: features={features!r}"
    )
