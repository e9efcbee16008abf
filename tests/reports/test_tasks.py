"""Sections of each task, from the files that its runs write and from models."""

import json

import numpy as np
import pytest
import scipy.stats
import yaml

from keras_bert_impl import InputError, TextEmbedder, TokenClassifier, pretrain, write_report
from keras_bert_impl.data.choices import (
    ChoiceExamples,
    write_choice_predictions,
)
from keras_bert_impl.data.prediction_files import write_predictions_table
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tags.examples import score_tags, write_tag_predictions
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.reports.sections import question_answering, tagging
from keras_bert_impl.reports.sections.embedding import principal_components
from keras_bert_impl.tasks import MaskedLM, SimilarityExamples, TaggedExamples
from keras_bert_impl.tasks.question_answering.decode import Answer
from keras_bert_impl.tasks.question_answering.results import score_answers, write_answer_files
from tests.reports import pages
from tests.tasks import helpers


@pytest.fixture
def run(tmp_path):
    """A run directory with settings alone."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"model": "base", "epochs": 3}))
    return folder


def first_number(row):
    return float(row[1].split()[0])


# === Multiple choice ===

PROMPTS = [
    ("It rains.", ["Take a coat.", "<b>Swim</b>.", "Sing."]),
    ("It snows.", ["Ski.", "Sail."]),
    ("It is dark.", ["Read.", "Sleep."]),
]


def test_multiple_choice(run):
    examples = ChoiceExamples(PROMPTS, [0, 1, 1], source="dev.jsonl", lines=[1, 2, 4])
    rows = [np.array(row, "float32") for row in ([0.2, 0.7, 0.1], [0.9, 0.1], [0.4, 0.6])]
    write_choice_predictions(run / "predictions.tsv", rows, examples)
    page = pages.read(write_report(run, examples=examples))
    assert first_number(page.tables["Scores"][1]) == pytest.approx(1 / 3, abs=5e-5)
    errors = page.sections["Worst errors"]
    assert "2 of 3 examples are wrong" in errors and "It is dark" not in errors
    assert errors.index("It snows.") < errors.index("It rains.")  # 10 % before 20 %
    for line in ("Take a coat. (20.0%)", "<b>Swim</b>. (70.0%)", "Sing. (10.0%)", "line 1"):
        assert line in errors
    assert "b" not in page.tags


def test_multiple_choice_without_predictions_or_with_nan(run):
    examples = ChoiceExamples(PROMPTS, [0, 1, 1])
    assert "Worst errors" not in pages.read(write_report(run, examples=examples)).sections
    rows = [np.array([np.nan, np.nan, np.nan]), np.array([0.9, 0.1]), np.array([0.4, 0.6])]
    write_choice_predictions(run / "predictions.tsv", rows, examples)
    assert "NaN" in pages.read(write_report(run, examples=examples)).sections["Scores"]


# === Tagging ===

WORDS = [["Ada", "Lovelace", "met", "<b>Bob</b>"], ["in", "Rome"], ["rain"]]
GOLD = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-LOC"], ["O"]]
FOUND = [["B-PER", "I-PER", "O", "O"], ["O", "B-PER"], ["O"]]


def test_tagging(run):
    examples = TaggedExamples(WORDS, GOLD, ["O", "B-PER", "I-PER", "B-LOC"], source="dev.conll")
    write_tag_predictions(run / "predictions.tsv", examples, FOUND)
    page = pages.read(write_report(run, examples=examples))
    scores = score_tags(examples, FOUND)
    rows = {row[0]: first_number(row) for row in page.tables["Scores"][1:]}
    expected = {"entity F1": "f1", "precision": "precision", "recall": "recall"}
    expected["accuracy of words"] = "accuracy"
    assert rows == {name: pytest.approx(scores[key], abs=5e-5) for name, key in expected.items()}
    assert page.tables["Types"][1:] == [
        ["LOC", *["0.0000"] * 3, "1"],
        ["PER", *["0.5000"] * 3, "2"],
    ]
    errors = page.sections["Worst errors"]
    assert "2 of 3 sentences" in errors and errors.index("Rome") < errors.index("Ada")
    assert "b" not in page.tags


def test_labels_that_mark_no_entities(run):
    examples = TaggedExamples([["a", "cat"], ["sits"]], [["DET", "NOUN"], ["VERB"]])
    write_tag_predictions(run / "predictions.tsv", examples, [["DET", "VERB"], ["VERB"]])
    page = pages.read(write_report(run, examples=examples))
    assert page.tables["Labels"][1:][1] == ["NOUN", *["0.0000"] * 3, "1"]
    assert page.tables["Confusion"][2] == ["NOUN", "0", "0", "1"]
    assert "Types" not in page.sections


def test_a_tagger_without_predictions_is_asked_and_explained(run):
    model = TokenClassifier(helpers.encoder(), helpers.tokenizer(), labels=["O", "B-POS"])
    examples = TaggedExamples([["good", "film"], ["dull"]], [["O", "O"], ["O"]], ["O", "B-POS"])
    assert "Worst errors" not in pages.read(write_report(run, examples=examples)).sections
    model.head_layer.weights[-1].assign([0.0, 9.0])  # every word is B-POS
    errors = pages.read(write_report(run, model, examples)).sections["Worst errors"]
    assert "largest contributions to good/B-POS" in errors


@pytest.mark.parametrize("part", [slice(2), slice(None, None, -1)])
def test_predictions_of_other_sentences_are_not_used(run, part):
    write_tag_predictions(run / "predictions.tsv", TaggedExamples(WORDS, GOLD), FOUND)
    with pytest.raises(InputError, match="not for the examples of other.conll, and .* no model"):
        examples = TaggedExamples(WORDS[part], GOLD[part], source="other.conll")
        write_report(run, examples=examples)


def test_marked_entities():
    spans = set(tagging.spans_of(["B-PER", "I-PER", "O", "B-PER"]))
    html = tagging.marked(WORDS[0], spans, {span for span in spans if span.start == 3})
    assert "<mark>Ada Lovelace<small>PER</small></mark> met" in html
    assert '<mark class="wrong">&lt;b&gt;Bob&lt;/b&gt;<small>PER</small></mark>' in html
    assert "50 more words" in tagging.marked(["a"] * 200, set(), set())


# === Question answering ===


def question_examples():
    contexts = ["Ann came with <b>Bob</b> from Rome.", "Rain fell. " * 100 + "Snow fell in May."]
    return QuestionExamples(
        ids=["q1", "q2", "q3"],
        questions=["Who came?", "What fell in May?", "Who left?"],
        contexts=[*contexts, contexts[0]],
        answers=[[("Ann", 0)], [("Snow", 1100)], []],
        is_impossible=[False, False, True],
        titles=[""] * 3,
    )


def test_question_answering(run):
    examples = question_examples()
    answers = [[Answer(text, 0, 1, 0.9, 1.0, 1.0), Answer("", 0, 0, 0.1, 0.0, 0.0)]
               for text in ("Ann", "Rain fell", "")]  # fmt: skip
    write_answer_files(run, examples, answers)
    page = pages.read(write_report(run, examples=examples))
    scores = score_answers(examples, answers)
    assert first_number(page.tables["Scores"][1]) == pytest.approx(scores["exact"], abs=5e-5)
    assert first_number(page.tables["Scores"][2]) == pytest.approx(scores["f1"], abs=5e-5)
    assert page.tables["Questions"][1] == ["who", "2", "100", "100"]
    errors = page.sections["Worst errors"]
    assert "1 of 3 answers" in errors and "Snow fell in May." in errors
    assert len(errors) < 900  # a window of the context


def test_answers_to_other_questions_are_not_used(run):
    examples = question_examples()
    write_answer_files(run, examples, [[Answer("", 0, 0, 0.1, 0.0, 0.0)]] * 3)
    with pytest.raises(InputError, match="not for the examples of examples, and .* no model"):
        write_report(run, examples=examples.select([1, 0, 2]))


@pytest.mark.parametrize(
    ("answers", "predicted", "html"),
    [
        ([("b & c", 2)], "c", '<mark>b &amp; </mark><mark class="wrong"><mark>c</mark></mark>'),
        ([("a", 0)], "a", '<mark class="wrong"><mark>a</mark></mark>'),
        ([], "", "a b &amp; c a"),
        ([("c", 6)], "a", '<mark class="wrong">a</mark>'),
        ([("a", 0)], "not there", "<mark>a</mark> b"),
    ],
)
def test_windows_of_contexts(answers, predicted, html):
    excerpt = question_answering.window("a b & c a", answers, predicted)
    assert html in excerpt
    assert excerpt.count("<mark") == excerpt.count("</mark>")


# === Other heads ===


def test_regression(run):
    examples = Examples(["a", "b", "c", "d"], [1.0, 2.0, 3.0, 5.0])
    rows = [[1.5], [2], [3], [0]]
    write_predictions_table(run / "predictions.tsv", ["value"], rows, examples)
    page = pages.read(write_report(run, examples=examples))
    error = (0.25 + 0 + 0 + 25) / 4
    rows = {row[0]: first_number(row) for row in page.tables["Scores"][1:]}
    assert rows["mean squared error"] == pytest.approx(error)
    assert (
        page.sections["Largest errors"].split()[:2] == ["text", "d"]
        or "d" in page.sections["Largest errors"]
    )


def test_several_labels(run):
    examples = Examples(["one", "two", "three"], [["a", "b"], [], ["b"]])
    rows = [["a", 0.9, 0.4], ["", 0.1, 0.1], ["b", 0.2, 0.8]]
    write_predictions_table(run / "predictions.tsv", ["label", "a", "b"], rows, examples)
    page = pages.read(write_report(run, examples=examples))
    rows = {row[0]: first_number(row) for row in page.tables["Scores"][1:]}
    assert rows == {
        "micro F1": 0.8,
        "macro F1": pytest.approx((1 + 2 / 3) / 2, abs=5e-5),
        "subset accuracy": pytest.approx(2 / 3, abs=5e-5),
    }
    assert page.tables["Classes"][1:] == [
        ["a", *["1.0000"] * 3, "1"],
        ["b", "1.0000", "0.5000", "0.6667", "2"],
    ]
    assert "1 of 3 examples are wrong" in page.sections["Worst errors"]


def test_scores_that_are_not_numbers(run):
    examples, rows = Examples(["x"], ["a"]), [["", "nan", "nan"]]
    write_predictions_table(run / "predictions.tsv", ["label", "a", "b"], rows, examples)
    page = pages.read(write_report(run, examples=examples))
    assert "NaN" in page.sections["Scores"] and "Classes" not in page.sections


def test_embeddings(run):
    model = TextEmbedder(helpers.encoder(), helpers.tokenizer())
    texts = [("good film", "great film"), ("dull plot", "a joy"), ("bad <b>", "awful")]
    examples = SimilarityExamples(texts, [1.0, 0.2, 0.9])
    page = pages.read(write_report(run, model, examples))
    assert {"Scores", "Map", "Nearest neighbors"} <= page.sections.keys()
    rows = page.tables["Nearest neighbors"][1:]
    assert [row[0] for row in rows] == [text for pair in texts for text in pair]
    assert all(row[0] != row[1] for row in rows)


def test_worst_similarities_are_those_whose_ranks_differ_most(run):
    model = TextEmbedder(helpers.encoder(), helpers.tokenizer())
    texts = [(f"good {word}", "great film") for word in ("film", "plot", "a", "the", "of", "joy")]
    labels = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]  # ties, whose order must not matter
    cosines = np.asarray(model.similarities(texts), "float64")
    differences = abs(scipy.stats.rankdata(labels) - scipy.stats.rankdata(cosines))
    page = pages.read(write_report(run, model, SimilarityExamples(texts, labels)))
    pairs = [row[0] for row in page.tables["Worst errors"][1:]]
    numbers = [next(n for n, (first, _) in enumerate(texts) if first in pair) for pair in pairs]
    assert differences[numbers].tolist() == sorted(differences, reverse=True)


def test_principal_components_are_those_of_a_line():
    direction = np.array([3.0, 4.0]) / 5
    places, shares = principal_components(np.outer([-2.0, 0.0, 5.0], direction))
    np.testing.assert_allclose(np.abs(places[:, 0]), [3, 1, 4])
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)


def test_pretraining(tmp_path):
    (tmp_path / "text.txt").write_text(
        "\n\n".join(["the film is good", "the plot is bad", "a joy"])
    )
    records, run = tmp_path / "records", tmp_path / "run"
    prepare(
        tmp_path / "text.txt",
        records,
        helpers.tokenizer(),
        objective="mlm",
        length=32,
        num_workers=1,
    )
    config = helpers.encoder().config
    pretrain(records, run, model=config, total_steps=4, batch_size=2, report_every=2, verbose=0)
    model = MaskedLM(helpers.encoder(), helpers.tokenizer())
    page = pages.read(write_report(run, model, ["the film is very <b> good what a joy"]))
    assert "Pre-training: records" in page.sections[""]
    manifest = json.loads((records / "manifest.json").read_text())
    rows = {row[0]: row[1:] for row in page.tables["Records"][1:]}
    assert int(rows["rows"][0].replace(",", "")) == manifest["splits"]["train"]["rows"]
    assert [row[0] for row in page.tables["Masked words"][1:]] == ["very"]
    assert "[MASK] <b>" in page.sections["Masked words"]
    assert [row[0] for row in page.tables["Settings"][1:]] == [
        *("model", "total_steps", "batch_size", "report_every"),
    ]
    again = page.sections["Use it"].replace(" \\\n   ", "")
    assert "keras-bert pretrain records --out run-again --model run/model/config.json" in again
    assert "--total-steps 4 --batch-size 2 --report-every 2" in again
    assert str(tmp_path) not in page.html
