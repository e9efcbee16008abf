"""For every task, `evaluate` and `keras-bert evaluate` reproduce the score of a saved run.

The quick tests for texts and questions are next to those of their runs.
"""

import json
import shutil

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import (
    ChoiceExamples,
    Examples,
    QuestionAnswerer,
    SimilarityExamples,
    TaggedExamples,
    evaluate,
    finetune,
    load_tuned,
    read_squad,
)
from keras_bert_impl.utils.errors import InputError
from tests.killed import assert_old_or_new
from tests.runs.scores import without_baselines
from tests.tasks.helpers import GOOD, choices, classifier, examples, write_words
from tests.tasks.squad_files import document, question, write

CONTEXT = "a good film is a joy and the plot is great"
SETTINGS = {"epochs": 1, "batch_size": 8, "max_length": 16, "learning_rate": 0.02}


def table(path, rows):
    """Writes rows of (label, text, ...) to a .tsv file."""
    header = ["label", "text", "pair"][: len(rows[0])]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *rows]))
    return path


def of_texts(folder, seed):
    return table(folder / f"{seed}.tsv", list(zip(*reversed(examples(16, seed)))))


def of_several_labels(folder, seed):
    names = [",".join(sorted(GOOD & set(text.split()))) for text in examples(16, seed)[0]]
    return table(folder / f"{seed}.tsv", list(zip(names, examples(16, seed)[0])))


def of_numbers(folder, seed):
    texts = examples(16, seed)[0]
    return table(folder / f"{seed}.tsv", [(len(text.split()), text) for text in texts])


def of_pairs(folder, seed):
    firsts, seconds = (examples(12, s)[0] for s in (seed, seed + 5))
    rows = [(len(set(a.split()) & set(b.split())), a, b) for a, b in zip(firsts, seconds)]
    return table(folder / f"{seed}.tsv", rows)


def of_words(folder, seed):
    return write_words(folder / f"{seed}.txt", seed)


def of_questions(folder, seed):
    place = CONTEXT.index("joy")
    answerable = {"question": "what is great", "is_impossible": False}
    unanswerable = {"question": "not bad", "is_impossible": True}
    questions = [question(f"q{i}", [("joy", place)], **answerable) for i in range(3)]
    questions += [question(f"n{i}", [], **unanswerable) for i in range(3 + seed)]
    return write(folder / f"{seed}.json", document(*questions, context=CONTEXT))


def of_choices(folder, seed):
    rows = zip(*choices(6, seed))
    lines = [json.dumps({"prompt": p, "endings": e, "answer": a}) + "\n" for (p, e), a in rows]
    (folder / f"{seed}.jsonl").write_text("".join(lines))
    return folder / f"{seed}.jsonl"


