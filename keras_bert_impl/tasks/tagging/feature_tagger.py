"""`FeatureTagger`: word labels from the features of a frozen encoder."""

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
    """Two-layer BiLSTM with a linear layer on the hidden states of a frozen encoder.

    `fit`, `evaluate` and `predict` take texts as lists of words, or as str that
    `words.find_words` splits, and for each text a list with one label per word: names, or numbers,
    of which negative ones mean no label.

    A word is represented by the states of its first subword, from the window where that has the
    most context. The encoder computes them once, before the first epoch; they are kept in memory: 4
    bytes * words * layers * hidden, or 2.5 GB for CoNLL-2003's 204,000 training words with four
    layers of 768. Epochs then only train the BiLSTM. It reads all words of a text, over any number
    of windows.

    A saved directory holds the encoder, as loaded by `transformers`, and the tagger next to it.

    Args:
        encoder: `Encoder`. It is frozen.
        tokenizer: `Tokenizer`.
        num_classes: int. Number of labels.
        labels: list of str. Label names, instead of `num_classes`.
        features: `"last_four"`, the concatenated states of the last four layers; `"mix"`, a
            `ScalarMix` of the embeddings and all layers; `"mix_last_four"`, a `ScalarMix` of the
            last four; or int, the states of one layer: 0 for the embeddings, -1 for the last layer.
            Default `"last_four"`.
        lstm_dim: int, even. Output size of each BiLSTM, both directions together.
        head_dropout: float. Dropout rate before both BiLSTMs and the linear layer. Default: the
            encoder's.
        max_length: int. Window length in tokens, special tokens included. Default 128.
        doc_stride: int. Tokens between the starts of consecutive windows. Default: half of
            `max_length`.
        crf: bool. Whether to add a conditional random field over the words of a text.

    Source: Devlin et al., "BERT", section 5.3.

    Example:
        tagger = FeatureTagger.from_pretrained("path/to/model", labels=["O", "B-PER", "I-PER"])
        tagger.fit([["Ada", "Lovelace", "wrote"]], [["B-PER", "I-PER", "O"]], epochs=30)
        tagger.tag([["Ada", "wrote"]])  # such as [["B-PER", "O"]]
    """

    settings = ("doc_stride", "features", "lstm_dim", "crf")
    signature_class = FeatureTaggerSignatures
    default_learning_rate = 1e-3
    block_characters = 1 << 16  # 12,000 words; their states take 150 MB for four layers of 768

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
        longest = int(np.diff(splits).max(initial=1))  # in words
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
        """The encoder with the hidden states of all layers as output."""
        return self.encoder.with_outputs("hidden_states")

    def states(self, features):
        """Returns the selected hidden states of tokens, float32 [rows, length, layers, hidden]."""
        found = self.encoder_of_states(features, training=False)["hidden_states"]
        layers = layer_numbers(self.features, self.config.num_layers)
        return tf.stack([tf.cast(found[number], tf.float32) for number in layers], axis=2)

    @functools.cached_property
    def states_of(self):
        """`states`, compiled to a graph."""
        spec = {name: tf.TensorSpec([None, None], tf.int32) for name in FEATURES}
        return tf.function(self.states, input_signature=[spec], autograph=False)

    def steps_per_epoch(self, x, batch_size):
        return -(-len(self.as_texts(x)) // batch_size)

    def scores(self, outputs):
        return outputs if self.crf else ops.softmax(outputs)

    def predict_batches(self, data, **kwargs):
        # Batches are not concatenated: each has the length of its longest text, which is unbounded.
        parts = [row for (features,) in data for row in self.predict_on_batch(features)]
        rows = np.empty(len(parts), object)
        for number, part in enumerate(parts):
            rows[number] = part
        return rows

    def joined(self, outputs, texts, tokenized):
        # Copies: a view would keep the padding of its batch in memory.
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
        """Returns a list of `TensorName`; the bias of the last layer comes last."""
        paths = [weight.path for layer in self._tagger for weight in layer.trainable_weights]
        names = {path: f"feature_tagger.{path.replace('/', '.')}" for path in paths}
        return [TensorName(path, name, optional=True) for path, name in names.items()]

    def pretrained_head(self, source):
        names = self._own_names()
        return self.head_names() if tensors_to_read(source, names, self.num_classes) else []


def layer_numbers(features, num_layers):
    """Returns which hidden states of the encoder `features` selects, as a list of int.

    Args:
        features: see `FeatureTagger`.
        num_layers: int.

    Raises:
        InputError: unknown features or layer.
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
