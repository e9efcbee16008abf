"""Exports of annotation tools are read; other files are refused with what to do."""

import gzip
import json
import logging
import re
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from keras_bert_impl.data.tags.spans import spans_of
from keras_bert_impl.tasks import read_tags
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import write_file as written

EXPORTS = Path(__file__).parents[3] / "fixtures" / "annotations"
ENTITIES = [
    [("PER", "Mira Olsen"), ("ORG", "Nordlys AS"), ("LOC", "Bergen")],
    [],
    [("LOC", "Oslo")],
]
FILES = sorted(path.name for path in EXPORTS.iterdir())
NAMES = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC"]
NER_TAGS = [[1, 2, 0, 3, 4], [0]]
TOKENS = [["Mira", "Olsen", "joined", "Nordlys", "AS"], ["Yes"]]
TAGS = [["B-PER", "I-PER", "O", "B-ORG", "I-ORG"], ["O"]]


def entities(examples):
    return [
        [(span.type, " ".join(words[span.start : span.end])) for span in spans_of(labels)]
        for words, labels in zip(examples.texts, examples.labels)
    ]


def test_there_are_more_than_ten_exports():
    assert len(FILES) >= 18


@pytest.mark.parametrize("name", FILES)
def test_reads_sentences_and_entities_of_an_export(name):
    received = entities(read_tags(EXPORTS / name))
    if name == "label_studio.conll":  # its words are separated by white space alone
        received = [[(kind, text.rstrip(".")) for kind, text in of_text] for of_text in received]
    assert received == ENTITIES


@pytest.mark.parametrize("name", ["doccano.jsonl", "kaggle.csv", "spacy.json", "rasa.json"])
def test_reads_compressed_exports(tmp_path, name):
    content = gzip.compress((EXPORTS / name).read_bytes())
    assert entities(read_tags(written(tmp_path, f"{name}.gz", content))) == ENTITIES


# === Lists of words and labels ===


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_class_numbers_have_the_names_that_datasets_writes(tmp_path, suffix):
    feature = {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "List"}
    features = {"info": {"features": {"tokens": {"_type": "List"}, "ner_tags": feature}}}
    table = pyarrow.table({"tokens": TOKENS, "ner_tags": NER_TAGS})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    path = tmp_path / f"train{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with (
            pyarrow.OSFile(str(path), "wb") as file,
            pyarrow.ipc.new_file(file, table.schema) as out,
        ):
            out.write_table(table)
    examples = read_tags(path)
    assert (examples.texts, examples.labels) == (TOKENS, TAGS)
    assert examples.label_names == NAMES


class Feature:
    def __init__(self, names=None, feature=None):
        self.names, self.feature = names, feature


class Dataset(list):
    """Iterates over rows and has features, like `datasets.Dataset`."""

    features = {"tokens": Feature(), "ner_tags": Feature(feature=Feature(names=NAMES))}


def test_reads_tables_in_memory():
    rows = [{"tokens": words, "ner_tags": tags} for words, tags in zip(TOKENS, NER_TAGS)]
    named = [{"tokens": words, "ner_tags": tags} for words, tags in zip(TOKENS, TAGS)]
    frame = pandas.read_csv(EXPORTS / "kaggle.csv")
    assert entities(read_tags(frame)) == ENTITIES
    assert read_tags(named).labels == TAGS
    assert read_tags(Dataset(rows)).labels == TAGS
    assert read_tags(Dataset(rows)).label_names == NAMES
    assert read_tags(rows, labels=NAMES).labels == TAGS
    with pytest.raises(
        InputError, match="row 1: the labels in 'ner_tags' are numbers. Pass the class names"
    ):
        read_tags(rows)
    with pytest.raises(InputError, match=r"row 1: label 3 is not a class index from 0 to 2"):
        read_tags(rows, labels=["O", "B-PER", "I-PER"])
    assert read_tags({"tokens": TOKENS, "ner_tags": TAGS}).labels == TAGS
    assert read_tags(pyarrow.table({"tokens": TOKENS, "ner_tags": TAGS})).labels == TAGS
    with pytest.raises(InputError, match="a dict of 'train'; pass one of them"):
        read_tags({"train": named})


