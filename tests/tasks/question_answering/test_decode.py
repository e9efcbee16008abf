import math

import numpy as np
import pytest

from keras_bert_impl.data.batches.windows import tokenize_windows
from keras_bert_impl.tasks.question_answering.decode import (
    Answer,
    best_answer,
    n_best_answers,
    null_odds,
)
from tests.tasks.helpers import WORDS, tokenizer

TOKENIZER = tokenizer()
LENGTH = 14


def some_pairs(count=12, seed=0):
    """Questions, and contexts of 0 to 24 words that often repeat, so that texts occur twice."""
    draw = np.random.default_rng(seed)
    contexts = ["  ".join(draw.choice(WORDS[:6], draw.integers(0, 25))) for _ in range(count)]
    return [(" ".join(WORDS[: draw.integers(0, 4)]), context) for context in contexts]


@pytest.fixture(scope="module")
def asked():
    pairs = some_pairs()
    windows = tokenize_windows(pairs, TOKENIZER, LENGTH, stride=3, first_length=3)
    logits = np.random.default_rng(1).normal(size=(windows.num_texts, 2, LENGTH + 2))
    return pairs, windows, logits.astype("float32")


def every_answer(pairs, windows, logits, num_best, longest):
    """Brute force over all answers: (total, text, start, end), best first."""
    answers = [{} for _ in pairs]
    splits = windows.row_splits.numpy()
    for row, question in enumerate(windows.texts):
        places = slice(*splits[row : row + 2])
        tokens, counts = windows.tokens[places], windows.has_most_context[places]
        starts = sorted(np.flatnonzero(counts), key=lambda i: -logits[row, 0, i])[:num_best]
        ends = sorted(np.flatnonzero(tokens >= 0), key=lambda i: -logits[row, 1, i])[:num_best]
        first = windows.text_splits[question]
        for i in starts:
            for j in ends:
                if not 1 <= tokens[j] - tokens[i] + 1 <= longest:
                    continue
                start = windows.token_starts[first + tokens[i]]
                end = windows.token_ends[first + tokens[j]]
                text = pairs[question][1][start:end]
                total = float(logits[row, 0, i]) + float(logits[row, 1, j])
                if text not in answers[question] or answers[question][text][0] < total:
                    answers[question][text] = (total, text, start, end)
    return [sorted(texts.values(), reverse=True)[:num_best] for texts in answers]


@pytest.mark.parametrize("num_best, longest", [(100, 30), (100, 3), (4, 5), (1, 2)])
def test_n_best_equals_exhaustive_search(asked, num_best, longest):
    pairs, windows, logits = asked
    assert windows.num_texts > 2 * len(pairs)
    contexts = [context for _, context in pairs]
    received = n_best_answers(logits, windows, contexts, num_best, longest)
    expected = every_answer(pairs, windows, logits, num_best, longest)
    assert any(expected)
    for answers, best in zip(received, expected):
        if not best:
            assert answers == [Answer("", 0, 0, 1.0, 0.0, 0.0)]
            continue
        rows = [(a.start_logit + a.end_logit, a.text, a.start, a.end) for a in answers]
        assert rows == best
        exponentials = [math.exp(total) for total, *_ in best]
        scores = [answer.score for answer in answers]
        # A softmax of numbers of magnitude 1, in float64.
        assert scores == pytest.approx([e / sum(exponentials) for e in exponentials], rel=1e-12)


def test_null_answer_is_from_the_window_with_the_lowest_score(asked):
    pairs, windows, logits = asked
    contexts = [context for _, context in pairs]
    plain = n_best_answers(logits, windows, contexts, 4)
    received = n_best_answers(logits, windows, contexts, 4, with_null=True)
    last = 0
    for question, (without, answers) in enumerate(zip(plain, received)):
        of_windows = logits[windows.texts == question][:, :, 0].astype("float64")
        least = of_windows[of_windows.sum(axis=1).argmin()]
        nulls = [answer for answer in answers if not answer.text]
        assert [(null.start_logit, null.end_logit) for null in nulls] == [tuple(least)]
        totals = [answer.start_logit + answer.end_logit for answer in answers]
        assert totals == sorted(totals, reverse=True)
        assert sum(answer.score for answer in answers) == pytest.approx(1)
        texts = [answer.text for answer in without if answer.text]
        non_empty = [answer.text for answer in answers if answer.text]
        assert non_empty == texts[: len(non_empty)] and len(non_empty) >= min(len(texts), 3)
        last += len(answers) == 5
        if texts:
            best = without[0].start_logit + without[0].end_logit
            assert null_odds(answers) == pytest.approx(least.sum() - best)
    assert 0 < last < len(pairs)  # "" follows the best four, or is among them


def test_the_null_threshold_decides():
    answers = [Answer("cat", 0, 3, 0.6, 2.0, 1.0), Answer("", 0, 0, 0.4, 1.5, 1.0)]
    assert null_odds(answers) == -0.5
    cat, nothing = answers
    assert best_answer(answers) == best_answer(answers, -0.5) == cat
    assert best_answer(answers, -0.6) == best_answer(answers[1:]) == nothing
    assert best_answer(answers[::-1]) == cat


def test_answers_are_stripped_and_not_empty():
    """Like byte-level tokens, of which one is white space and one is empty."""

    class Windows:
        num_texts, texts, text_splits = 1, np.array([0]), np.array([0, 4])
        tokens = np.array([-1, 0, 1, 2, 3])
        has_most_context = tokens >= 0
        token_starts, token_ends = np.array([0, 1, 3, 3]), np.array([1, 3, 3, 7])

        def columns(self):
            return np.zeros(5, int), np.arange(5)

    logits = np.zeros((1, 2, 5), "float32")
    (answers,) = n_best_answers(logits, Windows(), ["a\t b cd"], max_answer_length=4)
    spans = {(answer.text, answer.start, answer.end) for answer in answers}
    # Tokens "a", "\t ", "" and "b cd".
    assert spans == {("a", 0, 1), ("a\t b cd", 0, 7), ("b cd", 3, 7)}


def test_answer_begins_where_it_has_most_context():
    pairs = [("a", " ".join(WORDS[:12]))]
    windows = tokenize_windows(pairs, TOKENIZER, 12, stride=4, first_length=1)
    logits = np.zeros((windows.num_texts, 2, 12), "float32")
    rows, columns = windows.columns()
    # In the window that ends right after it, a token lacks context and is not used.
    place = np.flatnonzero((windows.tokens == 7) & ~windows.has_most_context)[0]
    logits[rows[place], :, columns[place]] = 50
    place = np.flatnonzero((windows.tokens == 6) & windows.has_most_context)[0]
    logits[rows[place], :, columns[place]] = 1
    (answers,) = n_best_answers(logits, windows, [pairs[0][1]], num_best=30)
    best = max(answers, key=lambda answer: answer.start_logit)
    assert best.text.split()[0] == WORDS[6] and best.start_logit == 1
