"""Detects the format of a file of labeled words from its suffix and first lines."""

import itertools
import re
from pathlib import Path

from keras_bert_impl.data.tables.table_rows import ARROW, PARQUET
from keras_bert_impl.data.tables.tables import JSON
from keras_bert_impl.data.tags.reading.names import is_header
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import files_in, raw_lines, suffix_of
from keras_bert_impl.utils.io.paths import local_path

COLUMNS, CONLLU, TABLE, JSON_ROWS, ARROW_ROWS = "columns", "conllu", "table", "json", "arrow"
ONTONOTES = b"#begin document"  # first line of the CoNLL-2012 files
_SAMPLE = 40  # lines to read
_HTML = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_WORDS_OR_COLUMNS = "Expected a word and its label on each line, a table, or JSON; see docs/named-entity-recognition.md."
_DOCBIN = (
    "is a spaCy DocBin. Convert it to JSON lines: for doc in DocBin().from_disk(path).get_docs("
    "spacy.blank('en').vocab): print(json.dumps({'tokens': [t.text for t in doc], 'tags': "
    "[f'{t.ent_iob_}-{t.ent_type_}'.rstrip('-') for t in doc]}))"
)
_BRAT = (
    "contains brat annotations without their text. Convert the folder to CoNLL with brat's "
    "tools/anntoconll.py."
)
_CAS = "is a UIMA CAS file. Export from INCEpTION as CoNLL 2002 or CoNLL-U instead."
_PAIRS = re.compile(r"\S+([/_|])[^\s/_|]+(\s+\S+\1[^\s/_|]+)+\s*")
_WEBANNO = (
    "is a WebAnno TSV file. Export from WebAnno or INCEpTION as CoNLL 2002 or CoNLL-U instead."
)


def form_of(path: str | Path, delimiter: str | None = None, has_numbers: bool = False) -> str:
    suffix = suffix_of(path)
    folder = local_path(path)
    if folder.is_dir():
        has_brat = any(folder.glob("*.ann"))
        raise InputError(f"{path} {_BRAT if has_brat else 'is a directory.' + files_in(path)}")
    if suffix == ".spacy":
        raise InputError(f"{path} {_DOCBIN}")
    if suffix in (*PARQUET, *ARROW):
        return ARROW_ROWS
    lines = [line for _, line in itertools.islice(raw_lines(path), _SAMPLE)]
    first = next((line for line in lines if line.strip()), b"")
    _check_is_labeled_words(path, suffix, first, b"".join(lines[:2]))
    if suffix in JSON:
        if first.lstrip()[:1] not in (b"[", b"{"):
            raise InputError(
                f"{path} is not JSON, but starts with {_quote(first)}. If it has a word and its "
                "label on each line, name it .conll."
            )
        return JSON_ROWS
    if delimiter is not None or suffix == ".csv":
        return TABLE
    if suffix == ".conllu":
        return CONLLU
    if _is_json(first):
        return JSON_ROWS
    rows = [
        _decode_line(line) for line in lines if line.strip() and not line.startswith(b"-DOCSTART-")
    ]
    if rows and not has_numbers:
        if _has_word_numbers(rows):
            return CONLLU
        if is_header(rows[0].split("\t") if "\t" in rows[0] else rows[0].split()):
            return TABLE
    _check_has_no_commas(path, rows)
    if len(rows) > 1 and all(map(_PAIRS.fullmatch, rows)):
        raise InputError(
            f"{path} has a sentence of pairs such as {rows[0].split()[0]!r:.60} on each line. Write "
            "each word and its label on a separate line, and a blank line after each sentence."
        )
    return COLUMNS


def form_with_header(
    path: str | Path, text: str | None, label: str | None, delimiter: str | None, header: bool
) -> tuple[str, bool]:
    """Returns the format of a file, and whether its first line contains column names."""
    has_numbers = any(is_number(column) for column in (text, label))
    form = form_of(path, delimiter, has_numbers)
    if form == COLUMNS and has_sentence_rows(path):
        return TABLE, False
    if form == COLUMNS and _has_names_in_header(path, text, label):
        form = TABLE
    return form, header and form == TABLE and not has_numbers


def has_sentence_rows(path: str | Path) -> bool:
    """Returns whether each row is a sentence, a tab, and as many labels, separated by spaces."""
    lines = [
        _decode_line(line) for _, line in itertools.islice(raw_lines(path), _SAMPLE) if line.strip()
    ]
    rows = [[len(cell.split()) for cell in line.split("\t")] for line in lines]
    return all(len(row) == 2 and row[0] == row[1] for row in rows) and any(
        row[0] > 1 for row in rows
    )


def is_number(column: str | None) -> bool:
    return column is not None and column.removeprefix("-").isdecimal()


def _has_names_in_header(source, *columns):
    first = next((line for _, line in raw_lines(source) if line.strip()), b"")
    cells = first.decode("utf-8", "replace").split("\t" if b"\t" in first else None)
    names = {name for name in columns if name is not None and not is_number(name)}
    return bool(names) and names <= {cell.strip() for cell in cells}


def _check_is_labeled_words(path, suffix, first, start):
    if b"xmi:XMI" in start or b'"%FEATURE_STRUCTURES"' in start or b'"%TYPES"' in start:
        raise InputError(f"{path} {_CAS}")
    if _HTML.match(first):
        raise InputError(f"{path} is an HTML or XML page. {_WORDS_OR_COLUMNS}")
    if suffix == ".ann" or re.match(rb"[TREAN*]\d*\t\S+ \d+ \d+[;\t]", first):
        raise InputError(f"{path} {_BRAT}")
    if first.startswith(b"#FORMAT=WebAnno TSV"):
        raise InputError(f"{path} {_WEBANNO}")


def _is_json(first):
    """Returns whether a line starts a JSON object or array. A line such as `{ O` does not."""
    text = first.strip()
    return bool(re.match(rb'\{(\s*"|\s*$)|\[\s*([\[{"]|$)', text))


def _has_word_numbers(rows):
    cells = [row.split("\t") for row in rows if not row.startswith("#")][:5]
    numbers = [row[0] for row in cells if row[0].isdecimal()]
    return (
        bool(cells)
        and all(len(row) == 10 for row in cells)
        and numbers[:2] in (["1"], ["1", "2"], ["1", "1"])
    )


def _check_has_no_commas(path, rows):
    for mark in (",", ";"):
        counts = {row.count(mark) for row in rows}
        if len(rows) > 1 and "\t" not in rows[0] and len(counts) == 1 and counts != {0}:
            raise InputError(
                f"{path} looks like a table with the delimiter {mark!r}: {rows[0]!r:.60}"
                f". Pass delimiter={mark!r} (--delimiter {mark!r}), or name the file .csv."
            )


def _decode_line(line):
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _quote(line):
    return repr(_decode_line(line)[:40])