@pytest.mark.parametrize("orient", ["lines", "records", "columns", "index", "split", "table"])
def test_reads_what_pandas_writes(tmp_path, orient):
    lines = orient == "lines"
    orient = "records" if lines else orient
    frame = pandas.DataFrame({"tokens": TOKENS, "ner_tags": TAGS})
    frame.to_json(tmp_path / "a.json", orient=orient, lines=lines)
    if orient == "index":
        with pytest.raises(InputError, match="a.json, row 1: "):
            read_tags(tmp_path / "a.json")
    else:
        assert read_tags(tmp_path / "a.json").labels == TAGS


def test_numbers_in_csv_are_those_of_named_classes(tmp_path):
    path = written(tmp_path, "a.csv", "id,word,tag\n1,Mira,1\n1,Olsen,2\n2,sat,0\n")
    assert read_tags(path, sentence="id", labels=NAMES).labels == [["B-PER", "I-PER"], ["O"]]


def test_columns_may_be_numbers(tmp_path):
    rows = [["s1", "Ann", "B-PER"], ["s1", "sat", "O"], ["s2", "Rome", "B-LOC"]]
    expected = [["Ann", "sat"], ["Rome"]]
    content = "".join("\t".join(row) + "\n" for row in rows)
    for source in (pandas.DataFrame(rows), written(tmp_path, "a.conll", content)):
        for label in (2, "2", -1):
            examples = read_tags(source, sentence=0, text=1, label=label)
            assert (examples.texts, examples.labels[1]) == (expected, ["B-LOC"])
    frame = pandas.DataFrame(rows, columns=[3, 4, 5])
    assert read_tags(frame, sentence=3, text=4, label=5).texts == expected
    for wrong in ({"text": 1.5}, {"sentence": True}, {"labels": "O"}, {"outside": 0}, {"text": 9}):
        with pytest.raises(InputError, match=next(iter(wrong)) + "|'9'"):
            read_tags(frame, **wrong)


def test_columns_may_be_named(tmp_path):
    row = {"tokens": ["Oslo"], "pos_tags": ["NNP"], "ner_tags": ["B-LOC"], "lemmas": ["oslo"]}
    path = written(tmp_path, "a.jsonl", json.dumps(row))
    assert read_tags(path).labels == [["B-LOC"]]
    assert read_tags(path, text="lemmas", label="pos_tags").labels == [["NNP"]]
    with pytest.raises(
        InputError, match="a.jsonl, row 1: no column named 'words'. Found: 'tokens'"
    ):
        read_tags(path, text="words")
    path = written(tmp_path, "b.jsonl", '{"a": ["Oslo"], "b": ["B-LOC"]}\n')
    with pytest.raises(InputError, match="no column of words or texts .*--text COLUMN"):
        read_tags(path)


@pytest.mark.parametrize(
    "row, message",
    [
        ('{"tokens": ["a", "b"], "tags": ["O"]}', "2 words in 'tokens', but 1 labels in 'tags'"),
        ('{"tokens": ["a", null], "tags": ["O", "O"]}', "a word must be a string. Received: None"),
        ('{"tokens": ["a"], "tags": [["O"]]}', r"entities with offsets require a text|must be \[start"),
        ('{"text": "Oslo", "label": [[0, 9, "LOC"]]}', "entity 'LOC' from 0 to 9 is outside of the text"),
        ('{"text": "Oslo", "label": [{"start": 0}]}', "an entity requires a start, an end and a label"),
        ('{"text": "Oslo", "label": {"LOC": [[]]}}', r"an entity must be \[start, end\]"),
        (f'{{"text": "Oslo", "label": [[0, "{"9" * 5000}", "LOC"]]}}', "an entity must be"),
        ('{"text": "A B", "spans": [{"start": 0, "end": 1, "label": "X", "text": "C"}]}',
         "characters 0 to 1 are 'A', not 'C'; the offsets belong to another text"),
    ],
)  # fmt: skip
def test_invalid_rows_are_reported_or_skipped(tmp_path, row, message):
    good = '{"tokens": ["Oslo"], "tags": ["B-LOC"], "text": "Oslo"}\n'
    path = written(tmp_path, "a.jsonl", f"{good}{row}\n")
    with pytest.raises(InputError, match=f"a.jsonl, line 2: .*{message}"):
        read_tags(path)
    examples = read_tags(path, skip_bad_rows=True)
    assert examples.texts == [["Oslo"]] and "line 2" in examples.skipped[0]


