"""A SavedModel that takes raw strings; loading it needs only tensorflow and tensorflow_text."""

import tensorflow as tf

from keras_bert_impl.files import replace_directory

_FEATURES = ("token_ids", "segment_ids", "padding_mask")


def export_classifier(classifier, directory):
    """Writes a classifier as a SavedModel.

    Signatures, with any batch size, none included:

    - `serving_default(text: string[batch])`;
    - `pairs(first: string[batch], second: string[batch])`, unless the encoder has embeddings for
      one segment alone and the tokenizer numbers two;
    - `ids(token_ids, segment_ids, padding_mask: int32[batch, length])`, or of texts in windows
      `int32[batch, windows, length]`;
    - `tokenize(text: string[batch])` -> the features that `ids` takes.

    The first three return `scores`, float32 `[batch, num_classes]`, what `predict` returns, and

    - for a single label `label`, string `[batch]`, and `label_id`, int32 `[batch]`;
    - for several labels `labels`, string `[batch, num_classes]`: the name where the score is at
      least 0.5, else the empty string.

    The graph computes in the model's dtype policy, so that it agrees with `predict`: in float32 to
    1e-5 at any batch size; in bfloat16 to its rounding, which depends on the batch. For a server
    load the model with `dtype="float32"` first.

    Args:
        classifier: `TextClassifier`.
        directory: str or `Path`. Written aside and renamed.

    Example:
        export_classifier(classifier, "exported")
        served = tf.saved_model.load("exported").signatures["serving_default"]
        served(text=tf.constant(["a text"]))["label"]
    """
    module = tf.Module()
    # The variables alone: Keras's own serving functions of the layers are not for this artefact.
    module.weights = [variable.value for variable in classifier.variables]
    signatures = _Signatures(classifier).functions()
    with replace_directory(directory) as temporary:
        tf.saved_model.save(module, str(temporary), signatures=signatures)


class _Signatures:
    """The graphs of the signatures."""

    def __init__(self, classifier):
        self._classifier = classifier
        # Several signatures share these two: each is traced, and stored, once.
        self._features = tf.function(classifier.features_in_graph, autograph=False)
        self._answers = tf.function(self._answers_of, autograph=False)

    def functions(self):
        """dict of the concrete functions by name."""
        functions = {
            "serving_default": (self._text, _strings("text")),
            "pairs": (self._pairs, _strings("first"), _strings("second")),
            "ids": (self._ids, *map(self._ints, _FEATURES)),
            "tokenize": (self._tokenize, _strings("text")),
        }
        if not self._takes_pairs():
            del functions["pairs"]
        return {
            name: tf.function(function, autograph=False).get_concrete_function(*specs)
            for name, (function, *specs) in functions.items()
        }

    def _takes_pairs(self):
        """Not where the tokenizer marks the second text and the encoder has no row for that."""
        segments = self._classifier.config.num_segments
        return not segments or self._classifier.tokenizer.segment_of_second < segments

    def _ints(self, name):
        return tf.TensorSpec(self._classifier.input[name].shape, tf.int32, name=name)

    def _text(self, text):
        return self._answers(self._features(text))

    def _pairs(self, first, second):
        same = tf.debugging.assert_equal(
            tf.size(first), tf.size(second), "pairs: first and second must have as many texts."
        )
        with tf.control_dependencies([same]):
            return self._answers(self._features((first, second)))

    def _ids(self, token_ids, segment_ids, padding_mask):
        features = dict(zip(_FEATURES, (token_ids, segment_ids, padding_mask)))
        with tf.control_dependencies(self._checks(features)):
            return self._answers({name: tf.identity(value) for name, value in features.items()})

    def _tokenize(self, text):
        return self._features(text)

    def _answers_of(self, features):
        classifier = self._classifier
        scores = classifier.scores(classifier(features, training=False))  # [batch, num_classes]
        names = tf.constant(classifier.labels)
        if classifier.problem_type == "regression":
            return {"scores": scores}
        if classifier.problem_type == "multi_label_classification":
            return {"labels": tf.where(scores >= 0.5, names, ""), "scores": scores}
        label_id = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return {"label": tf.gather(names, label_id), "label_id": label_id, "scores": scores}

    def _checks(self, features):
        """Assertions in the graph: a lookup past the end of a table is silent on some devices."""
        config = self._classifier.config
        limits = {"token_ids": config.vocabulary_size}
        if config.num_segments:
            limits["segment_ids"] = config.num_segments
        checks = [
            tf.debugging.Assert(
                tf.reduce_all((features[name] >= 0) & (features[name] < limit)),
                [
                    f"{name} must be in [0, {limit}). Received: from",
                    tf.reduce_min(features[name]),
                    "to",
                    tf.reduce_max(features[name]),
                ],
            )
            for name, limit in limits.items()
        ]
        shape = tf.shape(features["token_ids"])
        for name in ("segment_ids", "padding_mask"):
            checks.append(
                tf.debugging.assert_equal(
                    tf.shape(features[name]), shape, f"{name} must have the shape of token_ids."
                )
            )
        too_long = f"token_ids may be up to {config.max_length} long."
        checks.append(tf.debugging.assert_less_equal(shape[-1], config.max_length, too_long))
        checks.append(tf.debugging.assert_positive(shape[-1], "token_ids must have a length."))
        return checks


def _strings(name):
    return tf.TensorSpec([None], tf.string, name=name)
