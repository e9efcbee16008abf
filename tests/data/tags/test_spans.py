"""Spans and their scores, compared with `seqeval` on random, mostly invalid sequences."""

import random
import warnings

import pytest
import seqeval.metrics
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Tokens

from keras_bert_impl.data.tags.spans import (
    LETTERS,
    SCHEMES,
    Span,
    convert_labels,
    detect_scheme,
    entity_scores,
    invalid_spans,
    labels_of,
    misfits,
    possible_prefixes,
    read_labels,
    spans_of,
)
from keras_bert_impl.utils.errors import InputError

SEQEVAL = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES, "BILOU": BILOU}
PREFIXES = {"IOB1": "IB", "IOB2": "IB", "BIOES": "IBES", "BILOU": "IBLU", None: "IBES"}
TYPES = ("PER", "LOC", "creative-work")


def random_labels(draw, scheme, most=7):
    labels = ["O", *(f"{prefix}-{name}" for prefix in PREFIXES[scheme] for name in TYPES)]
    return [draw.choice(labels) for _ in range(draw.randint(0, most))]


def random_spans(draw, length=8):
    """Random entities of a sentence, many of them adjacent."""
    spans, start = [], 0
    while start < length:
        end = start + draw.randint(1, 3)
        if draw.random() < 0.6 and end <= length:
            spans.append(Span(draw.choice(TYPES), start, end))
        start = end
    return spans


@pytest.mark.parametrize("scheme", [None, *SEQEVAL])
def test_random_sequences_are_decoded_like_seqeval(scheme):
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
def test_labels_of_spans_round_trip(scheme):
    draw = random.Random(1)
    for _ in range(300):
        spans = random_spans(draw)
        labels = labels_of(spans, 8, scheme)
        assert spans_of(labels) == spans_of(labels, scheme) == spans
        for target in SEQEVAL:
            assert convert_labels(convert_labels(labels, target), scheme) == labels


def test_labels_of_each_scheme():
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
        (["O", "U-PER", "B-PER", "L-PER"], "BILOU"),
        (["O", "B-PER", "M-PER", "E-PER"], "BMES"),
        (["O", "B-PER", "M-PER", "E-PER", "W-PER"], "BMEWO"),
        (["O", "PER", "LOC"], "IO"),
        (["o", "b-per", "i-per", "X", "[CLS]"], "IOB2"),
        (["O", "PER_B", "PER_I"], "IOB2"),
        (["O", "per-s", "per-b", "per-e"], "BIOES"),
        (["O", "E-mail", "S-Corp", "PER"], "IO"),
        (["O"], None),
        (["O", "X", "[SEP]"], None),
        (["NOUN", "VERB", "INTJ"], None),
        (["NOUN", "X", "SYM"], None),
        (["LABEL_0", "LABEL_1"], None),
        (["O", "B-PER", "I-PER", "LOC"], None),
        (["O", "B_PER", "PER"], None),
        (["O", "B-PER", "L-PER", "E-PER"], None),
        (["O", "B-PER", "B_LOC"], None),
        (["O", "BOOK", "LOOK", "INSIDE"], "IO"),
        (["O", "B.A.", "M.A.", "I/O", "S:commerce"], "IO"),
    ],
)
def test_detects_the_scheme(labels, scheme):
    assert detect_scheme(labels) == scheme


