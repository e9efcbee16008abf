"""Serving signatures of multiple choice."""

from typing import Any

import tensorflow as tf

from keras_bert_impl.layers.pooling import is_row
from keras_bert_impl.serving.signatures import FEATURES, Signatures


class ChoiceSignatures(Signatures):
    """Signatures for the most likely ending of a prompt."""

    strings = {"prompt": 1, "endings": 2}
    answers_whole_rows = True

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.features_rank = len(model.input["token_ids"].shape)

    def reference(self, prompt: list[str], endings: list[list[str]]) -> list[dict[str, Any]]:  # type: ignore[override]
        examples = [(one, [e for e in several if e]) for one, several in zip(prompt, endings)]
        return [
            {"scores": scores, "choice": scores.argmax()}
            for scores in self.model.predict(examples, verbose=0)
        ]

    def tokenize(self, prompt: tf.Tensor, endings: tf.Tensor) -> dict[str, tf.Tensor]:
        choices = tf.shape(endings)[1]
        some = tf.debugging.assert_positive(choices, "endings must have one or more columns.")
        with tf.control_dependencies([some]):
            prompts = tf.repeat(prompt, choices)
        rows = self.model.text_features((prompts, tf.reshape(endings, [-1])))
        shape = tf.concat([tf.shape(endings), tf.shape(rows["token_ids"])[1:]], axis=0)
        is_ending = tf.not_equal(endings, "")[(..., *[tf.newaxis] * (self.features_rank - 2))]
        nothing = {"token_ids": self.tokenizer.pad_id}

        def of_endings(name, row):
            row = tf.where(is_ending, tf.reshape(row, shape), nothing.get(name, 0))
            return tf.ensure_shape(row, [None] * self.features_rank)

        return {name: of_endings(name, row) for name, row in rows.items()}

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        model = self.model
        is_choice = is_row(features["padding_mask"])  # [batch, choices]
        scores = model.scores(model({n: features[n] for n in FEATURES}, training=False))
        scores = tf.where(is_choice, scores, 0.0)
        best = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return {
            "choice": tf.where(tf.reduce_any(is_choice, axis=-1), best, -1),
            "score": tf.reduce_max(scores, axis=-1),
            "scores": scores,
        }
