"""Spans and their scores, against `seqeval` on random sequences, most of them broken."""

import random
import warnings

import pytest
import seqeval.metrics
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB1, IOB2, IOBES, Tokens

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks.spans import (
    Span,
    convert_labels,
    detect_scheme,
    entity_scores,
    labels_of,
    spans_of,
)

SEQEVAL = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES}
PREFIXES = {"IOB1": "IB", "IOB2": "IB", "BIOES": "IBES", None: "IBES"}
TYPES = ("PER", "LOC", "creative-work")


def random_labels(draw, scheme, most=7):
    labels = ["O", *(f"{prefix}-{name}" for prefix in PREFIXES[scheme] for name in TYPES)]
    return [draw.choice(labels) for _ in range(draw.randint(0, most))]


def random_spans(draw, length=8):
    """Entities of a sentence, many of which touch."""
    spans, start = [], 0
    while start < length:
        end = start + draw.randint(1, 3)
        if draw.random() < 0.6 and end <= length:
            spans.append(Span(draw.choice(TYPES), start, end))
        start = end
    return spans


@pytest.mark.parametrize("scheme", [None, *SEQEVAL])
def test_any_sequence_is_read_as_by_seqeval(scheme):
    draw = random.Random(0)
    for _ in range(5000):
        labels = random_labels(draw, scheme)
        if scheme is None:
            expected = [(name, start, end + 1) for name, start, end in get_entities(labels)]
        else:
            entities = Tokens(labels, SEQEVAL[scheme]).entities
            expected = [(entity.tag, entity.start, entity.end) for entity in entities]
        assert [tuple(span) for span in spans_of(labels, scheme)] == expected, labels


@pytest.mark.parametrize("scheme", SEQEVAL)
def test_entities_go_to_labels_and_back(scheme):
    draw = random.Random(1)
    for _ in range(300):
        spans = random_spans(draw)
        labels = labels_of(spans, 8, scheme)
        assert spans_of(labels) == spans_of(labels, scheme) == spans
        for other in SEQEVAL:
            assert convert_labels(convert_labels(labels, other), scheme) == labels


def test_schemes():
    spans = [Span("PER", 0, 2), Span("PER", 2, 3), Span("LOC", 3, 4)]
    assert labels_of(spans, 5, "IOB1") == ["I-PER", "I-PER", "B-PER", "I-LOC", "O"]
    assert labels_of(spans, 5, "IOB2") == ["B-PER", "I-PER", "B-PER", "B-LOC", "O"]
    assert labels_of(spans, 5, "BIOES") == ["B-PER", "E-PER", "S-PER", "S-LOC", "O"]
    assert labels_of([Span("_", 0, 2)], 2) == ["B", "I"]
    assert spans_of(["B", "I"]) == [Span("_", 0, 2)]


@pytest.mark.parametrize(
    "labels, scheme",
    [
        (["O", "B-PER", "I-PER", "B-LOC"], "IOB2"),
        (["O", "I-PER", "B-LOC", "I-LOC"], "IOB1"),
        (["O", "S-PER", "B-PER", "E-PER"], "BIOES"),
        (["B", "I", "O"], "IOB2"),
        (["O"], None),
        (["NOUN", "VERB", "INTJ"], None),
        (["O", "B-PER", "B_LOC"], None),
    ],
)
def test_the_scheme_shows_in_the_labels(labels, scheme):
    assert detect_scheme(labels) == scheme


@pytest.mark.parametrize("scheme", [None, *SEQEVAL])
def test_scores_equal_those_of_seqeval(scheme):
    draw = random.Random(2)
    strict = {} if scheme is None else {"mode": "strict", "scheme": SEQEVAL[scheme]}
    for _ in range(8):
        gold = [labels_of(random_spans(draw), 8, scheme or "IOB2") for _ in range(12)]
        # Half of the words as they are, so that some entities are found.
        guess = [
            [
                label if draw.random() < 0.5 else other
                for label, other in zip(labels, random_labels(draw, scheme, 40) + labels)
            ]
            for labels in gold
        ]
        ours = entity_scores(gold, guess, scheme)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what they divide by zero
            report = seqeval.metrics.classification_report(
                gold, guess, output_dict=True, zero_division=0, **strict
            )
        # To the last digit but one: a mean may be summed in another order.
        for name, score in (("f1", "f1-score"), ("precision",) * 2, ("recall",) * 2):
            assert ours[name] == pytest.approx(report["micro avg"][score], abs=1e-15)
            assert ours[f"macro_{name}"] == pytest.approx(report["macro avg"][score], abs=1e-15)
            of_types = {key: report[key][score] for key in ours["types"]}
            assert {key: value[name] for key, value in ours["types"].items()} == of_types
        assert set(ours["types"]) == set(report) - {"micro avg", "macro avg", "weighted avg"}
        assert all(report[key]["support"] == ours["types"][key]["support"] for key in of_types)


def test_nothing_found_is_zero():
    scores = entity_scores([["O", "B-PER"]], [["O", "O"]])
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0, 0, 0)
    assert entity_scores([["O"]], [["O"]])["macro_f1"] == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: spans_of(["NOUN"]), "'NOUN' is neither 'O' nor like 'B-PER'"),
        (lambda: spans_of(["E-PER"], "IOB2"), "'E-PER' is none of IOB2"),
        (lambda: spans_of(["O"], "BILOU"), "scheme must be one of IOB1, IOB2, BIOES"),
        (lambda: labels_of([Span("PER", 0, 2), Span("PER", 1, 3)], 3), "overlaps another"),
        (lambda: labels_of([Span("PER", 0, 4)], 3), "3 words do not hold it"),
        (lambda: entity_scores([["O"]], [["O", "O"]]), "sentence 0: 1 labels, but 2 predicted"),
        (lambda: entity_scores([["O"]], []), "1 sentences, but predictions for 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
