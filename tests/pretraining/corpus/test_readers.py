"""Every format yields its documents; damaged input is reported with file and line."""

import bz2
import gzip
import json
import lzma
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus import readers
from keras_bert_impl.pretraining.corpus.readers import read_documents
from keras_bert_impl.utils.errors import InputError

SENTENCES = "One.\nTwo é.\n\n\n  \nThree.\n"
WIKI = (
    '<doc id="1" url="u" title="A &amp; B">\nA & B\n\nFirst paragraph. More.\nSecond.\n</doc>\n'
    '\n<doc id="2" url="u" title="C">\nC\n\nC\n</doc>\n'
)


def texts(*arguments, **keywords):
    return [document.paragraphs for document in read_documents(*arguments, **keywords)]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_and_where_documents_begin(tmp_path):
    path = write(tmp_path / "a.txt", SENTENCES)
    first, second = read_documents(path)
    assert (first.paragraphs, first.is_split) == (["One.", "Two é."], True)
    assert (first.source, second.source) == (f"{path}:1", f"{path}:6")


def test_wikiextractor_drops_the_title_once(tmp_path):
    path = write(tmp_path / "wiki_00", WIKI)
    assert texts(path) == [["First paragraph. More.", "Second."], ["C"]]
    assert not next(read_documents(path)).is_split


def test_json_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "One.\\nTwo."}\n\n{"text": "\\ud800Three."}\n')
    assert texts(path) == [["One.", "Two."], ["\ufffdThree."]]
    path = write(tmp_path / "b.jsonl", '{"id": 1, "body": "Four."}\n')
    assert texts(path, text_field="body") == [["Four."]]


def test_each_file_of_a_folder_is_a_document(tmp_path):
    write(tmp_path / "b.txt", "A wrapped\nline.\n\nNew paragraph.")
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "z.txt", "Deeper.")
    write(tmp_path / "a" / "empty.txt", "\n")
    write(tmp_path / "a" / ".hidden", "Hidden.")
    write(tmp_path / "c.jsonl", '{"text": "From JSON."}\n')
    assert texts(tmp_path) == [["Deeper."], ["A wrapped line.", "New paragraph."], ["From JSON."]]


def test_explicit_format_overrides_detection(tmp_path):
    path = write(tmp_path / "a.txt", "One.\nTwo.\n\nThree.")
    assert texts(path, format="files") == [["One. Two.", "Three."]]


@pytest.mark.parametrize("compression", [gzip, lzma, bz2])
def test_reads_compressed_files_of_any_name(tmp_path, compression):
    path = tmp_path / "corpus"
    path.write_bytes(compression.compress(("\ufeff" + SENTENCES).encode()))
    assert texts(path) == [["One.", "Two é."], ["Three."]]
    data = compression.compress(("Word and word. " * 9000 + "\n\n").encode())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=f"{path} is damaged"):
        texts(path)


@pytest.fixture
def bucket(tmp_path):
    """Folders with the same files: local, and in TensorFlow's in-memory file system."""
    folder = tmp_path / "corpus"
    (folder / "a" / "b").mkdir(parents=True)
    write(folder / "z.txt", "A wrapped\nline.\n\nNew paragraph.")
    write(folder / "a" / "b" / "wiki_00", WIKI)
    write(folder / "a" / ".hidden", "Hidden.")
    (folder / "a" / "long.gz").write_bytes(gzip.compress(b"Line and line.\n" * 200_000))
    (folder / "first.xz").write_bytes(lzma.compress(b'{"text": "From JSON."}'))
    for path in folder.rglob("*"):
        if path.is_file():
            name = f"ram://text/{path.relative_to(folder)}"
            tf.io.gfile.makedirs(name.rpartition("/")[0])
            tf.io.gfile.copy(str(path), name)
    yield folder, "ram://text"
    tf.io.gfile.rmtree("ram://text")


def test_text_on_a_bucket_equals_the_folder(bucket):
    folder, name = bucket
    assert texts(name) == texts(folder) and len(texts(name)) == 5
    assert texts(f"{name}/a") == texts(folder / "a")
    assert texts(f"{name}/a/long.gz") == texts(folder / "a" / "long.gz")
    assert next(read_documents(f"{name}/z.txt")).source == "ram://text/z.txt:1"