# Alternative notations of the labels, each as a function of a BIOES letter and a type.
FORMS = {
    "B_PER": lambda letter, name: f"{letter}_{name}",
    "b-per": lambda letter, name: f"{letter.lower()}-{name.lower()}",
    "PER-B": lambda letter, name: f"{name}-{letter}",
    "per_b": lambda letter, name: f"{name.lower()}_{letter.lower()}",
    "BILOU": lambda letter, name: f"{'BILU'['BIES'.index(letter)]}-{name}",
    "BMES": lambda letter, name: f"{'BMES'['BIES'.index(letter)]}-{name}",
    "BMEWO": lambda letter, name: f"{'BMEW'['BIES'.index(letter)]}-{name}",
    **{
        f"B{mark}PER": lambda letter, name, mark=mark: f"{letter}{mark}{name}"
        for mark in (":", "/", ".", "|", "=", " - ", "", *"\u2010\u2011\u2013\u2212\uff0d")
    },
    "PER:B": lambda letter, name: f"{name}:{letter}",
    "PER (B)": lambda letter, name: f"{name} ({letter})",
    "BEGIN_PER": lambda letter, name: (
        f"{dict(B='BEGIN', I='INSIDE', E='END', S='SINGLE')[letter]}_{name}"
    ),
}


def in_form(form, labels, outside="O"):
    return [
        outside if label == "O" else FORMS[form](*label.split("-", maxsplit=1)) for label in labels
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_notation_is_decoded_like_seqeval(form):
    draw = random.Random(3)
    every = [f"{letter}-{name}" for letter in "BIES" for name in TYPES]
    outside = "o" if form == "b-per" else "O"
    parts = read_labels([outside, *in_form(form, every), "X", "[CLS]"]).parts
    for _ in range(1000):
        labels = random_labels(draw, None)
        tags = [
            draw.choice(["X", "[CLS]", x]) if x == outside else x
            for x in in_form(form, labels, outside)
        ]
        spans = [(name.upper(), start, end - 1) for name, start, end in spans_of(tags, parts=parts)]
        assert spans == [(name.upper(), *place) for name, *place in get_entities(labels)]


def test_bare_types_are_decoded_like_seqeval():
    draw = random.Random(5)
    for _ in range(1000):
        labels = [draw.choice(["O", "PER", "LOC", "MISC"]) for _ in range(draw.randint(1, 9))] + [
            "O"
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown prefixes
            expected = get_entities(labels)  # reads the first letter as the prefix
        assert [(name[1:], s, e - 1) for name, s, e in spans_of(labels)] == expected


def test_labels_that_may_have_a_prefix():
    assert possible_prefixes(["O", "B:PER", "B:LOC"]) == ["B:LOC", "B:PER"]
    for labels in (["O", "B:PER", "I:PER"], ["O", "B:PER"], ["O", "B:PER", "LOC"], ["O", "PER"]):
        assert possible_prefixes(labels) == []


@pytest.mark.parametrize("label", ["{}:{}", "<{}-{}>", "({}){}", "[{}-{}]", "{}/{}", "{}\u2011{}"])
def test_other_separators_and_brackets(label):
    names = {label.format(prefix, kind): kind for prefix in "BI" for kind in ("PER", "LOC")}
    parts = read_labels([*names, "O"]).parts
    assert {name: parts[name][1] for name in names} == names


def test_long_labels_are_read_in_little_time():
    assert read_labels(["O", "B-" + "[" * 100_000]) is not None
    assert read_labels(["B:PER", "I:" + "[" * 100_000]) is None


def test_misfits_are_labels_in_another_notation():
    assert misfits(["O", "B-PER", "I-PER", "LOC", "b-org"]) == ["LOC", "b-org"]
    assert misfits(["O", "B:PER", "I:PER", "LOC"]) == ["LOC"]
    assert misfits(["O", "B-PER"]) == misfits(["NOUN", "B-PER"]) == misfits(["O", "PER"]) == []


@pytest.mark.parametrize("scheme", [None, *SEQEVAL])
def test_scores_equal_seqeval(scheme):
    draw = random.Random(2)
    strict = {} if scheme is None else {"mode": "strict", "scheme": SEQEVAL[scheme]}
    for _ in range(8):
        gold = [labels_of(random_spans(draw), 8, scheme or "IOB2") for _ in range(12)]
        # Half of the words keep their label, so that some entities are found.
        guess = [
            [
                label if draw.random() < 0.5 else random_label
                for label, random_label in zip(labels, random_labels(draw, scheme, 40) + labels)
            ]
            for labels in gold
        ]
        ours = entity_scores(gold, guess, scheme)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # divisions by zero
            report = seqeval.metrics.classification_report(
                gold, guess, output_dict=True, zero_division=0, **strict
            )
        # Up to the last digit, since a mean may be summed in another order.
        for name, score in (("f1", "f1-score"), ("precision",) * 2, ("recall",) * 2):
            assert ours[name] == pytest.approx(report["micro avg"][score], abs=1e-15)
            assert ours[f"macro_{name}"] == pytest.approx(report["macro avg"][score], abs=1e-15)
            of_types = {key: report[key][score] for key in ours["types"]}
            assert {key: value[name] for key, value in ours["types"].items()} == of_types
        assert set(ours["types"]) == set(report) - {"micro avg", "macro avg", "weighted avg"}
        assert all(report[key]["support"] == ours["types"][key]["support"] for key in of_types)


def test_undefined_scores_are_zero():
    scores = entity_scores([["O", "B-PER"]], [["O", "O"]])
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0, 0, 0)
    assert entity_scores([["O"]], [["O"]])["macro_f1"] == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: spans_of(["NOUN"]), "'NOUN' is neither 'O' nor like 'B-PER'"),
        (lambda: spans_of(["B-PER", "LOC"]), "'LOC' is neither 'O' nor like 'B-PER'"),
        (lambda: spans_of(["E-PER"], "IOB2"), "'E-PER' is not valid in IOB2"),
        (lambda: spans_of(["O"], "IOE1"), "scheme must be one of IOB1, IOB2, BIOES, BILOU"),
        (lambda: spans_of(["O", "U-PER"], "BIOES"), "'U-PER' is not valid in BIOES"),
        (lambda: labels_of([Span("PER", 0, 2), Span("PER", 1, 3)], 3), "overlaps another"),
        (lambda: labels_of([Span("PER", 0, 4)], 3), "exceeds the 3 words"),
        (lambda: entity_scores([["O"]], [["O", "O"]]), "sentence 0: 1 labels, but 2 predicted"),
        (lambda: entity_scores([["O"]], []), "1 sentences, but predictions for 0"),
    ],
)
def test_rejects_invalid_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("form", ["{}-PER", "{}_PER", "PER-{}", "{}"])
@pytest.mark.parametrize("scheme", SCHEMES[:-1])
def test_a_sentence_of_single_words_is_decoded_with_its_scheme(scheme, form):
    letter = LETTERS[scheme][-1] if len(LETTERS[scheme]) == 4 else LETTERS[scheme][0]
    name = "_" if form == "{}" else "PER"
    for labels in ([form.format(letter)], [form.format(letter), "O"]):
        strict = [] if (scheme, letter) == ("IOB1", "B") else [Span(name, 0, 1)]
        assert spans_of(labels, scheme) == strict
        assert entity_scores([labels], [labels], scheme)["f1"] == float(bool(strict))


def test_invalid_entities_and_the_scheme_that_fits_best():
    sentences = [["B-A", "I-A", "O"], ["O", "I-A"], ["B-A", "I-B"]]
    labels = {label for row in sentences for label in row}
    assert invalid_spans(sentences, labels) == ("IOB2", [(1, 1), (2, 1)])
    older = [["I-A", "B-A", "O"], ["O", "I-B"], ["I-B", "O"]]
    assert invalid_spans(older, {"O", "I-A", "B-A", "I-B", "B-B"}) == ("IOB1", [])
    cut = [["B-A", "E-A"], ["S-A", "B-A"], ["I-A", "E-A"]]
    assert invalid_spans(cut, {"O", "B-A", "I-A", "E-A", "S-A"}) == ("BIOES", [(1, 1), (2, 0)])
    assert invalid_spans([["A", "O"]], {"A", "O"}) == ("IO", [])
    assert invalid_spans([["DET"]], {"DET"}) == (None, [])