def test_options_are_remembered_as_they_were_given():
    path = EXPORTS / "kaggle.csv"
    expected = {"dev": str(path), "text": None, "label": "Tag", "sentence": None, "labels": None}
    expected |= {"outside": None, "word_prefix": "", "delimiter": None, "no_header": False}
    expected |= {"groups": None, "encoding": None}
    assert read_tags(path, label="Tag").read_with == expected | {"skip_bad_rows": False}
    assert read_tags(pandas.read_csv(path)).read_with is None


# === A word in each row ===


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("is_filled", [True, False])
def test_reads_a_word_in_each_row(tmp_path, mark, is_filled):
    rows = [["sent_id", "token", "tag"], ["7", "Mira", "B-PER "], ["7", "sat", "O"]]
    rows += [["8", "Oslo", "B-LOC"], ["8", '""""' if mark != "\t" else '"', "O"]]
    if not is_filled:
        rows[2][0] = rows[4][0] = ""
    content = "".join(f"{mark.join(row)}\n" for row in rows)
    path = written(tmp_path, "a.tsv" if mark == "\t" else "a.csv", content)
    examples = read_tags(path)
    assert examples.texts == [["Mira", "sat"], ["Oslo", '"']]
    assert examples.labels == [["B-PER", "O"], ["B-LOC", "O"]]
    assert examples.lines == [[2, 3], [4, 5]]
    assert read_tags(path, sentence="sent_id").texts == examples.texts


def test_sentences_end_at_blank_rows(tmp_path):
    path = written(tmp_path, "a.csv", "word,tag\nMira,B-PER\nsat,O\n,\nOslo,B-LOC\n\nYes,O\n")
    assert read_tags(path).texts == [["Mira", "sat"], ["Oslo"], ["Yes"]]
    path = written(tmp_path, "b.csv", "word,tag\nMira,B-PER\nsat,O\n")
    with pytest.raises(InputError, match="does not mark the ends of sentences.*--sentence COLUMN"):
        read_tags(path)
    path = written(tmp_path, "c.txt", "word tag\nMira B-PER\nsat O\n\nOslo B-LOC\n")
    assert read_tags(path).texts == [["Mira", "sat"], ["Oslo"]]
    path = written(tmp_path, "d.csv", "Mira,B-PER\nsat,O\n\nOslo,B-LOC\n")
    assert read_tags(path, text="0", label="1").texts == [["Mira", "sat"], ["Oslo"]]


def test_rows_of_another_length_or_encoding_are_reported(tmp_path):
    path = written(tmp_path, "a.csv", "Sentence #,Word,Tag\n1,Mira,B-PER\n1,sat\n2,Oslo,B-LOC\n")
    with pytest.raises(InputError, match="a.csv, line 3: 2 columns, expected 3"):
        read_tags(path)
    assert read_tags(path, skip_bad_rows=True).texts == [["Oslo"]]
    path = written(tmp_path, "b.csv", "Sentence #,Word,Tag\n1,Genève,B-LOC\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 2: not UTF-8 .*pass --encoding cp1252"):
        read_tags(path)


# === Entities with offsets ===