def test_rejects_missing_text_on_a_bucket(bucket):
    folder, name = bucket
    with pytest.raises(InputError, match="ram://text/other does not exist"):
        read_documents(f"{name}/other")
    with pytest.raises(InputError, match="cannot read nowhere://text: File system"):
        read_documents("nowhere://text")
    damaged = (folder / "a" / "long.gz").read_bytes()[:-100]
    with tf.io.gfile.GFile(f"{name}/a/long.gz", "wb") as file:
        file.write(damaged)
    with pytest.raises(InputError, match="ram://text/a/long.gz is damaged"):
        texts(name)
    documents = read_documents(f"{name}/z.txt")
    tf.io.gfile.remove(f"{name}/z.txt")
    with pytest.raises(InputError, match="cannot read ram://text/z.txt"):
        next(documents)


def test_reading_is_lazy(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "Fine."}\n' * 100 + "broken\n")
    assert next(read_documents(path)).paragraphs == ["Fine."]


def test_tfds(tmp_path):
    import tensorflow_datasets as tfds

    class MadeUp(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {"body": tfds.features.Text(), "number": tfds.features.Scalar(np.int64)}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for index in range(4):
                yield index, {"body": f"Text {index}.\nMore.", "number": index}

    MadeUp(data_dir=tmp_path).download_and_prepare()
    name = f"tfds://made_up:train[:50%]?field=body&data_dir={tmp_path}"
    documents = list(read_documents(name))
    assert len(documents) == 2
    assert documents[0].source == f"{name}#1"
    assert documents[0].paragraphs[0].startswith("Text ") and documents[0].paragraphs[1:] == [
        "More."
    ]
    for wrong, message in [
        (
            f"tfds://made_up:train?data_dir={tmp_path}",
            "no field 'text'; the fields are: body, number",
        ),
        (f"tfds://made_up:train?field=number&data_dir={tmp_path}", "'number' must contain strings"),
        (
            f"tfds://made_up:nowhere?field=body&data_dir={tmp_path}",
            "TensorFlow Datasets cannot load the dataset",
        ),
        ("tfds://no_such_dataset_at_all:train", "TensorFlow Datasets cannot load the dataset"),
        ("tfds://made_up", "write tfds://name"),
        ("tfds://made_up:train?fields=body", "write tfds://name"),
    ]:
        with pytest.raises(InputError, match=message):
            list(read_documents(wrong))


@pytest.mark.parametrize(
    "content, line, message",
    [
        (b"Fine.\n\0\1\2", 2, "binary file"),
        (b"Fine.\ncaf\xe9\n", 2, r"byte 4 of the line is not UTF-8 \(0xe9\)"),
        (b'{"text": "a"}\n{"text": \n', 2, "not valid JSON"),
        (
            b'{"text": "a"}\n{"body": "b", "id": 3}\n',
            2,
            "the field 'text' contains no text; the fields are: body, id",
        ),
        (b'{"text": "a"}\n{"text": 3}\n', 2, "the field 'text' contains no text"),
        (b'{"text": "a"}\n' + b"[" * 100_000 + b"\n", 2, "nested too deeply"),
        (b'<doc id="1" title="t">\nt\nText.\n', 1, "has no </doc>"),
        (b'<doc id="1" title="t">\nt\n</doc>\nText.\n', 4, "text outside <"),
    ],
)
def test_bad_content_names_file_and_line(tmp_path, content, line, message):
    path = tmp_path / "corpus.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}:{line}: .*{message}"):
        list(read_documents(path))


def test_missing_path_raises_immediately(tmp_path):
    with pytest.raises(InputError, match="nowhere.txt does not exist"):
        read_documents([tmp_path / "nowhere.txt"])


def test_empty_corpus_and_wrong_arguments(tmp_path):
    path = write(tmp_path / "empty.txt", " \n\n")
    with pytest.raises(InputError, match=f"{path}: no text found"):
        list(read_documents(path))
    with pytest.raises(InputError, match="the corpus is missing"):
        read_documents([])
    with pytest.raises(InputError, match="unknown format 'xml'"):
        read_documents(path, format="xml")


def test_a_long_line_is_read_whole(tmp_path):
    text = "word " * 250_000
    path = write(tmp_path / "a.jsonl", json.dumps({"text": text}))
    assert texts(path) == [[text.strip()]]


