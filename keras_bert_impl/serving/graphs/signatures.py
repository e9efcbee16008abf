"""Base class for the serving signatures of a model."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_bert_impl.layers import MeanPooling
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.graphs.chunks import (
    Bucket,
    check_buckets,
    encoders_traced_once,
    in_chunks,
    in_chunks_by_length,
    sorted_by_length,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.graphs import core_operations

Tensors = dict[str, tf.Tensor]
Function: TypeAlias = tf.types.experimental.ConcreteFunction
Functions = dict[str, Function]  # signature name -> function

FEATURES = ("token_ids", "segment_ids", "padding_mask")
HUB_NAMES = {  # input names of the encoders that Google published as SavedModels
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


class Signatures:
    """Base class for the signatures of an exported model.

    Subclasses implement `answers`, which computes the outputs from features. They can also override
    `answers_of_strings`, which computes the outputs from strings, and `more`, which returns
    additional signatures.

    The first dimension of every output is the batch, so that a server can batch requests. If the
    length of an output differs between texts, the output is padded, and another output contains
    the lengths.

    Args:
        model: the model to export.
        max_length: maximum number of tokens, to which texts are truncated.

    Attributes:
        buckets: shapes (rows, length) for which XLA compiles the encoders; see `graphs.chunks`. Set
            before tracing. Default: none.
        whole_batches: whether to process a request in one batch, which suits GPUs. If False, a
            request is processed in chunks of similar length. Set before tracing. Default: False.
        custom_ops: whether tokenizers may use operations of TensorFlow Text. Set before tracing.
            Default: True.
    """

    strings = {"text": 1}  # rank of each input of `serving_default`
    features_rank = 2  # rank of token_ids
    # If the outputs of `answers` have no token dimension, rows can be sorted by length.
    answers_whole_rows = False

    def __init__(
        self, model: keras.Model, encoder: Encoder, tokenizer: Tokenizer, max_length: int
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.config = encoder.config
        self.max_length = max_length
        self.buckets: Sequence[Bucket] = []
        self.whole_batches = False
        self.custom_ops = True
        self.pooling = MeanPooling(dtype="float32")
        # All signatures use these functions, which are traced and stored once.
        self.network = tf.function(self.answers, autograph=False)
        self._vectors = tf.function(self._compute_vectors, autograph=False)

    # === For subclasses to override ===

    def answers(self, features: Tensors) -> Tensors:
        """Returns the outputs for a non-empty batch of int32 features."""
        raise NotImplementedError

    def tokenize(self, *texts: tf.Tensor) -> Tensors:
        """Converts string tensors to features, the argument of `answers`."""
        return self.model.features_in_graph(texts[0] if len(texts) == 1 else texts)

    def answers_of_strings(self, *texts: tf.Tensor) -> Tensors:
        return self.answers_of_ids(self.tokenize(*texts))

    def answers_of_ids(self, features: Tensors) -> Tensors:
        """Returns the outputs for features. Calls `answers` on chunks of the batch."""
        if self.answers_whole_rows:
            return self.by_length(self.network, features)
        return self.in_chunks(self.network, features)

    def more(self) -> dict[str, tuple[Callable, dict[str, int]]]:
        """Returns additional signatures on strings: {name: (function, {input name: rank})}."""
        return {}

    def reference(self, **inputs: list) -> list[dict[str, Any]]:
        """Returns the Keras model's outputs for strings, to compare with an export.

        Returns:
            A dict of outputs for each example, without padding. Some outputs may be omitted.
        """
        raise NotImplementedError

    def as_example(self, text: str) -> str:
        """Converts a text to a valid example. For a masked LM, adds a mask token."""
        return text

    def takes_pairs(self) -> bool:
        """Returns whether the encoder supports text pairs."""
        segments = self.config.num_segments
        return not segments or self.tokenizer.segment_of_second < segments

    @property
    def models(self) -> list[keras.Model]:
        """The models whose variables are exported with the signatures."""
        return [self.model]

    def described(self) -> dict[str, Any]:
        """Returns the JSON files for clients, such as the labels: {file name: content}."""
        names = ("labels", "thresholds")
        return {name: value for name in names if (value := getattr(self.model, name, None))}

    @property
    def tokenization(self) -> tuple:
        """Equal for two signatures that convert texts to the same features."""
        long_texts = getattr(self.model, "long_texts", None)
        return type(self), self.tokenizer.fingerprint, self.max_length, long_texts

    # === Shared by all subclasses ===

    def functions(self, ids_only: bool = False) -> Functions:
        """Returns the signatures. `ids_only` omits the signatures on strings."""
        check_buckets(self.buckets, self.config.max_length)
        names = ["serving_default", *self.more(), "embed", "tokenize", "ids", "hub_ids"]
        with encoders_traced_once(self.buckets), core_operations(not self.custom_ops):
            if ids_only:
                ids = self.function("ids")
                return {"serving_default": ids, "ids": ids, "hub_ids": self.function("hub_ids")}
            return {name: self.function(name) for name in names}

    def function(self, name: str) -> Function:
        if name == "ids":
            return self._trace_ids({name: name for name in self.features()})
        if name == "hub_ids":
            return self._trace_ids({name: HUB_NAMES.get(name, name) for name in self.features()})
        string_inputs = {
            "serving_default": (self.answers_of_strings, self.strings),
            "tokenize": (self.tokenize, self.strings),
            "embed": (self.embed, {"text": 1}),
            **self.more(),
        }
        return _trace_strings(*string_inputs[name])

    def features(self) -> tuple[str, ...]:
        return FEATURES

    def embed(self, text: tf.Tensor) -> Tensors:
        """Returns `vectors`, float32 `[batch, hidden]`, the mean hidden states of the tokens."""
        return self.by_length(self._vectors, self.cut(text))

    def in_chunks(self, function: Callable, rows: Tensors) -> Tensors:
        return in_chunks(function, rows, buckets=self.buckets)

    def by_length(self, function: Callable, rows: Tensors, least_length: int = 1) -> Tensors:
        """Applies a function to chunks of rows of similar length. Keeps the order of the rows.

        Args:
            function: returns one result per row. The results must have no length dimension,
                because chunks differ in length.
        """
        results, order = self.in_order_of_length(function, rows, least_length)
        back = tf.argsort(order)
        return {name: tf.gather(result, back) for name, result in results.items()}

    def in_order_of_length(
        self, function: Callable, rows: Tensors, least_length: int = 1
    ) -> tuple[Tensors, tf.Tensor]:
        """Applies a function to chunks of rows of similar length. Sorts the results by length.

        Returns:
            (sorted results, int32 `[rows]` with the original index of each result).
        """
        if self.buckets or self.whole_batches:
            return self.in_chunks(function, rows), tf.range(tf.shape(rows["padding_mask"])[0])
        rows, order = sorted_by_length(rows)
        return in_chunks_by_length(function, rows, least_length), order

    def cut(self, texts: Any) -> Tensors:
        """Returns the features of texts, truncated to `max_length`, padded to the longest text."""
        features = self.tokenizer(texts, length=self.max_length)
        lengths = tf.reduce_sum(features["padding_mask"], axis=1)
        longest = tf.reduce_max(tf.pad(lengths, [[0, 1]]))  # An empty batch gets length 0.
        return {name: feature[:, :longest] for name, feature in features.items()}

    def _compute_vectors(self, features):
        states = self.encoder(features, training=False)["sequence_output"]
        return {"vectors": self.pooling(states, features["padding_mask"])}

    def _trace_ids(self, names):
        """Returns a signature on features. `names` is {name of a feature: name of the input}."""

        def answer(*tensors):
            features = dict(zip(names, tensors))
            with tf.control_dependencies(self._make_assertions(features, names)):
                return self.answers_of_ids({n: tf.identity(f) for n, f in features.items()})

        return _trace_function(answer, dict.fromkeys(names.values(), self.features_rank), tf.int32)

    def _make_assertions(self, features, names):
        """Returns assertions on the features, because some devices do not check token ids."""
        limits = {"token_ids": self.config.vocabulary_size}
        if self.config.num_segments:
            limits["segment_ids"] = self.config.num_segments
        checks = [
            tf.debugging.Assert(
                tf.reduce_all((features[name] >= 0) & (features[name] < limit)),
                [
                    f"{names[name]} must be in [0, {limit}). Received: from",
                    tf.reduce_min(features[name]),
                    "to",
                    tf.reduce_max(features[name]),
                ],
            )
            for name, limit in limits.items()
        ]
        ids, shape = names["token_ids"], tf.shape(features["token_ids"])
        for name, own_name in names.items():
            message = f"{own_name} must have the shape of {ids}."
            checks.append(tf.debugging.assert_equal(tf.shape(features[name]), shape, message))
        too_long = f"{ids} may be up to {self.config.max_length} tokens long."
        checks.append(tf.debugging.assert_less_equal(shape[-1], self.config.max_length, too_long))
        empty = f"{ids} must have at least one token in a row."
        checks.append(tf.debugging.assert_positive(shape[-1], empty))
        return checks


def _trace_strings(function, ranks):
    """Returns the signature on strings. All inputs must have the same number of texts."""
    names = list(ranks)

    def answer(*texts):
        count = tf.shape(texts[0])[0]
        same = [
            tf.debugging.assert_equal(
                tf.shape(text)[0],
                count,
                f"{names[0]} and {name} must have the same number of texts.",
            )
            for name, text in zip(names[1:], texts[1:])
        ]
        with tf.control_dependencies(same):
            return function(*map(tf.identity, texts))

    return _trace_function(answer, ranks, tf.string)


def _trace_function(function, ranks, dtype):
    def checked(*tensors):
        shapes = ([None] * rank for rank in ranks.values())
        return function(*(tf.ensure_shape(g, shape) for g, shape in zip(tensors, shapes)))

    specs = [tf.TensorSpec([None] * rank, dtype, name=name) for name, rank in ranks.items()]
    return tf.function(checked, autograph=False).get_concrete_function(*specs)
