"""`keras-bert finetune` and `predict` for tagging and question answering."""

import json
import shutil

import numpy as np
import pytest
import seqeval.metrics
import yaml

from keras_bert_impl import QuestionAnswerer, TokenClassifier
from keras_bert_impl.checkpoints.interop import OWN_SETTINGS
from keras_bert_impl.cli.main import main
from keras_bert_impl.data.prediction_files import read_column
from keras_bert_impl.data.tags.examples import read_tag_predictions
from keras_bert_impl.tasks import evaluate, load_tuned, read_columns, read_squad
from keras_bert_impl.tasks.registry import model_class_of
from tests.tasks.helpers import classifier, write_words
from tests.tasks.squad_files import document, question, write

TEXT = "a good film is a joy and the plot is great"


def finetune(base, task, train, dev, out, *options):
    files = ["--train", str(train), "--dev", str(dev), "--out", str(out)]
    return main(["finetune", "--model", str(base), "--task", task, *files, *options])


# === Tagging ===


@pytest.fixture(scope="module")
def tagged(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagged")
    files = [write_words(folder / f"{n}.txt", seed, count=12) for seed, n in enumerate("ab")]
    settings = [
        "--epochs=1",
        "--max-length=8",
        "--doc-stride=3",
        "--batch-size=4",
        "--learning-rate=0.05",
    ]
    assert finetune(base, "tagging", *files, folder / "run", *settings) == 0
    return folder


@pytest.mark.slow
def test_saved_tagger_has_the_same_scores(tagged):
    gold = read_columns(tagged / "b.txt")
    predicted = read_tag_predictions(tagged / "run" / "predictions.tsv")
    model = load_tuned(tagged / "run")
    assert isinstance(model, TokenClassifier) and (model.max_length, model.doc_stride) == (8, 3)
    assert predicted == model.tag(gold.texts)
    scored = read_column(tagged / "run" / "predictions.tsv", "score")
    best = np.concatenate([row.max(axis=-1) for row in model.predict(gold.texts, verbose=0)])
    np.testing.assert_allclose([float(score) for _, score in scored], best, rtol=1e-6)
    scores = json.loads((tagged / "run" / "scores.json").read_text())
    assert scores["f1"] == seqeval.metrics.f1_score(gold.labels, predicted)
    lines = (tagged / "run" / "metrics.jsonl").read_text().splitlines()
    # Steps count batches of windows, and texts of up to 11 words have several windows.
    assert json.loads(lines[0])["step"] > len(gold) / 4


@pytest.mark.slow
def test_predicts_with_a_tagger(tagged, capsys):
    (tagged / "asked.txt").write_text(f"{TEXT}\nfilm\n")
    command = ["predict", "--model", str(tagged / "run"), "--input", str(tagged / "asked.txt")]
    assert main([*command, "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    model = load_tuned(tagged / "run")
    assert first["words"] == TEXT.split() and second["words"] == ["film"]
    assert [first["labels"], second["labels"]] == model.tag([TEXT, "film"])
    expected = [entity._asdict() for entity in model.entities([TEXT])[0]]
    for entity, reference in zip(first["entities"], expected, strict=True):
        # A batch of another size, which rounds differently.
        assert entity == reference | {"score": pytest.approx(reference["score"], abs=1e-6)}
    assert main(command) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line == " ".join(map("/".join, zip(first["words"], first["labels"])))


@pytest.mark.slow
def test_exports_and_checks_a_tagger(tagged, capsys):
    run, folder = str(tagged / "run"), tagged / "saved"
    assert main(["export", "--model", run, "--out", str(folder), "--check"]) == 0
    written = capsys.readouterr()
    assert f"wrote the SavedModel to {folder / '1'}" in written.err
    # The command checks for 1e-5 itself.
    assert float(written.out.removeprefix("largest difference from the model: ")) <= 1e-5
    assert "| f1 |" in (folder / "1" / "README.md").read_text()


# === Questions ===


@pytest.fixture(scope="module")
def asked(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    start = TEXT.index("joy")
    answerable = {"question": "what is great", "is_impossible": False}
    unanswerable = {"question": "not bad", "is_impossible": True}
    answerable = [question(f"q{i}", [("joy", start)], **answerable) for i in range(6)]
    unanswerable = [question(f"n{i}", [], **unanswerable) for i in range(2)]
    file = write(folder / "questions.json", document(*answerable, *unanswerable, context=TEXT))
    settings = ["--epochs=2", "--max-length=16", "--doc-stride=2", "--learning-rate=0.02"]
    options = ["--max-question-length=4"]
    assert finetune(base, "squad", file, file, folder / "run", *settings, *options) == 0
    return folder


@pytest.mark.slow
def test_saved_answerer_has_the_same_scores(asked):
    run = asked / "run"
    names = "predictions", "null_odds"
    texts, odds = (json.loads((run / f"{name}.json").read_text()) for name in names)
    model = load_tuned(run)
    assert isinstance(model, QuestionAnswerer) and model.doc_stride == 2
    # The model has the searched threshold.
    assert all((texts[name] == "") == (odds[name] > model.null_threshold) for name in texts)
    scores = json.loads((run / "scores.json").read_text())
    assert scores["f1"] == scores["best_f1"] >= 25.0  # the score of never answering
    assert evaluate(model, read_squad(asked / "questions.json")) == scores
    assert len(json.loads((run / "nbest_predictions.json").read_text())) == 8


@pytest.mark.slow
def test_predicts_with_an_answerer(asked, capsys):
    row = {"question": "what?", "context": TEXT}
    (asked / "asked.jsonl").write_text(json.dumps(row) + "\n")
    command = ["predict", "--model", str(asked / "run"), "--input", str(asked / "asked.jsonl")]
    command += ["--text", "question", "--pair", "context"]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [answer["answer"]] == load_tuned(asked / "run").answer([("what?", TEXT)])
    assert TEXT[answer["start"] : answer["end"]] == answer["answer"]


# === Errors ===


@pytest.mark.parametrize(
    "task, options, message",
    [
        ("tagging", ["--doc-stride=0"], "doc_stride must be a positive integer"),
        ("tagging", ["--label", "tag"], "--label must be a column number"),
        ("squad", ["--crf"], "crf is not a setting of QuestionAnswerer"),
        ("mrpc", [], "--task requires the folder of the task in --data. Leave out --train"),
    ],
)
def test_rejects_invalid_input(base, tagged, asked, tmp_path, capsys, task, options, message):
    file = asked / "questions.json" if task == "squad" else tagged / "a.txt"
    assert finetune(base, task, file, file, tmp_path / "run", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_rejects_a_model_directory_without_a_head(base, tagged, capsys):
    assert main(["predict", "--model", str(base), "--input", str(tagged / "a.txt")]) == 2
    assert "is not a fine-tuned model" in capsys.readouterr().err


def test_recipe_has_the_settings_of_the_task(tagged):
    recipe = yaml.safe_load((tagged / "run" / "recipe.yaml").read_text())
    assert (recipe["doc_stride"], recipe["crf"], recipe["max_length"]) == (3, False, 8)


# === Files ===


@pytest.mark.parametrize(
    "settings, architecture, name",
    [
        ({"model_class": "FeatureTagger"}, "BertModel", "FeatureTagger"),
        ({"lstm_dim": 8}, "BertModel", "FeatureTagger"),  # written before classes were named
        ({"max_length": 8}, "BertForMultipleChoice", "MultipleChoice"),
        ({"model_class": "Mine"}, "BertForTokenClassification", "TokenClassifier"),
    ],
)
def test_finds_the_class_of_a_directory(base, tmp_path, settings, architecture, name):
    shutil.copytree(base, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text()) | {
        "architectures": [architecture],
        OWN_SETTINGS: settings,
    }
    path.write_text(json.dumps(config))
    assert model_class_of(tmp_path / "model").__name__ == name


def test_saved_models_name_their_class(tmp_path):
    classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config[OWN_SETTINGS]["model_class"] == "TextClassifier"
