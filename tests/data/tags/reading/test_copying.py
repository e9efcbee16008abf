"""Held-out sentences as a file: the same examples, in each format that `read_tags` reads."""

import functools
import json

import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tables.held_rows import held_out_files, write_held_out
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.data.tags.reading.copying import copy_sentences
from keras_bert_impl.data.tags.reading.read_tags import read_tags

write = functools.partial(write_held_out, copy=copy_sentences)
# One word, several words, and a repeated sentence, which stays in one part.
SENTENCES = [([f"w{n}", *["é"] * (n % 4)], ["B-A", *["I-A"] * (n % 4)]) for n in (*range(20), 3)]


def _lines(form, between="\n", start=""):
    """Returns a file with a line for each word."""
    blocks = []
    for number, (words, labels) in enumerate(SENTENCES):
        rows = enumerate(zip(words, labels), 1)
        blocks.append("".join(form(number, place, *row) + "\n" for place, row in rows))
    return start + between.join(blocks)


def _conllu(number, place, word, label):
    empty_columns = "\t_" * 6
    comment = f"# sent_id = s{number}\n1-2\tab\t_\t_{empty_columns}\n" if place == 1 else ""
    return f"{comment}{place}\t{word}\t_\t_\t{label}{empty_columns[2:]}"


ROWS = [{"tokens": words, "tags": labels, "id": n} for n, (words, labels) in enumerate(SENTENCES)]
TEXTS = [
    {"id": n, "text": " ".join(words), "label": [[0, len(" ".join(words)), "A"]]}
    for n, (words, _) in enumerate(SENTENCES)
]
FILES = {
    "a.conll": _lines(lambda n, p, word, label: f"{word} _ {label}"),
    "b.txt": _lines(lambda n, p, word, label: f"{word}\t{label}", "-DOCSTART-\t-X-\n"),
    "c.conllu": _lines(_conllu),
    "d.tsv": _lines(lambda n, p, word, label: f"{n}\t{word}\t{label}", start="\nsent\tword\ttag\n"),
    "e.csv": _lines(
        lambda n, p, word, label: f'{n if p == 1 else ""},"{word}",{label}',
        "",
        "sentence #,word,tag\n",
    ),
    "m.conll": _lines(
        lambda n, p, word, label: (
            f"x 0 {p} {word}{' -' * 6} {'(A*' if p == 1 else '*'}"
            + (")" if p == len(SENTENCES[n][0]) else "")
            + " -" * (n % 3 + 1)
        ),
        start="#begin document (x); part 000\n",
    ),
    "n.tsv": "".join(" ".join(w) + "\t" + " ".join(x) + "\n" for w, x in SENTENCES),
    "f.jsonl": "\n".join(map(json.dumps, ROWS)),
    "g.json": json.dumps(ROWS, indent=1),
    "h.json": json.dumps({"version": 1, "annotations": TEXTS}),
    "i.json": json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]}),
    "j.parquet": pyarrow.Table.from_pylist(ROWS),
    "k.csv": "text,label\n"
    + "".join(
        f'"{row["text"]}","{str(row["label"]).replace(chr(39), chr(34) * 2)}"\n' for row in TEXTS
    ),
    "l.txt": _lines(lambda n, p, word, label: f"{n};{label};{word}", ""),
}
OPTIONS = {
    "c.conllu": {"label": "xpos"},
    "d.tsv": {"sentence": "sent"},
    "l.txt": {"text": "2", "label": "1", "sentence": "0", "delimiter": ";"},
}


@pytest.mark.parametrize("name", FILES)
def test_the_held_out_sentences_are_read_again(name, tmp_path):
    path, content = tmp_path / name, FILES[name]
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        pyarrow.parquet.write_table(content, path)
    options = OPTIONS.get(name, {})
    examples = read_tags(path, **options)
    assert examples.texts == [words for words, _ in SENTENCES]
    train, dev = hold_out(examples, 0.3)
    assert not set(map(tuple, train.texts)) & set(map(tuple, dev.texts))
    (written,) = write(dev, tmp_path)
    assert held_out_files(str(tmp_path)) == str(written) and written.name == f"dev.{name[2:]}"
    again = read_tags(written, **options)
    assert (again.texts, again.labels) == (dev.texts, dev.labels) and len(again) > 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", _lines(lambda n, p, word, label: f"{word} _ {label}")),
        ("b.csv", _lines(lambda n, p, word, label: f"{n},{word},{label}", "", "phrase,mot,é\n")),
        ("c.json", json.dumps(ROWS, ensure_ascii=False)),
    ],
)
def test_files_of_another_encoding(name, content, tmp_path):
    (tmp_path / name).write_text(content, encoding="cp1252")
    options = {"text": "mot", "label": "é", "sentence": "phrase"} if name == "b.csv" else {}
    _, dev = hold_out(read_tags(tmp_path / name, encoding="cp1252", **options), 0.3)
    (written,) = write(dev, tmp_path)
    for encoding in ("cp1252", None):
        again = read_tags(written, encoding=encoding, **options)
        assert (again.texts, again.labels) == (dev.texts, dev.labels)
    assert any("é" in words for words in again.texts)
