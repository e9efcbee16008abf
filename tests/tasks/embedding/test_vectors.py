"""Embedding the texts in a folder and searching them, in Python and with commands."""

import json

import numpy as np
import pyarrow.parquet
import pytest

from keras_bert_impl import TextEmbedder
from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import (
    load_embedder,
    read_texts,
    read_vectors,
    search,
    write_vectors,
)
from keras_bert_impl.tasks.embedding import vectors
from keras_bert_impl.tasks.embedding.search import read_places
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder, examples, tokenizer

TEXTS, _ = examples(count=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    small = encoder(dropout=0.0, use_pooler=False)
    TextEmbedder(small, tokenizer()).save_pretrained(folder / "model")
    texts = folder / "texts"
    (texts / "inner").mkdir(parents=True)
    (texts / ".hidden").mkdir()
    (texts / ".hidden" / "x.txt").write_text("never\n")
    (texts / "b.txt").write_text(f"{TEXTS[0]}\n\n  \n{TEXTS[1]}\r\n")
    (texts / "a.csv").write_text(f'text,n\n"{TEXTS[2]}\n{TEXTS[3]}",1\n,2\n{TEXTS[4]},3\n')
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS[5:])
    (texts / "inner" / "c.jsonl").write_text(lines)
    (texts / "photo.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture(scope="module")
def embedder(folder):
    return load_embedder(folder / "model")


def places(texts, folder):
    return [(text.path.removeprefix(f"{folder}/texts/"), text.line) for text in texts]


def test_reads_texts_of_a_folder(folder):
    texts = list(read_texts(folder / "texts"))
    assert places(texts, folder)[:4] == [("a.csv", 3), ("a.csv", 5), ("b.txt", 1), ("b.txt", 4)]
    assert places(texts, folder)[4:] == [("inner/c.jsonl", line) for line in range(1, 8)]
    assert [text.text for text in texts][:4] == [
        f"{TEXTS[2]}\n{TEXTS[3]}", TEXTS[4], TEXTS[0], TEXTS[1],
    ]  # fmt: skip
    whole = list(read_texts([folder / "texts" / "b.txt"], unit="file"))
    assert places(whole, folder) == [("b.txt", 1)] and whole[0].text.count("\n") == 4


@pytest.mark.parametrize(
    "content, arguments, message",
    [
        (None, {}, "does not exist"),
        (b"\xff\n", {}, "a.txt, line 1: not UTF-8"),
        (b"a", {"unit": "page"}, "unit must be one of line, file"),
    ],
)
def test_rejects_unreadable_texts(tmp_path, content, arguments, message):
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_texts(tmp_path / "a.txt", **arguments))


def test_rejects_a_folder_without_texts_and_half_a_surrogate_pair(tmp_path):
    with pytest.raises(InputError, match="contains no file that ends in .txt"):
        read_texts(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud800"}\n')
    with pytest.raises(InputError, match="a.jsonl, line 1: 'text' contains an unpaired surrogate"):
        list(read_texts(tmp_path))


@pytest.fixture(scope="module")
def written(folder):
    """The file written by the command, in chunks of 4 texts."""
    file = folder / "vectors.npy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_CHUNK_TEXTS", 4)
        command = ["embed", "--model", str(folder / "model"), str(folder / "texts")]
        assert main([*command, "--out", str(file)]) == 0
    return file


def test_repeated_texts_are_embedded_once(folder, embedder, tmp_path, monkeypatch):
    lines = TEXTS[:3] * 4 + TEXTS[3:5]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in lines))
    stream = read_texts(tmp_path / "texts.jsonl")
    vectors.write_vectors(embedder, stream, tmp_path / "plain.npy")
    monkeypatch.setattr(vectors, "_CHUNK_TEXTS", 4)
    encoded, encode = [], embedder.encode
    monkeypatch.setattr(
        type(embedder),
        "encode",
        lambda self, texts, **how: encoded.extend(texts) or encode(texts, **how),
    )
    command = ["embed", "--model", str(folder / "model"), str(tmp_path / "texts.jsonl")]
    assert main([*command, "--out", str(tmp_path / "cached.npy"), "--cache-mb", "1"]) == 0
    assert encoded == TEXTS[:5]
    plain, cached = (np.load(tmp_path / f"{name}.npy") for name in ("plain", "cached"))
    np.testing.assert_allclose(cached, plain, rtol=0, atol=1e-6)
    for row, text in enumerate(lines):
        assert (cached[row] == cached[lines.index(text)]).all()


def test_npy_holds_the_vectors_in_order(folder, embedder, written):
    texts = list(read_texts(folder / "texts"))
    stored = np.load(written, allow_pickle=False)
    assert stored.shape == (11, 16) and stored.dtype == np.float32
    np.testing.assert_allclose(stored, embedder.encode([text.text for text in texts]), atol=1e-5)
    lines = [json.loads(line) for line in (folder / "vectors.jsonl").read_text().splitlines()]
    assert lines == [text.as_dict() for text in texts]


