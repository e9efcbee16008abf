"""`keras-bert drift`: compares two files of texts."""

import json

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli.predicting import labeled_inputs
from keras_bert_impl.tasks import (
    MultipleChoice,
    QuestionAnswerer,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.tokenizers import WordPieceTokenizer
from tests.tasks.helpers import (
    QUESTION_SETTINGS,
    WORDS,
    classifier,
    encoder,
    examples,
    tokenizer,
)
from tests.tasks.squad_files import document, question, write

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "."])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    classifier().save_pretrained(folder / "model")
    rows = [f"good film {number % 3}" for number in range(60)]
    (folder / "train.csv").write_text("\n".join(["review", *rows]) + "\n")
    rows = [f"{row} {row} {row}" for row in rows]
    (folder / "served.csv").write_text("\n".join(["review", *rows]) + "\n")
    return folder


def run(folder, *arguments):
    files = ["--model", folder / "model", "--reference", folder / "train.csv"]
    return cli.main(["drift", *map(str, files), *map(str, arguments)])


def test_prints_a_row_for_each_quantity(folder, capsys):
    assert run(folder, "--served", folder / "served.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    assert lines[0].split() == ["reference", "served", "PSI", "p"]
    assert {"tokens", "unknown", "score", "label"} <= set(names)
    (tokens,) = (line for line in lines if line.startswith("tokens"))
    assert tokens.endswith("shifted far")


def test_check_fails_if_something_has_shifted(folder, capsys):
    assert run(folder, "--served", folder / "served.csv", "--check", "--json") == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["tokens"]["verdict"] == "shifted far"
    assert err.startswith("keras-bert: tokens") and err.endswith("served.csv: shifted.\n")
    assert run(folder, "--served", folder / "train.csv", "--check") == 0


def test_an_empty_file(folder, capsys):
    (folder / "empty.txt").write_text("")
    assert run(folder, "--served", folder / "empty.txt") == 2
    assert "no texts" in capsys.readouterr().err


def test_the_reference_is_read_as_the_run_read_it(folder, capsys):
    run_folder = folder / "ner"
    parts = encoder(vocabulary_size=TOKENIZER.vocabulary_size, use_pooler=False)
    labels = ["O", "B-X", "I-X"]
    tagger = TokenClassifier(parts, TOKENIZER, labels=labels, max_length=16)
    tagger.save_pretrained(run_folder / "model")
    words = ["good", "film", "bad"]
    (folder / "ner.txt").write_text("".join(f"{w} {t}\n" for w, t in zip(words, labels)) * 2 + "\n")
    (folder / "same.conll").write_text("good O\nfilm O\nbad O\n" * 2)
    options = {"task": "tagging", "train": str(folder / "ner.txt"), "dev": None}
    (run_folder / "recipe.yaml").write_text("dtype: float32\n")
    (run_folder / "data.json").write_text(json.dumps({"read_with": options}))
    served = ["--served", str(folder / "same.conll"), "--json"]
    assert cli.main(["drift", "--model", str(run_folder), *served]) == 0
    comparisons = json.loads(capsys.readouterr().out)
    assert {comparison["verdict"] for comparison in comparisons.values()} == {
        "same"
    } and "entities" in comparisons
    (folder / "words.jsonl").write_text('{"tokens": ["good", "film."]}\n{"tokens": ["bad"]}\n')
    for name, sentences in (
        ("same.conll", [words * 2]),
        ("words.jsonl", [["good", "film."], ["bad"]]),
    ):
        arguments = ["predict", "--model", str(run_folder), "--json", "--input", str(folder / name)]
        assert cli.main(arguments) == 0
        answers = map(json.loads, capsys.readouterr().out.splitlines())
        assert [answer["words"] for answer in answers] == sentences


# === Each task's own training examples ===


def _generate_examples():
    """Yields (model, its training file, the options that read it) for each task."""
    texts, labels = examples(30)
    pairs = list(zip(texts, texts[1:] + texts[:1], labels))
    words = "".join("".join(f"{word}\tO\n" for word in text.split()) + "\n" for text in texts)
    labels = {"labels": ["O", "B-X"], "max_length": 16}
    tagger = TokenClassifier(encoder(use_pooler=False), tokenizer(), **labels)
    yield tagger, ("words.txt", words), {"task": "tagging"}
    rows = [f"{n},{word},O" for n, text in enumerate(texts) for word in text.split()]
    table = "\n".join(["sent,word,tag", *rows])
    yield tagger, ("words.csv", table), {"task": "tagging", "text": "word", "sentence": "sent"}
    columns = {"text": "a", "pair": "b"}
    table = "a;b;y\n" + "".join(f"{a} €;{b} é;{label}\n" for a, b, label in pairs)
    windows = {"encoding": "cp1252"}
    yield classifier(), ("pairs.csv", table), columns | windows | {"label": "y"}
    embedder = TextEmbedder(encoder(use_pooler=False), tokenizer())
    yield embedder, ("pairs.csv", table), columns | windows | {"task": "similarity"}
    table = "a,b,c\n" + "".join(f"{a},{b},{a}\n" for a, b, _ in pairs)
    yield embedder, ("triples.csv", table), columns | {"task": "similarity", "negative": "c"}
    articles = [
        document(question(f"q{n}", [("good", 0)]), context=f"good {text}")["data"][0]
        for n, text in enumerate(texts)
    ]
    answerer = QuestionAnswerer(encoder(use_pooler=False), tokenizer(), **QUESTION_SETTINGS)
    yield answerer, ("squad.json", json.dumps({"data": articles})), {"task": "squad"}
    lines = [{"prompt": text, "endings": ["good", "bad film"], "answer": 0} for text in texts]
    chooser = MultipleChoice(encoder(), tokenizer())
    yield chooser, ("choices.jsonl", "\n".join(map(json.dumps, lines))), {"task": "choice"}


@pytest.mark.parametrize("number", range(7))
def test_there_is_no_drift_from_the_training_examples_to_themselves(number, tmp_path, capsys):
    model, (name, content), options = list(_generate_examples())[number]
    (tmp_path / name).write_text(content, encoding=options.get("encoding"))
    model.save_pretrained(tmp_path / "run" / "model")
    (tmp_path / "run" / "recipe.yaml").write_text("dtype: float32\n")
    read_with = {"train": str(tmp_path / name), **options}
    (tmp_path / "run" / "data.json").write_text(json.dumps({"read_with": read_with}))
    arguments = ["--model", str(tmp_path / "run"), "--served", str(tmp_path / name)]
    assert cli.main(["drift", *arguments, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert len(compared) > 1
    assert {(feature["p_value"], feature["verdict"]) for feature in compared.values()} == {
        (1.0, "same")
    }
    assert all(abs(feature["psi"]) < 1e-12 for feature in compared.values())
    # `predict` reads the file, too.
    arguments = ["--model", str(tmp_path / "run"), "--input", str(tmp_path / name)]
    assert cli.main(["predict", *arguments, "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 30


@pytest.mark.parametrize("has_answers", [True, False])
def test_predict_reads_squad_files_and_copies_their_ids(tmp_path, capsys, has_answers):
    content = document(question("a"), question("b", name_of_asker="x"))
    if not has_answers:
        for entry in content["data"][0]["paragraphs"][0]["qas"]:
            del entry["answers"]
    file = write(tmp_path / "asked.json", content)
    answerer = QuestionAnswerer(encoder(use_pooler=False), tokenizer(), **QUESTION_SETTINGS)
    answerer.save_pretrained(tmp_path / "model")
    command = ["predict", "--model", str(tmp_path / "model"), "--input", str(file)]
    assert cli.main([*command, "--id", "id", "--out", str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["a", "b"]
    assert rows[0].keys() >= {"id", "answer", "score"} and "context" not in rows[0]
    assert cli.main([*command, "--id", "key"]) == 2
    assert "asked.json has only 'id', 'question', 'context'" in capsys.readouterr().err


def test_lines_of_text_are_not_read_as_words_with_labels(tmp_path, capsys):
    model, (name, content), options = next(_generate_examples())
    (tmp_path / name).write_text(content)
    (tmp_path / "served.txt").write_text("good film\nbad plot\n" * 30)
    read_with = {"train": str(tmp_path / name), **options}
    assert labeled_inputs(str(tmp_path / "served.txt"), read_with, model) is None
    assert len(labeled_inputs(str(tmp_path / name), read_with, model)) == 30