def test_misaligned_and_overlapping_entities_are_counted(tmp_path, caplog):
    rows = [
        {"text": "Germanys capital", "label": [[0, 6, "LOC"], [8, 16, "X"]]},
        {"text": "New York City", "label": [[0, 13, "LOC"], [4, 8, "LOC"], [0, 13, "LOC"]]},
        {"text": " Oslo ", "label": [[0, 6, "LOC"]]},
    ]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with caplog.at_level(logging.WARNING):
        spans = entities(read_tags(path))
    capital = ("X", "capital")
    assert spans == [[("LOC", "Germanys"), capital], [("LOC", "New York City")], [("LOC", "Oslo")]]
    first, second = caplog.messages
    assert "1 of 5 entities do not start and end at word boundaries" in first
    assert "'German' (line 1)" in first
    assert "1 of 5 entities overlap a longer entity and were dropped: 'York' (line 2)" in second


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Mira", "label": [[0, 4, ""]]},
        {"text": "Mira", "label": [[0, 4, None]]},
        {"text": "Mira", "entities": [{"label": " ", "start_offset": 0, "end_offset": 4}]},
        {"text": "Mira", "entities": {"": [[0, 4]]}},
        {"text": "", "label": []},
        *(
            {"data": {"text": "Mira"}, "annotations": [{"result": [{"value": value, "type": type_}]}]}
            for value, type_ in (
                ({"start": 0, "end": 4, "labels": []}, "labels"),
                ({"start": 0, "end": 4}, "labels"),
                ({"start": 0, "end": 4, "labels": []}, None),
                ({"start": 0, "end": 4, "labels": []}, ["labels"]),
            )
        ),
    ],
)  # fmt: skip
def test_texts_without_words_or_labels_are_skipped_and_counted(tmp_path, caplog, row):
    rows = [row, {"text": "Oslo", "label": [[0, 4, "LOC"]]}]
    path = written(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with caplog.at_level(logging.WARNING):
        examples = read_tags(path)
    assert entities(examples) == [[("LOC", "Oslo")]]
    reason = "has no label." if row.get("text") != "" else "the text contains no words."
    assert "sentences skipped: 1. " in caplog.text
    assert re.search(f"line 1: .*{reason}", examples.skipped[0])


def test_reads_records_of_argilla(tmp_path):
    spans = [{"label": "PER", "start": 0, "end": 4}]
    records = [
        {"fields": {"text": text}, "responses": {"spans": [{"value": value, "status": status}]}}
        for text, value, status in (
            ("Mira sat", spans, "submitted"), ("He", [], "submitted"), ("Rome", [], "discarded"),
        )
    ] + [{"fields": {"text": "open"}, "responses": {}}]  # fmt: skip
    received = entities(read_tags(written(tmp_path, "a.json", json.dumps(records))))
    assert received == [[("PER", "Mira")], []]


def test_texts_that_were_not_accepted_are_counted(caplog):
    for name in ("prodigy.jsonl", "label_studio.json"):
        examples = read_tags(EXPORTS / name)
        assert len(examples.skipped) == 1 and "sentences skipped: 1. " in caplog.text


# === Other forms, by suffix and by content ===


def test_forms_are_recognized_by_their_first_lines(tmp_path):
    row = "1\tOslo\toslo\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
    assert read_tags(written(tmp_path, "ud.txt", row)).labels == [["PROPN"]]
    assert read_tags(written(tmp_path, "ud.conllu.gz", gzip.compress(row.encode()))).texts == [
        ["Oslo"]
    ]
    content = (EXPORTS / "datasets.jsonl").read_text()
    assert entities(read_tags(written(tmp_path, "data.txt", content))) == ENTITIES
    braces = read_tags(written(tmp_path, "code.conll", "{ O\n[ B-X\n} O\n"))
    assert braces.texts == [["{", "[", "}"]]
    commas = read_tags(written(tmp_path, "commas.conll", ", O\nso B-X\n, O\n"))
    assert commas.texts == [[",", "so", ","]]


KAGGLE = "Sentence #,Word,POS,Tag\nSentence: 1,London,NNP,B-geo\n,sat,VB,O\n"
WRONG = {
    "table.conll": (KAGGLE, r"looks like a table with the delimiter ','.*--delimiter"),
    "page.conll": ("<!DOCTYPE html>\n<html>\n", "is an HTML (page|or XML page)"),
    "page.json": ("\n<html>\n", "is an HTML (page|or XML page)"),
    "pointer.conll": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "rows.conll": (b"PAR1\x15\x04\x15", "is a Parquet file. Rename it to .parquet"),
    "rows.parquet": ("London B-geo\n", "is not a valid Arrow or Parquet file"),
    "pointer.parquet": ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "page.parquet": ("<html>\n", "is an HTML page"),
    "words.conll": ("London\nsat\n", "the same column, 0. The file has 1 column"),
    "paper.conll": (b"%PDF-1.7\n%\xe2\xe3", "is a PDF file. Extract its text first"),
    "words.jsonl": ("London B-geo\nsat O\n", "is not JSON.*name it .conll"),
    "doc.spacy": (b"x\x9c\x00", "is a spaCy DocBin. Convert it to JSON lines: for doc in DocBin"),
    "doc.ann": ("T1\tLOC 0 6\tLondon\n", "anntoconll"),
    "doc.txt": ("T1\tLOC 0 6\tLondon\n", "anntoconll"),
    "doc.tsv": ("#FORMAT=WebAnno TSV 3.3\n", "as CoNLL 2002 or CoNLL-U"),
    "sheet.csv": (b"PK\x03\x04\x14\x00", "a zip archive.*save an Excel sheet as .csv"),
    "germeval.tsv": ("1\tLondon\tB-geo\tO\n2\tsat\tO\tO\n", "column 0 does not contain words.*--text 1"),
    "texts.jsonl": ('{"text": "a good film", "label": "pos"}\n', "3 words.*use text classification"),
    "numpy.csv": ("tokens,tags\n\"['a' 'b']\",\"['O' 'O']\"\n", "a list without commas, printed by NumPy"),
    "slash.txt": ("Mira/B-PER came/O\nHe/O left/O\n", "pairs such as 'Mira/B-PER' on each line"),
    "cas.json": ('{"%TYPES": {}, "%FEATURE_STRUCTURES": []}', "a UIMA CAS file. Export .* CoNLL 2002"),
    "cas.xmi": ('<?xml version="1.0"?><xmi:XMI xmlns:cas=""/>', "a UIMA CAS file. Export .* CoNLL 2002"),
    "cats.json": ('[["a", {"cats": {"POS": 1}}]]', "labels of whole texts. Use text classification"),
    "empty.jsonl": ("\n", "is not JSON|has no rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kinds_of_files_say_what_to_do(tmp_path, name):
    content, message = WRONG[name]
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        read_tags(written(tmp_path, name, content))


def test_folders_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match="is a directory. Pass a file"):
        read_tags(tmp_path)
    written(tmp_path, "a.ann", "T1\tLOC 0 6\tLondon\n")
    with pytest.raises(InputError, match="anntoconll"):
        read_tags(tmp_path)


@pytest.mark.parametrize("name, form", [("doccano.jsonl", "json"), ("kaggle.csv", "table")])
def test_column_numbers_do_not_fit_other_forms(name, form):
    from keras_bert_impl.tasks import read_columns

    with pytest.raises(InputError, match=f"{name} is a table .{form}.. Use read_tags"):
        read_columns(EXPORTS / name)
    with pytest.raises(InputError, match="no column named|column 0|columns"):
        read_tags(EXPORTS / "doccano.jsonl", text="0", label="1")
    with pytest.raises(InputError, match="--text must be a column number .* Received: 'text'"):
        read_tags(EXPORTS / "inception.conll", text="text", label="spans")