def test_parquet_holds_the_same_vectors(folder, embedder, written):
    file = folder / "vectors.parquet"
    assert vectors.write_vectors(embedder, read_texts(folder / "texts"), file) == 11
    table = pyarrow.parquet.read_table(file).to_pydict()
    np.testing.assert_allclose(np.array(table["vector"]), np.load(written), atol=1e-5)
    assert table["line"][:2] == [3, 5] and table["text"][1] == TEXTS[4]


def test_failed_writes_leave_nothing(folder, embedder, tmp_path):
    texts = [*read_texts(folder / "texts")][:2]

    def broken():
        yield from texts
        raise InputError("a damaged file")

    for name in ("v.npy", "v.parquet"):
        with pytest.raises(InputError, match="a damaged file"):
            vectors.write_vectors(embedder, broken(), tmp_path / name)
        with pytest.raises(InputError, match="there are no texts to embed"):
            vectors.write_vectors(embedder, [], tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="must end in .npy or .parquet"):
        vectors.write_vectors(embedder, texts, tmp_path / "v.txt")


def test_replaces_no_text_that_it_embeds(embedder, tmp_path, capsys):
    (tmp_path / "texts.jsonl").write_text('{"text": "good film", "id": 1}\n')
    before = (tmp_path / "texts.jsonl").read_bytes()
    vectors.write_vectors(embedder, read_texts(tmp_path / "texts.jsonl"), tmp_path / "v.parquet")
    with pytest.raises(InputError, match="texts.jsonl would be overwritten"):
        vectors.write_vectors(embedder, read_texts(tmp_path), tmp_path / "texts.npy")
    with pytest.raises(InputError, match="v.parquet would be overwritten"):
        vectors.write_vectors(embedder, read_texts(tmp_path), tmp_path / "v.parquet")
    command = ["embed", "--model", "bert-base-uncased", str(tmp_path / "texts.jsonl")]
    assert main([*command, "--out", str(tmp_path / "texts.npy")]) == 2
    assert "--out also writes a .jsonl file" in capsys.readouterr().err
    assert (tmp_path / "texts.jsonl").read_bytes() == before


# === Search ===


def test_search_is_exact(embedder, monkeypatch):
    monkeypatch.setattr("keras_bert_impl.tasks.embedding.search._VECTORS", 7)
    monkeypatch.setattr("keras_bert_impl.tasks.embedding.search._QUERIES", 2)
    stored = np.random.default_rng(0).normal(size=(50, 16)).astype("float32")
    stored[20] = stored[33] = stored[3] * 2  # equal cosines, in three chunks
    stored[5] = 0
    queries = embedder.encode(TEXTS[:3]).astype("float64")
    unit = stored / np.maximum(np.linalg.norm(stored, axis=1, keepdims=True), 1e-12)
    cosines = queries @ unit.T / np.linalg.norm(queries, axis=1, keepdims=True)
    rows, scores = search(embedder, TEXTS[:3], stored, k=50)
    # Scores of float32 vectors, sorted by the true cosines except for rounding.
    np.testing.assert_allclose(scores, np.take_along_axis(cosines, rows, axis=1), atol=1e-6)
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1), atol=1e-6)
    assert rows.dtype == np.int64 and (np.sort(rows, axis=1) == np.arange(50)).all()
    few, _ = search(embedder, TEXTS[:3], stored, k=4)
    np.testing.assert_array_equal(few, rows[:, :4])
    assert search(embedder, TEXTS[:3], stored[:2], k=4)[0].shape == (3, 2)


def test_ties_return_the_first_vectors(embedder, monkeypatch):
    monkeypatch.setattr("keras_bert_impl.tasks.embedding.search._VECTORS", 8)
    monkeypatch.setattr(embedder, "encode", lambda queries, **_: np.eye(16)[[0, 1, 0]])
    stored = np.eye(16, dtype="float32")[[0, 1] * 15]  # cosines are exactly 0 or 1
    first, second = list(range(0, 30, 2)), list(range(1, 30, 2))
    for k in (1, 3, 9, 15, 17, 30):
        rows, scores = search(embedder, ["a", "b", "c"], stored, k)
        expected = [(first + second)[:k], (second + first)[:k], (first + second)[:k]]
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(scores, [([1] * 15 + [0] * 15)[:k]] * 3)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_rejects_nan_vectors(embedder, number, monkeypatch):
    monkeypatch.setattr("keras_bert_impl.tasks.embedding.search._VECTORS", 8)
    stored = np.ones((20, 16), "float32")
    stored[13, 2] = number
    with pytest.raises(InputError, match="vector 13 contains NaN or infinite values"):
        search(embedder, ["film"], stored)
    monkeypatch.setattr(embedder, "encode", lambda queries, **_: stored[12:15])
    with pytest.raises(InputError, match="the vector of query 1 contains NaN"):
        search(embedder, ["a", "b", "c"], np.ones((20, 16), "float32"))


