"""A label for each word, learned on what a frozen encoder says of it."""

import functools

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.interop import classifier_dropout
from keras_bert_impl.interop.layouts.names import TensorName
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import ClassificationHead, Dropout, ScalarMix
from keras_bert_impl.settings import PositiveInt, Rate, check
from keras_bert_impl.tasks.data.labels import label_names, tensors_to_read, with_labels
from keras_bert_impl.tasks.inputs.feature_rows import FEATURES
from keras_bert_impl.tasks.tagging.signature import FeatureTaggerSignatures
from keras_bert_impl.tasks.tagging.word_features import WordFeatures, word_states
from keras_bert_impl.tasks.tagging.word_scores import WordScores
from keras_bert_impl.tasks.tagging.word_tagger import CRF_TENSORS, WordTagger

_BIAS = "feature_tagger.classifier.dense.bias"


@keras.saving.register_keras_serializable("keras_bert_impl")
class FeatureTagger(WordTagger):
    """A two-layer BiLSTM and a linear layer on the states of a frozen encoder.

    `fit`, `evaluate` and `predict` take a list of lists of words, or of str, whose words
    `words.find_words` finds; and for each a list of as many labels: names, or numbers, of which
    negative ones stand for none.

    A word is the states of its first piece, from the window where that has most context. The
    encoder computes them once, before the first epoch, and they are kept: 4 bytes * words * layers
    * hidden, which is 2.5 GB for CoNLL-2003's 204,000 training words, four layers and 768. So the
    epochs are those of a BiLSTM. It reads all words of a text, however many windows they lie in.

    Saved directories are those of the encoder, as `transformers` loads it, and the tagger beside
    it.

    Args:
        encoder: `Encoder`. It is frozen.
        tokenizer: `Tokenizer`.
        num_classes: int. Number of labels.
        labels: list of str, their names, in place of `num_classes`.
        features: `"last_four"`, the states of the last four layers, concatenated; `"mix"`, a
            `ScalarMix` of the embeddings and all layers; `"mix_last_four"`, of the last four; or
            int, the states of one layer: 0 the embeddings, -1 the last, -2 the one before.
        lstm_dim: int, even. Width of the outputs of each BiLSTM, both directions together.
        head_dropout: float. Rate before both BiLSTMs and the linear layer; default: the encoder's.
        max_length: int. Tokens of a window, special ones included. Default 128.
        doc_stride: int. Tokens from the start of one window to that of the next. Default: half
            of `max_length`.
        crf: bool. Whether a conditional random field is over the words of a text.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = FeatureTagger.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=30)
        tagger.tag([["Ada", "wrote"]])  # [["B-PER", "O"]]
    """

    settings = ("doc_stride", "features", "lstm_dim", "crf")
    signature_class = FeatureTaggerSignatures
    default_learning_rate = 1e-3
    block_characters = 1 << 16  # 12,000 words, whose states are kept: 150 MB of four layers of 768

    def __init__(
        self,
        encoder,
        tokenizer,
        num_classes=None,
        labels=None,
        features=None,
        lstm_dim=768,
        head_dropout=None,
        max_length=None,
        doc_stride=None,
        crf=None,
        name="feature_tagger",
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
        policy = {"dtype": encoder.dtype_policy}

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

    # === From words to rows, and back ===

    def rows(self, texts, labels=None, weights=None):
        if labels is not None:
            self.check_lengths(texts, labels)
        states, splits = word_states(
            texts,
            self.states_of,
            self.input["states"].shape[2:],
            self.tokenizer,
            self.max_length,
            self.doc_stride,
            self.widths(),
        )
        longest = int(np.diff(splits).max(initial=1))  # words
        with tf.device("CPU:0"):
            states, splits = tf.constant(states), tf.constant(splits)
        rows = WordFeatures(splits, tuple(self.widths(longest)), states)
        if labels is None:
            return rows, ()
        numbers = np.concatenate(labels)
        weights = np.ones(len(texts), "float32") if weights is None else weights
        weights = np.repeat(weights, [len(row) for row in labels]) * (numbers >= 0)
        targets = np.maximum(numbers, 0).astype("int32"), weights.astype("float32")
        return rows, tuple(tf.RaggedTensor.from_row_splits(t, splits) for t in targets)

    @functools.cached_property
    def encoder_of_states(self):
        """The encoder with the states of all layers."""
        return self.encoder.with_outputs("hidden_states")

    def states(self, features):
        """What the network of words sees of tokens, float32 [rows, length, layers, hidden]."""
        found = self.encoder_of_states(features, training=False)["hidden_states"]
        layers = layer_numbers(self.features, self.config.num_layers)
        return tf.stack([tf.cast(found[number], tf.float32) for number in layers], axis=2)

    @functools.cached_property
    def states_of(self):
        """`states` as a graph."""
        spec = {name: tf.TensorSpec([None, None], tf.int32) for name in FEATURES}
        return tf.function(self.states, input_signature=[spec], autograph=False)

    def steps_per_epoch(self, x, batch_size):
        return -(-len(self.as_texts(x)) // batch_size)

    def scores(self, outputs):
        return outputs if self.crf else ops.softmax(outputs)

    def predict_batches(self, data, **kwargs):
        # Batches stay apart: each is as long as its longest text, and no number limits that.
        parts = [row for (features,) in data for row in self.predict_on_batch(features)]
        rows = np.empty(len(parts), object)
        for number, part in enumerate(parts):
            rows[number] = part
        return rows

    def joined(self, outputs, texts, tokenized):
        # Copies: a view would keep the padding of its batch.
        return [
            WordScores(scores[: len(words.starts)].copy(), np.arange(len(words.starts)))
            for scores, words in zip(outputs, texts)
        ]

    # === Files ===

    @classmethod
    def pretrained_arguments(cls, source, config, arguments):
        last = None if source.shape(_BIAS) is None else _BIAS
        arguments = with_labels(source, arguments, last, "an encoder without a feature tagger")
        arguments.setdefault("head_dropout", classifier_dropout(source, config))
        return arguments

    def head_names(self):
        return self._own_names() + (CRF_TENSORS if self.crf else [])

    def _own_names(self):
        """List of `TensorName`, the bias of the last layer at the end."""
        paths = [weight.path for layer in self._tagger for weight in layer.trainable_weights]
        names = {path: f"feature_tagger.{path.replace('/', '.')}" for path in paths}
        return [TensorName(path, name, optional=True) for path, name in names.items()]

    def pretrained_head(self, source):
        names = self._own_names()
        return self.head_names() if tensors_to_read(source, names, self.num_classes) else []


def layer_numbers(features, num_layers):
    """list of int: which of an encoder's hidden states features are made of.

    Args:
        features: as of `FeatureTagger`.
        num_layers: int.

    Raises:
        InputError: no such features, or no such layer.
    """
    every = list(range(num_layers + 1))
    named = {"last_four": every[-4:], "mix": every, "mix_last_four": every[-4:]}
    if isinstance(features, str) and features in named:
        return named[features]
    is_number = isinstance(features, int) and not isinstance(features, bool)
    if not is_number or not -num_layers - 1 <= features <= num_layers:
        raise InputError(
            f"features must be one of {', '.join(named)}, or a layer from {-num_layers - 1} to "
            f"{num_layers}. Received: features={features!r}"
        )
    return [every[features]]
