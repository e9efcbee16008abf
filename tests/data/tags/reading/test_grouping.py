"""Groups of sentences: documents of column files, and columns of tables."""

import json

import pytest

from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.data.tags.reading.read_tags import read_tags
from keras_bert_impl.utils.errors import InputError


def columns(start):
    """Returns a file of 10 documents with 3 sentences each."""
    sentences = [f"w{n} O\nx B-A\n\n" for n in range(30)]
    return "".join(start * (n % 3 == 0) + sentence for n, sentence in enumerate(sentences))


ROWS = [
    {"tokens": [f"w{n}"], "tags": ["O" if n else "B-A"], "meta": {"doc": n // 3}} for n in range(30)
]
CSV = "sent,doc,word,tag\n" + "".join(
    f"{n},{n // 3},{word},{tag}\n"
    for n in range(30)
    for word, tag in ((f"w{n}", "O"), ("x", "B-A"))
)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.conll", columns("-DOCSTART- O\n\n"), {"groups": "document"}),
        ("b.conll", columns("# newdoc id = 7\n"), {"groups": "document"}),
        ("c.jsonl", "\n".join(map(json.dumps, ROWS)), {"groups": "meta.doc"}),
        ("d.csv", CSV, {"groups": "doc", "sentence": "sent"}),
    ],
)
def test_documents_are_not_split(name, content, options, tmp_path):
    (tmp_path / name).write_text(content)
    examples = read_tags(tmp_path / name, **options)
    assert len(examples) == 30 and len(set(examples.groups)) == 10
    assert all(examples.groups[3 * n] == examples.groups[3 * n + 2] for n in range(10))
    assert examples.read_with["groups"] == options["groups"]
    train, dev = hold_out(examples, 0.2)
    assert len(dev) == 6 and not set(train.groups) & set(dev.groups)


def test_rows_in_memory():
    assert read_tags(ROWS, groups="meta.doc").groups == [str(n // 3) for n in range(30)]


@pytest.mark.parametrize(
    ("content", "groups", "message"),
    [
        ("a O\nb B-A\n", "document", "does not mark documents"),
        ("-DOCSTART- O\n\na O\nb B-A\n", "doc", "Pass groups='document'"),
        ('{"tokens": ["a"], "tags": ["O"]}\n' * 2, "doc", "line 1: no column named 'doc'"),
        ('{"tokens": ["a"], "tags": ["O"], "doc": null}\n' * 2, "doc", "line 1: 'doc' is missing"),
    ],
)
def test_files_without_groups(content, groups, message, tmp_path):
    path = tmp_path / ("a.jsonl" if content.startswith("{") else "a.conll")
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_tags(path, groups=groups)