def test_command_finds_a_text_by_itself(folder, written, capsys):
    command = ["search", "--model", str(folder / "model"), "--vectors", str(written), "--top", "2"]
    assert main([*command, TEXTS[4], TEXTS[7], "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [answer["query"] for answer in answers] == [TEXTS[4], TEXTS[7]]
    best = [answer["texts"][0] for answer in answers]
    assert [(text["path"], text["line"]) for text in best] == [
        (f"{folder}/texts/a.csv", 5),
        (f"{folder}/texts/inner/c.jsonl", 3),
    ]
    assert all(text["score"] == pytest.approx(1, abs=1e-5) for text in best)
    assert main([*command, TEXTS[4]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0] == f"1.0000\t{folder}/texts/a.csv:5\t{TEXTS[4]}"


@pytest.fixture(scope="module")
def other_model(folder):
    """A model of the same width that differs in one weight."""
    model = load_embedder(folder / "model")
    variable = model.encoder.trainable_variables[0]
    variable.assign(np.array(variable) + (np.arange(variable.shape[0]) == 5)[:, None] * 1e-3)
    model.save_pretrained(folder / "other")
    return folder / "other"


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_vectors_state_their_model(folder, embedder, other_model, tmp_path, suffix, capsys):
    file = tmp_path / f"v{suffix}"
    command = ["embed", "--model", str(folder / "model"), str(folder / "texts"), "--out", str(file)]
    assert main(command) == 0 == main(command)  # The same vectors may be written again.
    query = ["--vectors", str(file), TEXTS[4], "--json"]
    assert main(["search", "--model", str(folder / "model"), *query]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["texts"][0]["line"] == 5
    assert main(["search", "--model", str(other_model), *query]) == 2
    message = capsys.readouterr().err
    assert f"{folder / 'model'} (SHA-256" in message and f"not {other_model}" in message
    assert f"again with --model {other_model}" in message
    rows, _ = search(embedder, TEXTS[4], file, k=1)
    assert rows.tolist() == [[1]]
    with pytest.raises(InputError, match="from a different model"):
        search(load_embedder(other_model), TEXTS[4], file)
    with pytest.raises(InputError, match="contains vectors of another model"):
        write_vectors(load_embedder(other_model), read_texts(folder / "texts"), file)
    (tmp_path / "new.txt").write_text("a joy\n")
    with pytest.raises(InputError, match="contains vectors of other texts"):
        write_vectors(embedder, read_texts(tmp_path / "new.txt"), file)


def test_vectors_made_elsewhere_are_taken_with_a_warning(
    folder, embedder, written, tmp_path, caplog
):
    copy = tmp_path / "copy.npy"
    np.save(copy, read_vectors(written))
    assert search(embedder, TEXTS[4], copy, k=1)[0].tolist() == [[1]]
    assert [
        record.message for record in caplog.records if "does not state the model" in record.message
    ]
    with pytest.raises(InputError, match="copy.npy does not state the model"):
        write_vectors(embedder, read_texts(folder / "texts"), copy)


def test_an_interrupted_write_is_said_and_can_be_repeated(embedder, tmp_path):
    (tmp_path / "a.txt").write_text("a joy\n")
    write_vectors(embedder, read_texts(tmp_path / "a.txt"), tmp_path / "v.npy")
    (tmp_path / "v.jsonl").unlink()
    with pytest.raises(InputError, match="v.jsonl.* is missing. Run `keras-bert embed` again"):
        read_places(tmp_path / "v.npy", [0], 1)
    assert write_vectors(embedder, read_texts(tmp_path / "a.txt"), tmp_path / "v.npy") == 1


@pytest.mark.parametrize("part", ["v.npy", "v.jsonl"])
def test_files_of_different_calls_are_not_searched(embedder, tmp_path, part):
    for name, text in ("v", "a joy"), ("w", "a bore"):
        (tmp_path / f"{name}.txt").write_text(f"{text}\n")
        write_vectors(embedder, read_texts(tmp_path / f"{name}.txt"), tmp_path / f"{name}.npy")
    assert search(embedder, "a joy", tmp_path / "v.npy")[0].tolist() == [[0]]
    (tmp_path / part.replace("v", "w")).replace(tmp_path / part)
    with pytest.raises(InputError, match=f"{part} does not belong .*Run `keras-bert embed` again"):
        search(embedder, "a joy", tmp_path / "v.npy")
    write_vectors(embedder, read_texts(tmp_path / "v.txt"), tmp_path / "v.npy")
    assert search(embedder, "a joy", tmp_path / "v.npy")[1][0, 0] > 0.999


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_search_shows_ids_and_says_that_texts_changed(folder, tmp_path, suffix, capsys):
    table, file = tmp_path / "rows.csv", tmp_path / f"v{suffix}"
    table.write_text(f"key,body\nk1,{TEXTS[0]}\nk2,{TEXTS[4]}\n")
    model = ["--model", str(folder / "model")]
    columns = ["--text", "body", "--id", "key"]
    assert main(["embed", *model, str(table), *columns, "--out", str(file)]) == 0
    command = ["search", *model, "--vectors", str(file), "--top", "1", TEXTS[4]]
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1.0000\tk2\t") and "has changed" not in printed.err
    table.write_text("key,body\nk1,a joy\n")
    assert main(command) == 0
    assert "rows.csv has changed since it was embedded" in capsys.readouterr().err
    (tmp_path / "a.txt").write_text("a joy\n")
    assert (
        main(["embed", *model, str(tmp_path / "a.txt"), "--id", "key", "--out", f"{file}2.npy"])
        == 2
    )
    assert "a.txt is not a table" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["(True, 16)", "(-60, 16)", "(60, 0)", "(False, 16)", "(60.0, 16)",
                                   "(960,)", "960", "(60, 4, 4)", "(10**18, 16)"])  # fmt: skip
def test_rejects_shapes_that_are_no_vectors(tmp_path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "v.npy").write_bytes(start + bytes(60 * 16 * 4))
    with pytest.raises(InputError, match="v.npy (must contain float vectors|is not a complete)"):
        read_vectors(tmp_path / "v.npy")


def test_rejects_parquet_files_without_vectors(tmp_path):
    for column in ({"text": ["a"]}, {"vector": ["a"]}, {"vector": [[1.0], [1.0, 2.0, 3.0]]}):
        pyarrow.parquet.write_table(pyarrow.table(column), tmp_path / "v.parquet")
        with pytest.raises(InputError, match="column 'vector'"):
            read_vectors(tmp_path / "v.parquet")


def test_command_takes_vectors_of_windows(folder, tmp_path, capsys):
    """A text longer than the model has another vector by `--long-texts`, of the same model."""
    (tmp_path / "texts.txt").write_text("film good joy great plot very dull awful bad\n" * 2)
    small = encoder(dropout=0.0, use_pooler=False)
    TextEmbedder(small, tokenizer(), max_length=4).save_pretrained(tmp_path / "model")
    model, file = ["--model", str(tmp_path / "model")], str(tmp_path / "windows.npy")
    command = ["embed", *model, str(tmp_path / "texts.txt"), "--out", file]
    assert main([*command, "--long-texts", "mean"]) == 0
    assert main(["search", *model, "--vectors", file, "film"]) == 0


def test_rejects_unsearchable_vectors(folder, embedder, written, tmp_path):
    with pytest.raises(InputError, match=r"vectors must be \[texts, 16\]"):
        search(embedder, ["film"], np.zeros((3, 8), "float32"))
    with pytest.raises(InputError, match="k must be a positive integer"):
        search(embedder, ["film"], np.zeros((3, 16), "float32"), k=0)
    file = tmp_path / "objects.npy"
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    for name in (file, tmp_path / "missing.npy", folder / "vectors.jsonl"):
        with pytest.raises(InputError, match="is not a complete .npy file"):
            read_vectors(name)
    np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="must contain float vectors"):
        read_vectors(file)
    with pytest.raises(InputError, match="has 11 lines for 12 vectors"):
        read_places(written, [0], 12)
    (tmp_path / "objects.jsonl").write_text('{"path": 1}\n')
    with pytest.raises(InputError, match="line 1: expected an object with path, line and text"):
        read_places(file, [0], 1)


def test_search_takes_lists_of_vectors_but_no_texts():
    embedder = TextEmbedder(encoder(), tokenizer())
    texts = ["good film", "bad film"]
    vectors = embedder.encode(texts)
    rows, _ = search(embedder, texts, list(vectors), k=1)
    assert rows[:, 0].tolist() == [0, 1]
    for wrong in (texts, []):
        with pytest.raises(InputError, match="Write search"):
            search(embedder, texts, wrong)


def test_parquet_replaces_no_table_of_its_name(folder, embedder, tmp_path):
    texts = tmp_path / "rows.jsonl"
    texts.write_text('{"text": "a film"}\n')
    write_vectors(embedder, read_texts(texts), tmp_path / "rows.parquet")
    assert texts.read_text() == '{"text": "a film"}\n'
    with pytest.raises(InputError, match="rows.jsonl would be overwritten"):
        write_vectors(embedder, read_texts(texts), tmp_path / "rows.npy")
