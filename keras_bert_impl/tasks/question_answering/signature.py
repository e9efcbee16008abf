"""Serving signatures of question answering models."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.serving.graphs import networks
from keras_bert_impl.serving.graphs.networks import Network, to_numpy
from keras_bert_impl.serving.graphs.signatures import FEATURES, Signatures
from keras_bert_impl.tasks.question_answering.answer_spans import (
    answer_table,
    candidate_spans,
    lowest_nulls,
    ranked_spans,
)
from keras_bert_impl.tokenizers.text_words import TextReader, window_features
from keras_bert_impl.tokenizers.windows import pack_windows


class QuestionAnswererNetwork(Network):
    """Network with the outputs `start_logits` and `end_logits`, both `[batch, length]`."""

    def write(self, graph: Any) -> None:
        states = networks.hidden_states(
            graph, self.config, networks.add_inputs(graph, self.config)
        )[-1]
        # [batch, length, 2]
        logits = networks.add_logits(graph, states, self.model.get_layer(self.model.head))
        for number, name in enumerate(("start_logits", "end_logits")):
            graph.output(name, graph.add("Gather", logits, number, axis=2), ["batch", "length"])

    def outputs_of_model(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = self.model(features, training=False)
        return {name: to_numpy(output) for name, output in outputs.items()}

    def as_model_outputs(self, session: Any, features: dict[str, np.ndarray]) -> np.ndarray:
        outputs = session(features)
        return np.stack([outputs["start_logits"], outputs["end_logits"]], axis=1)


class AnswerSignatures(Signatures):
    strings = {"question": 1, "context": 1}

    def __init__(self, model: Any, *parts: Any) -> None:
        super().__init__(model, *parts)
        self.read = TextReader()
        self.of_windows = tf.function(self._score_windows, autograph=False)

    def reference(self, question: list[str], context: list[str]) -> list[dict[str, Any]]:  # type: ignore[override]
        pairs = list(zip(question, context))
        predicted, best_texts = self.model.predict(pairs, verbose=0), self.model.answer(pairs)
        return [
            {
                "answer": answer,
                "num_answers": len(answers),
                "answers": [candidate.text for candidate in answers],
                "starts": [candidate.start for candidate in answers],
                "ends": [candidate.end for candidate in answers],
                "scores": [candidate.score for candidate in answers],
            }
            for answer, answers in zip(best_texts, predicted)
        ]

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        logits = self.model.logits(features, training=False)
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}

    def tokenize(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        return window_features(self._pack_windows(question, context), self.tokenizer.pad_id)

    def answers_of_strings(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        windows = self._pack_windows(question, context)
        tokens, can_start = windows.tokens(), windows.has_most_context()
        rows = {**windows.features, "tokens": tokens, "can_start": can_start}
        candidates = self.by_length(self.of_windows, rows, least_length=self.model.num_best)
        contexts, num_texts = self.read(context), tf.size(context, tf.int64)
        offsets = windows.token_starts, windows.token_ends
        num_best = self.model.num_best
        spans = ranked_spans(candidates, windows.texts, *offsets, contexts, num_best)
        nulls = None
        if self.model.null_threshold is not None:
            nulls = lowest_nulls(candidates, windows.texts, num_texts)
        table = answer_table(spans, contexts, num_texts, num_best, nulls)
        return _build_outputs(table, nulls, self.model.null_threshold)

    def _pack_windows(self, question, context):
        model = self.model
        sizes = model.max_length, model.doc_stride, model.max_question_length
        return pack_windows(self.tokenizer, (question, context), *sizes)

    def _score_windows(self, rows):
        logits = self.model.logits({name: rows[name] for name in FEATURES}, training=False)
        return candidate_spans(
            tf.cast(logits, tf.float32),
            rows["tokens"],
            rows["can_start"],
            self.model.num_best,
            self.model.max_answer_length,
        )


def _build_outputs(table, nulls, null_threshold):
    """Converts the answers of each context to the outputs of the serving signature.

    Args:
        nulls: float64 [batch, 2], the result of `lowest_nulls`; None if every question has an
            answer.
    """
    totals = table["start_logits"] + table["end_logits"]
    is_answer = tf.sequence_mask(table["num_answers"], totals.shape[1])
    is_text = is_answer & tf.not_equal(table["answers"], "")
    has_text, column = tf.reduce_any(is_text, axis=1), tf.argmax(tf.cast(is_text, tf.int32), axis=1)
    null_outputs = {}
    if nulls is not None:
        best_total = tf.gather(totals, column, batch_dims=1)
        odds = tf.reduce_sum(nulls, axis=1) - tf.where(has_text, best_total, 0.0)
        null_outputs["null_score"] = tf.cast(odds, tf.float32)
        is_null = ~has_text | (odds > null_threshold)
        is_null_column = is_answer & tf.equal(table["answers"], "")
        null_column = tf.argmax(tf.cast(is_null_column, tf.int32), axis=1)
        column = tf.where(is_null, null_column, column)
    many = {name: table[name] for name in ("answers", "starts", "ends")}
    many["scores"] = tf.cast(table["scores"], tf.float32)
    best_outputs = {
        name.removesuffix("s"): tf.gather(values, column, batch_dims=1)
        for name, values in many.items()
    }
    return {**best_outputs, **null_outputs, "num_answers": table["num_answers"], **many}