@pytest.mark.parametrize("at_once", [1, 5, 64, 1 << 20])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_chunk_size_does_not_change_lines(tmp_path, monkeypatch, at_once, line_end):
    monkeypatch.setattr(readers, "_READ_AT_ONCE", at_once)
    lines = [
        "\ufeffOne é.",
        "日本",
        "",
        " \u2028 Two.\x0b",
        "\ufeffThree\rand a half.",
        "",
        "",
        "😀",
    ]
    path = tmp_path / "corpus.txt"
    path.write_bytes(line_end.join(lines).encode())
    documents = [(document.source, document.paragraphs) for document in read_documents(path)]
    assert documents == [
        (f"{path}:1", ["One é.", "日本"]),
        (f"{path}:4", ["Two.", "Three\rand a half."]),
        (f"{path}:8", ["😀"]),
    ]
    path.write_bytes(b"caf\xe9\n" + line_end.join(lines).encode() + b"\n\xff")
    with pytest.raises(InputError, match=f"{path}:1: byte 4 of the line"):
        list(read_documents(path))
    path.write_bytes(line_end.join(lines).encode() + b"\n\n.\xff")
    with pytest.raises(InputError, match=f"{path}:10: byte 2 of the line"):
        list(read_documents(path))


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_lines_may_end_in_cr(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(readers, "_READ_AT_ONCE", at_once)
    path = write(tmp_path / "corpus.txt", "One.\rTwo.\r\rThree.\r")
    assert texts(path) == [["One.", "Two."], ["Three."]]


@pytest.mark.parametrize("content", ['[{"text": "a"}]', ' [ {\n"text": "a"}]'])
def test_rejects_a_json_array(tmp_path, content):
    with pytest.raises(InputError, match="is a JSON array; write one object per line"):
        texts(write(tmp_path / "corpus.json", content))
    assert texts(write(tmp_path / "other", "[Music] {a}")) == [["[Music] {a}"]]


@pytest.mark.parametrize("content", ['{\n"text": "a"\n}', ' {\n\n  "text": "a",\n "id": 3}\n'])
def test_rejects_a_json_object_on_several_lines(tmp_path, content):
    path = write(tmp_path / "corpus.json", content)
    for source in (path, tmp_path):
        with pytest.raises(InputError, match=f"{path} is a JSON object on .*one object per line"):
            texts(source)
    assert texts(write(tmp_path / "other", "{\nA brace.\n}")) == [["{", "A brace.", "}"]]


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.csv.gz", "a.tsv.xz", "a.csv.bz2"])
def test_rejects_a_table(tmp_path, name):
    opener = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get((tmp_path / name).suffix)
    with (opener or open)(tmp_path / name, "wt", encoding="utf-8") as file:
        file.write("id,text,label\n1,One.,pos\n")
    for source in (tmp_path / name, tmp_path):
        with pytest.raises(InputError, match=f"{tmp_path / name} is a table; .*--format sentences"):
            texts(source)
    assert texts(tmp_path / name, format="sentences") == [["id,text,label", "1,One.,pos"]]


def test_rejects_a_table_in_a_folder_before_reading_it(tmp_path):
    write(tmp_path / "a.txt", "One.")
    write(tmp_path / ".hidden.csv", "id,text")
    assert texts(tmp_path) == [["One."]]
    path = write(tmp_path / "z.csv", "id,text\n1,Two.\n")
    with pytest.raises(InputError, match=f"{path} is a table"):
        next(read_documents(tmp_path))
    assert texts(tmp_path, format="files") == [["One."], ["id,text 1,Two."]]


def test_unreadable_files_are_skipped_whole_and_listed(tmp_path):
    for name, content in (
        ("a.txt", b"One.\n\nTwo."),
        ("b.txt", b"Read until here.\n\n\xff"),
        ("c.jsonl", b'{"text": "Three."}\n{"text"\n'),
        ("d.csv", b"text\nFour.\n"),
        ("e.txt", b"\0\1\0\1"),
        ("f.txt", b"Five\0 and\7 six seven eight."),
        ("g.jsonl", b'{"body": "Nine."}'),
    ):
        (tmp_path / name).write_bytes(content)
    unreadable = []
    read = [d.paragraphs for d in read_documents(tmp_path, unreadable=unreadable)]
    assert read == [["One.", "Two."], ["Five and\7 six seven eight."]]
    files = [re.search(r"(\w+\.\w+)(:\d+)?( is a|:)", str(error))[1] for error in unreadable]
    assert files == ["b.txt", "c.jsonl", "d.csv", "e.txt", "g.jsonl"]
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_documents(tmp_path / "b.txt", unreadable=[]))


def test_an_error_far_into_a_file_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_MOST_AHEAD", 10)
    (tmp_path / "a.txt").write_bytes(b"More than ten.\n\nThe end.\n\n\xff")
    with pytest.raises(InputError, match="a.txt:5: byte 1 of the line is not UTF-8"):
        list(read_documents(tmp_path / "a.txt", format="sentences", unreadable=[]))
