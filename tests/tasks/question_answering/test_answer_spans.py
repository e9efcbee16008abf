"""The table of answers: its order, its scores, and what fills it up."""

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.question_answering.answer_spans import Spans, answer_table


class Contexts:
    """Contexts in which the text of a span is its place."""

    def strings(self, starts, ends):
        return tf.strings.as_string(starts)

    def in_texts(self, places, texts):
        return places


def spans(texts, totals):
    count = len(texts)
    return Spans(
        starts=tf.range(1, count + 1),
        ends=tf.range(2, count + 2),
        start_logits=tf.constant(totals, tf.float64),
        end_logits=tf.zeros(count, tf.float64),
        texts=tf.constant(texts, tf.int64),
    )


def test_what_follows_the_answers_of_a_question_is_empty():
    answer_spans = spans([0, 0, 0, 1], [3.0, 2.0, 1.0, 5.0])
    nulls = tf.constant([[2.5, 0.0], [9.0, 0.0], [0.0, 0.0]], tf.float64)
    table = answer_table(answer_spans, Contexts(), 3, 3, nulls)
    # "" is among the first three of question 0, so its last span is no answer.
    assert table["num_answers"].numpy().tolist() == [3, 2, 1]
    assert table["answers"].numpy().tolist() == [
        [b"1", b"", b"2", b""],
        [b"", b"4", b"", b""],
        [b"", b"", b"", b""],
    ]
    assert table["starts"].numpy().tolist() == [[1, 0, 2, 0], [0, 4, 0, 0], [0, 0, 0, 0]]
    assert table["ends"].numpy()[0].tolist() == [2, 0, 3, 0]
    assert table["start_logits"].numpy()[0].tolist() == [3.0, 2.5, 2.0, 0.0]
    odds = np.exp([3.0, 2.5, 2.0])
    np.testing.assert_allclose(table["scores"][0], [*(odds / odds.sum()), 0.0], rtol=1e-12)