TABLE = ["--text", "text", "--label", "label"]
SEVERAL, NUMBERS = [*TABLE, "--label-separator", ","], [*TABLE, "--regression"]
PAIRS = [*TABLE, "--pair", "pair"]
QUESTIONS = ["--max-question-length=4", "--doc-stride=2", "--epochs=2"]
KINDS = {
    "texts": (of_texts, None, TABLE, []),
    "several labels": (of_several_labels, None, SEVERAL, []),
    "numbers": (of_numbers, None, NUMBERS, []),
    "similarity": (of_pairs, "similarity", PAIRS, ["--loss=cosent"]),
    "tags": (of_words, "tagging", [], ["--dtype=mixed_bfloat16"]),
    "features": (of_words, "tagging", [], ["--features=mix"]),
    "questions": (of_questions, "squad", [], QUESTIONS),
    "choices": (of_choices, "choice", [], []),
    "lora": (of_texts, None, TABLE, ["--tuning=lora"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_reproduces_the_scores_of_a_run(base, tmp_path, capsys, kind):
    write_files, task, arguments, settings = KINDS[kind]
    train, dev = (write_files(tmp_path, seed) for seed in (0, 1))
    run, scored = tmp_path / "run", tmp_path / "scored"
    files = ["--train", str(train), "--dev", str(dev), "--out", str(run)]
    overridden = [setting.partition("=")[0].strip("-").replace("-", "_") for setting in settings]
    common = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in SETTINGS.items()
        if name not in overridden
    ]
    command = ["finetune", "--model", str(base), *arguments, *files]
    named = ["--task", task] if task else []
    assert main([*command, *named, *common, *settings]) == 0
    capsys.readouterr()

    # The run stores its task.
    command = ["evaluate", "--model", str(run), *arguments, "--dev", str(dev)]
    assert main([*command, "--json", "--out", str(scored)]) == 0
    expected = without_baselines(json.loads((run / "scores.json").read_text()))
    assert json.loads(capsys.readouterr().out) == expected
    assert json.loads((scored / "scores.json").read_text()) == expected
    written = {path.name for path in scored.iterdir()}
    expected = {"predictions.tsv"}
    if kind == "questions":
        expected |= {"nbest_predictions.json", "null_odds.json", "predictions.json"}
    assert written == expected | {"scores.json"}
    for name in written - {"scores.json"}:
        assert (scored / name).read_bytes() == (run / name).read_bytes()


@pytest.fixture(scope="module")
def answerer(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    arguments = {"max_length": 16, "doc_stride": 2, "max_question_length": 4}
    model = QuestionAnswerer.from_pretrained(base, null_threshold=0.0, **arguments)
    return model, read_squad(of_questions(folder, 0))


def test_uses_the_no_answer_threshold_of_the_model(answerer):
    model, questions = answerer
    for threshold, without in ((1e9, 0.0), (-1e9, 100.0)):  # always answers; never answers
        model.null_threshold = threshold
        scores = evaluate(model, questions)
        assert scores["NoAns_exact"] == without and model.null_threshold == threshold
        assert scores["best_exact"] >= scores["exact"]


def test_labels_are_matched_by_name(base):
    """The model and the file have the labels in different orders."""
    texts, names = examples(12)
    numbered = ["negative", "positive"]
    data = Examples(texts, [numbered.index(n) for n in names], numbered, ("accuracy",))
    scores = [evaluate(classifier(labels), data) for labels in (numbered, numbered[::-1])]
    # Equal weights with swapped labels: exactly one of the two is right about each text.
    assert scores[0]["accuracy"] + scores[1]["accuracy"] == 1.0


@pytest.mark.parametrize(
    "data, message",
    [
        (Examples(["a"], ["odd"], source="d.csv", lines=[7]), "d.csv, line 7: label 'odd' is"),
        (Examples(["a"], [1.5], source="d.csv"), "d.csv has labels for regression, but the model"),
        (
            Examples(["a"], [["negative", "positive"]], source="d.csv"),
            "labels for multi_label_class",
        ),
        (Examples(["a"], None, source="d.csv"), "d.csv has no labeled texts"),
        (
            TaggedExamples([["a"]], [["O"]], ["O"], source="d.txt"),
            "d.txt contains examples for a TokenClassifier, but the model is a TextClassifier",
        ),
        (
            SimilarityExamples([("a", "b")], [1.0], source="d.csv"),
            "contains examples for a TextEmbedder",
        ),
        (
            ChoiceExamples([("a", ["b", "c"])], [0], source="d.tsv"),
            "contains examples for a MultipleCho",
        ),
    ],
)
def test_rejects_examples_of_another_task_or_labels(data, message):
    with pytest.raises(InputError, match=message):
        evaluate(classifier(), data)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A scored run, and a file of texts."""
    folder = tmp_path_factory.mktemp("run")
    of_texts(folder, 1)
    classifier().save_pretrained(folder / "run" / "model")
    (folder / "run" / "recipe.yaml").write_text("dtype: float32\n")
    return folder


def test_scores_of_further_sets_have_their_names(scored, tmp_path):
    data = Examples(*examples(16, 1))
    scores = evaluate(scored / "run", data, tmp_path, more={"again": data})
    assert list(scores) == ["accuracy", "macro_f1", "again/accuracy", "again/macro_f1"]
    assert scores["again/accuracy"] == scores["accuracy"]
    assert json.loads((tmp_path / "scores.json").read_text()) == scores
    files = [tmp_path / folder / "predictions.tsv" for folder in ("", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_kill_never_leaves_predictions_with_other_scores(scored, tmp_path):
    def write(seed=2):
        data = Examples(*examples(16, seed))
        evaluate(scored / "run", data, tmp_path / "out", more={"again": data})

    write(1)
    names = "scores.json", "predictions.tsv", "again"
    assert_old_or_new(tmp_path / "out", tmp_path / "states", write, names)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--text", "text", "--label", "label"], "--dev is missing. Pass --dev, --text, --label"),
        (["--dev", "{0}/1.tsv", "--text", "label"], "--label is missing"),
        (
            ["--dev", "{0}/1.tsv", "--text", "text", "--label", "label", "--test"],
            "--test requires a folder",
        ),
        (
            ["--task", "sst2", "--dev", "{0}/1.tsv"],
            "--task requires the folder of the task in --data",
        ),
        (["--dev", "{0}/1.tsv", "--text", "label", "--label", "text"], "1.tsv, line 2: label"),
        (["--dev", "{0}/1.tsv", *TABLE, "--out", "{0}/run"], "contains a run. Choose another"),
        (
            ["--dev", "{0}/1.tsv", *TABLE, "--base", "bert-base-uncased"],
            "Omit base, which is only for fine-tuned weights",
        ),
        (["--dev", "{0}/1.tsv", *TABLE, "--model", "{0}"], "has no config.json"),
    ],
)
def test_rejects_invalid_arguments(scored, capsys, arguments, message):
    arguments = [argument.format(scored) for argument in arguments]
    assert main(["evaluate", "--model", str(scored / "run"), *arguments]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]


def test_rejects_a_test_set_without_labels(scored, tmp_path, capsys):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    (folder / "test.tsv").write_text("index\tsentence\n0\ta film\n")
    command = ["evaluate", "--model", str(scored / "run"), "--task", "sst2", "--data"]
    assert main([*command, str(tmp_path), "--test"]) == 2
    assert "test.tsv has no labeled texts" in capsys.readouterr().err
    shutil.copy(scored / "1.tsv", folder / "dev.tsv")
    (folder / "dev.tsv").write_text("sentence\tlabel\na good film\t1\na bad plot\t0\n")
    assert main([*command, str(tmp_path), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"accuracy"}
    assert load_tuned(scored / "run").labels == ["negative", "positive"]


@pytest.mark.slow
def test_finetune_returns_the_threshold_that_it_saves(base, tmp_path):
    train, dev = (read_squad(of_questions(tmp_path, seed)) for seed in (0, 1))
    windows = {"max_question_length": 4, "doc_stride": 2}
    tuned = finetune(base, train, dev, tmp_path / "run", verbose=0, **SETTINGS | windows)
    assert tuned.null_threshold == load_tuned(tmp_path / "run").null_threshold != 0.0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert evaluate(tuned, dev) == pytest.approx(scores)
