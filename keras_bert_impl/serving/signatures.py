"""What the signatures of all exports share: their inputs, and what is wrong with some."""

import tensorflow as tf

from keras_bert_impl.layers import MeanPooling
from keras_bert_impl.serving.buckets import check_buckets, compiled_in_buckets
from keras_bert_impl.serving.chunks import in_chunks

FEATURES = ("token_ids", "segment_ids", "padding_mask")
HUB_NAMES = {  # of the encoders that Google published as SavedModels
    "token_ids": "input_word_ids",
    "padding_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


class Signatures:
    """The graphs of what a served model answers; a subclass for each family of outputs.

    A subclass says what is made of features, `answers`; and where that is not all, what is made of
    strings, `answers_of_strings`, or further signatures, `more`. Every output has the batch as its
    first dimension, and what is of different number for each example is padded and counted: so a
    server can put requests into one batch and part the answers again.

    Args:
        model: the `keras.Model` whose variables the graphs use.
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.
        max_length: int. Texts are cut to so many tokens.

    Attributes:
        buckets: list of (rows, length), shapes for which encoders are compiled by XLA; see
            `serving.buckets`. To be set before anything is traced. Default: none.
    """

    strings = {"text": 1}  # what `serving_default` takes: name to rank
    features_rank = 2  # of token_ids

    def __init__(self, model, encoder, tokenizer, max_length):
        self.model = model
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.config = encoder.config
        self.max_length = max_length
        self.buckets = []
        self.encoders = [encoder]  # what buckets are for
        self.pooling = MeanPooling(dtype="float32")
        # Several signatures share these: each is traced, and stored, once.
        self.network = tf.function(self.answers, autograph=False)
        self._vectors = tf.function(self._vectors_of, autograph=False)

    # === What a subclass says ===

    def answers(self, features):
        """The outputs for a batch of features, which is never empty.

        Args:
            features: dict of int32 tensors.

        Returns:
            dict of tensors, a row in each for each row of features.
        """
        raise NotImplementedError

    def tokenize(self, *texts):
        """The features of a batch of strings, as `answers` takes them.

        Args:
            *texts: string tensors, as of `strings`.
        """
        return self.model.features_in_graph(texts[0] if len(texts) == 1 else texts)

    def answers_of_strings(self, *texts):
        """The outputs for a batch of strings; arguments as of `tokenize`."""
        return self.in_chunks(self.network, self.tokenize(*texts))

    def answers_of_ids(self, features):
        """The outputs for features that a client made; arguments as of `answers`."""
        return self.in_chunks(self.network, features)

    def more(self):
        """dict of further signatures on strings: name to (function, dict of name to rank)."""
        return {}

    def reference(self, **inputs):
        """What the model itself answers to strings, for checks of what was exported.

        Args:
            **inputs: lists of strings, as of `strings`.

        Returns:
            list (an example) of dicts of outputs by name, without padding; not all of them need be
            there.
        """
        raise NotImplementedError

    def as_example(self, text):
        """A text, str, of the kind that the model is asked of; of any text."""
        return text

    def takes_pairs(self):
        """Not where the tokenizer marks the second text and the encoder has no row for that."""
        segments = self.config.num_segments
        return not segments or self.tokenizer.segment_of_second < segments

    # === All of them ===

    def functions(self, ids_only=False):
        """The signatures.

        Args:
            ids_only: bool. Whether to leave out those that take strings.

        Returns:
            dict of name to concrete function.

        Raises:
            InputError: a bucket that the encoder has no use for.
        """
        check_buckets(self.buckets, self.config.max_length)
        names = ["serving_default", *self.more(), "embed", "tokenize", "ids", "hub_ids"]
        with compiled_in_buckets(self.encoders, self.buckets):
            if ids_only:
                ids = self.function("ids")
                return {"serving_default": ids, "ids": ids, "hub_ids": self.function("hub_ids")}
            return {name: self.function(name) for name in names}

    def function(self, name):
        """The concrete function of the signature with this name."""
        if name == "ids":
            return self._of_ids({name: name for name in self.features()})
        if name == "hub_ids":
            return self._of_ids({name: HUB_NAMES.get(name, name) for name in self.features()})
        of_strings = {
            "serving_default": (self.answers_of_strings, self.strings),
            "tokenize": (self.tokenize, self.strings),
            "embed": (self.embed, {"text": 1}),
            **self.more(),
        }
        return _of_strings(*of_strings[name])

    def features(self):
        """Names of the features that `ids` takes."""
        return FEATURES

    def embed(self, text):
        """The vectors of texts: the mean over the tokens of the last hidden states.

        Args:
            text: string tensor `[batch]`. Cut to `max_length` tokens.

        Returns:
            dict of `vectors`, float32 `[batch, hidden]`.
        """
        return self.in_chunks(self._vectors, self.cut(text))

    def in_chunks(self, function, rows):
        """What a function that calls an encoder makes of rows; as `chunks.in_chunks`."""
        return in_chunks(function, rows, buckets=self.buckets)

    def cut(self, texts):
        """Features of texts, cut to `max_length` and as long as the longest of them.

        Args:
            texts: as a `Tokenizer` takes them.
        """
        features = self.tokenizer(texts, length=self.max_length)
        lengths = tf.reduce_sum(features["padding_mask"], axis=1)
        longest = tf.reduce_max(tf.pad(lengths, [[0, 1]]))  # 0 of a batch of none
        return {name: feature[:, :longest] for name, feature in features.items()}

    def _vectors_of(self, features):
        states = self.encoder(features, training=False)["sequence_output"]
        return {"vectors": self.pooling(states, features["padding_mask"])}

    def _of_ids(self, names):
        """The signature on features that have these names; dict of ours to those."""

        def answer(*given):
            features = dict(zip(names, given))
            with tf.control_dependencies(self._checks(features, names)):
                return self.answers_of_ids({n: tf.identity(f) for n, f in features.items()})

        return _concrete(answer, dict.fromkeys(names.values(), self.features_rank), tf.int32)

    def _checks(self, features, names):
        """Assertions in the graph: a lookup past the end of a table is silent on some devices."""
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
            checks.append(
                tf.debugging.assert_equal(
                    tf.shape(features[name]), shape, f"{own_name} must have the shape of {ids}."
                )
            )
        too_long = f"{ids} may be up to {self.config.max_length} long."
        checks.append(tf.debugging.assert_less_equal(shape[-1], self.config.max_length, too_long))
        checks.append(tf.debugging.assert_positive(shape[-1], f"{ids} must have a length."))
        return checks


def _of_strings(function, ranks):
    """The signature on strings, which must be as many."""
    names = list(ranks)

    def answer(*texts):
        count = tf.shape(texts[0])[0]
        same = [
            tf.debugging.assert_equal(
                tf.shape(text)[0], count, f"{names[0]} and {name} must be as many texts."
            )
            for name, text in zip(names[1:], texts[1:])
        ]
        with tf.control_dependencies(same):
            return function(*map(tf.identity, texts))

    return _concrete(answer, ranks, tf.string)


def _concrete(function, ranks, dtype):
    """The concrete function of named tensors, of which a server may be sent any shape."""

    def checked(*given):
        shapes = ([None] * rank for rank in ranks.values())
        return function(*(tf.ensure_shape(g, shape) for g, shape in zip(given, shapes)))

    specs = [tf.TensorSpec([None] * rank, dtype, name=name) for name, rank in ranks.items()]
    return tf.function(checked, autograph=False).get_concrete_function(*specs)

