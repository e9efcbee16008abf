"""`keras-bert evaluate --against OLD --max-drop X`."""

import json

import numpy as np
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.data.choices import ChoiceExamples
from keras_bert_impl.data.questions import QuestionExamples
from keras_bert_impl.data.scores.statistics import paired_difference
from keras_bert_impl.runs.evaluation import compare
from keras_bert_impl.tasks import (
    AnchorExamples,
    MultipleChoice,
    QuestionAnswerer,
    SimilarityExamples,
    TaggedExamples,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
    finetune,
    read_table,
)
from keras_bert_impl.tasks import evaluate as evaluate_in_python
from keras_bert_impl.tasks.registry import score
from tests.reports import pages
from tests.tasks.helpers import (
    QUESTION_SETTINGS,
    choices,
    classifier,
    encoder,
    examples,
    save_base,
    some_questions,
    tokenizer,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained and an untrained model, with labels in another order, and texts."""
    folder = tmp_path_factory.mktemp("against")
    texts, labels = examples(60)
    (folder / "dev.csv").write_text(
        "label,text\n" + "".join(f"{b},{a}\n" for a, b in zip(texts, labels))
    )
    good, untrained = classifier(dropout=0.0), classifier(labels=["positive", "negative"], seed=4)
    good.compile(learning_rate=0.02)
    good.fit(texts, labels, batch_size=8, epochs=6, verbose=0)
    good.save_pretrained(folder / "good")
    untrained.save_pretrained(folder / "other")
    return folder


def evaluate(folder, new, old, *options):
    columns = f"--dev={folder}/dev.csv", "--text=text", "--label=label"
    return main(
        ["evaluate", f"--model={folder / new}", f"--against={folder / old}", *columns, *options]
    )


def test_change_is_the_paired_difference_by_label_name(folder, capsys):
    assert evaluate(folder, "good", "other", "--json") == 0
    comparison = json.loads(capsys.readouterr().out)["against"]
    data = read_table(folder / "dev.csv", text="text", label="label")
    by = [TextClassifier.from_pretrained(folder / name) for name in ("good", "other")]
    new, old = (np.array(model.classify(data.texts)) for model in by)
    labels = np.array(data.labels)
    expected = paired_difference(lambda a, b: float(np.mean(a == b)), labels, old, new).interval
    assert comparison["new"] == np.mean(new == labels) > comparison["old"] == np.mean(old == labels)
    assert list(comparison["gain"].values()) == pytest.approx(list(expected))
    assert (comparison["metric"], comparison["num_examples"]) == ("accuracy", 60)


def test_a_drop_beyond_the_limit_exits_with_1(folder, capsys):
    assert evaluate(folder, "good", "other", "--max-drop=0.01") == 0
    assert evaluate(folder, "other", "good", "--max-drop=0.01") == 1
    out, err = capsys.readouterr()
    assert "accuracy dropped by more than 0.01" in err
    assert "improvement -0." in out
    assert evaluate(folder, "other", "good", "--max-drop=1") == 0


def test_what_cannot_be_compared(folder, capsys):
    classifier(labels=["negative", "positive", "new"]).save_pretrained(folder / "three")
    assert evaluate(folder, "good", "three") == 2
    assert "the models have different labels" in capsys.readouterr().err
    assert main(["evaluate", f"--model={folder}/good", "--max-drop=0.1"]) == 2
    assert "requires --against OLD" in capsys.readouterr().err


def test_a_run_is_compared_by_its_metric(folder, capsys):
    """Accuracy would let a model pass that never predicts a rare class."""
    data = read_table(folder / "dev.csv", text="text", label="label")
    settings = {"epochs": 1, "metric": "f1/negative", "max_length": 16}
    finetune(save_base(folder / "base"), data, data, folder / "run", verbose=0, **settings)
    capsys.readouterr()
    assert evaluate(folder, "run", "good", "--json") == 0
    scores = json.loads(capsys.readouterr().out)
    comparison = scores.pop("against")
    assert list(scores) == ["f1/negative", "accuracy", "macro_f1"]
    assert (comparison["metric"], comparison["new"]) == ("f1/negative", scores["f1/negative"])
    assert evaluate_in_python(folder / "run", data) == scores
    assert "- dev: 60 examples" in (folder / "run" / "model" / "README.md").read_text()


# === All tasks ===


def _sentences():
    texts = [text.split() for text in examples(30)[0]]
    labels = [["B-X" if word in ("good", "bad") else "O" for word in words] for words in texts]
    return TaggedExamples(texts, labels, ["O", "B-X"])


def _pairs():
    texts, _ = examples(30)
    return list(zip(texts, texts[1:] + texts[:1]))


def _questions():
    pairs, answers = some_questions(20)
    ids, (texts, contexts) = [f"q{n}" for n in range(20)], map(list, zip(*pairs))
    return QuestionExamples(ids, texts, contexts, [[answer] for answer in answers], None, [""] * 20)


CASES = {
    "tagging": lambda: (
        lambda seed: TokenClassifier(encoder(seed=seed), tokenizer(), labels=["O", "B-X"]),
        _sentences(),
    ),
    "choice": lambda: (
        lambda seed: MultipleChoice(encoder(seed=seed), tokenizer()),
        ChoiceExamples(*choices(30)),
    ),
    "similarity": lambda: (
        lambda seed: TextEmbedder(encoder(seed=seed), tokenizer()),
        SimilarityExamples(_pairs(), [n % 7 / 7 for n in range(30)]),
    ),
    "anchors": lambda: (
        lambda seed: TextEmbedder(encoder(seed=seed), tokenizer()),
        AnchorExamples(_pairs()),
    ),
    "questions": lambda: (
        lambda seed: QuestionAnswerer(encoder(seed=seed), tokenizer(), **SIZES),
        _questions(),
    ),
}
SIZES = QUESTION_SETTINGS | {"null_threshold": None}


@pytest.mark.parametrize("case", CASES)
def test_models_of_every_task_are_compared(case):
    make, labeled = CASES[case]()
    new, old = make(0), make(5)
    change = compare(new, old, labeled)
    scores = [score(model, labeled)[change.metric] for model in (new, old)]
    assert (change.new, change.old) == pytest.approx(tuple(scores), abs=1e-6)
    assert change.gain.value == pytest.approx(change.new - change.old, abs=1e-6)
    assert change.num_examples == len(labeled)


def test_taggers_are_compared_by_the_commands(tmp_path, capsys):
    make, labeled = CASES["tagging"]()
    lines = (zip(*row) for row in zip(labeled.texts, labeled.labels))
    sentences = ("".join(f"{word}\t{label}\n" for word, label in row) for row in lines)
    (tmp_path / "test.conll").write_text("\n".join(sentences))
    for seed, name in enumerate(("a", "b")):
        make(seed).save_pretrained(tmp_path / name / "model")
        (tmp_path / name / "recipe.yaml").write_text("dtype: float32\n")
        options = {"task": "tagging", "train": str(tmp_path / "test.conll"), "dev": None}
        (tmp_path / name / "data.json").write_text(json.dumps({"read_with": options}))
    a, b, dev = (str(tmp_path / name) for name in ("a", "b", "test.conll"))
    assert main(["evaluate", "--model", a, "--against", b, "--dev", dev, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    page = tmp_path / "page.html"
    assert main(["report", a, b, "--dev", dev, "--out", str(page)]) == 0
    table = pages.read(page).tables["On the same examples"]
    assert [row[2] for row in table[1:]] == [
        f"{scores['against'][key]:.4f}" for key in ("new", "old")
    ]


def test_a_published_embedder_is_evaluated_by_its_name(tmp_path, monkeypatch, capsys):
    table = "".join(f"{a},{b},{n % 7}\n" for n, (a, b) in enumerate(_pairs()))
    (tmp_path / "sts.csv").write_text("a,b,y\n" + table)
    TextEmbedder(encoder(), tokenizer()).save_pretrained(tmp_path / "tuned")
    save_base(tmp_path / "plain")
    columns = ["--dev", str(tmp_path / "sts.csv"), "--text=a", "--pair=b", "--label=y", "--json"]
    for folder in ("tuned", "plain"):
        place = lambda *_, folder=folder: lambda: tmp_path / folder  # noqa: E731
        monkeypatch.setattr("keras_bert_impl.checkpoints.hub._prepare_hugging_face", place)
        command = ["evaluate", "--model", "owner/name", "--task", "similarity", *columns]
        assert main(command) == 0
        assert -1 <= json.loads(capsys.readouterr().out)["spearman"] <= 1
