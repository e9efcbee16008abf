"""Kinds of files for `tests.mutated_files`: sound files in a folder, and what reads them.

`KINDS` maps a name to a function of a folder. It writes the files and returns (names of those to
change, function that reads the folder).
"""

import bz2
import contextlib
import functools
import gzip
import json
import lzma
import tempfile
from pathlib import Path

from keras_bert_impl.utils.errors import InputError
from tests import hostile_readers as hostile
from tests import mutated_exports as exports
from tests import mutated_models as models

ROWS = [
    ("a film, good", "pos", "7", ["pos"]),
    ('a "bad" film', "neg", "8", ["neg", "pos"]),
    ("größe 😀", "pos", "9", []),
    ("", "neg", "10", ["neg"]),
]
TEXT = "One sentence here.\nAnother one, too.\n\nA second document 😀.\n"
CONLL = "-DOCSTART- O\n\nEU B-ORG\nrejects O\nGerman B-MISC\ncall I-MISC\n\nAnn B-PER\n. O\n"
CONLLU = (
    "# sent_id = 1\n# text = They buy\n1\tThey\tthey\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_\n"
    "2-3\tbuys\t_\t_\t_\t_\t_\t_\t_\t_\n2\tbuy\tbuy\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
)
BRAT = "T1\tPER 0 3\tAnn\nT2\tLOC 13 17\tRome\n"  # always rejected
SPANS = [
    {"text": "Ann lives in Rome.", "label": [[0, 3, "PER"], [13, 17, "LOC"]]},
    {"text": "Nobody.", "label": []},
]
WORDS = [
    {"tokens": ["Ann", "left"], "ner_tags": ["B-PER", "O"]},
    {"tokens": ["x"], "ner_tags": ["O"]},
]
ANNOTATIONS = Path(__file__).parent / "fixtures" / "annotations"
QUESTION = {"id": "1", "question": "who", "answers": [{"text": "Ada", "answer_start": 0}]}
SQUAD = [{"title": "t", "paragraphs": [{"context": "Ada wrote.", "qas": [QUESTION]}]}]
RECIPE = "# a run\nmodel: bert-base-uncased\nlearning_rate: 3.0e-5\nepochs: 3\nlabels: [a, b]\n"
RECIPE += "adapter: {kind: lora, size: 8}\nseed: 0\nname: 'x'\n"

# === Tables and texts ===


def csv_text():
    lines = ["text,label,id"]
    for text, label, number, _ in ROWS:
        quoted = text.replace('"', '""')
        lines.append(f'"{quoted}",{label},{number}')
    return "\n".join(lines) + "\n"


def tsv_text():
    return "text\tlabel\tid\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c, _ in ROWS)


def rows():
    return [
        {
            "text": text,
            "label": label,
            "id": int(number),
            "labels": labels,
            "cats": {"a": 1, "b": 0},
        }
        for text, label, number, labels in ROWS
    ]


def _all(*reads):
    """Calls all functions; raises the `InputError` of the first, or one that names no file."""
    for read in reads[1:]:
        try:
            read()
        except InputError as error:
            if "/" not in str(error):
                raise
    reads[0]()


def read_tables(path):
    from keras_bert_impl.data.tables.layout import Layout
    from keras_bert_impl.data.tables.tables import check_columns, table_columns
    from keras_bert_impl.runs.prediction_table import count_rows, read_rows
    from keras_bert_impl.tasks import read_table

    layout = Layout("text", id="id", allow_empty=True)
    options = {"allow_empty": True, "skip_bad_rows": True}
    reads = [
        lambda: read_table(path, "text", label="label", id="id", allow_empty=True),
        lambda: read_table(path, "text", "id", "label", **options),
        lambda: read_table(path, "text", label="id", numeric=True, **options),
        lambda: read_table(path, "0", label="1", header=False, label_separator=",", **options),
        lambda: table_columns(path),
        lambda: check_columns(path, layout),
        lambda: count_rows(path, layout),
        lambda: list(read_rows(path, layout)),
    ]
    if path.suffix not in (".csv", ".tsv", ".gz", ".xz", ".bz2"):
        reads.append(lambda: read_table(path, "text", label="labels", **options))
        reads.append(lambda: read_table(path, "text", label="cats", **options))
        reads.append(lambda: read_table(path, "text", label="cats.a", **options))
    _all(*reads)


def table(name, content):
    def make(folder):
        (folder / name).write_bytes(content())
        return [name], lambda folder: read_tables(folder / name)

    return make


def encoded(function, coding="utf-8"):
    return lambda: function().encode(coding)


def json_lines():
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


def arrow(write):
    import pyarrow

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        write(pyarrow.Table.from_pylist(rows()), path)
        return path.read_bytes()


def parquet():
    from pyarrow import parquet

    return arrow(functools.partial(parquet.write_table, compression="zstd"))


def feather():
    from pyarrow import feather

    return arrow(functools.partial(feather.write_feather, compression="lz4"))


def file(name, content, read):
    """Returns a kind with one file, which `read` takes."""

    def make(folder):
        (folder / name).write_text(content, encoding="utf-8")
        return [name], lambda folder: read(folder / name)

    return make


def read_corpus(path):
    from keras_bert_impl.data.tables.tables import text_lines
    from keras_bert_impl.pretraining import read_documents
    from keras_bert_impl.tasks.embedding.vectors import read_texts

    formats = ("auto", "sentences", "wikiextractor", "jsonl", "files")
    _all(
        *(functools.partial(_listed, read_documents, path, form) for form in formats),
        lambda: list(text_lines(path)),
        lambda: list(read_texts(path, unit="file")),
    )


def _listed(function, *arguments):
    return list(function(*arguments))


def read_tagged(path):
    from keras_bert_impl.tasks import read_columns, read_conllu, read_tags

    _all(
        lambda: read_tags(path),
        lambda: read_tags(path, skip_bad_rows=True),
        lambda: read_columns(path, skip_bad_rows=True),
        lambda: read_conllu(path, skip_bad_rows=True),
    )


def read_brat(path):
    _all(lambda: None, lambda: read_tagged(path))


def annotations(path):
    """Returns the kind of a file with annotations, made by another program."""
    return file(path.name, path.read_text(encoding="utf-8"), read_tagged)


def read_questions(path):
    from keras_bert_impl.tasks import read_squad

    _all(lambda: read_squad(path), lambda: read_squad(path, skip_bad_rows=True))


def read_answers(path):
    from keras_bert_impl.tasks import read_choices

    _all(lambda: read_choices(path), lambda: read_choices(path, skip_bad_rows=True))


SWAG = "id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
SWAG += '1,A man sits.,"A man, old,",sings.,reads.,eats.,runs.,2\n'
CHOICE = [
    {"prompt": "I am", "endings": ["a", "b"], "answer": 1},
    {"prompt": "x", "endings": ["y", "z"], "answer": 0},
]

# === Kinds ===


def from_hostile(name):
    """Returns the kind of some files of JSON that `hostile_readers` has."""

    def make(folder):
        prepare, read = hostile.READERS[name]
        contents = prepare(folder)
        for file, content in contents.items():
            hostile.write(folder, file, json.dumps(content).encode())
        return list(contents), read

    return make


def read_recipe(path):
    from keras_bert_impl.utils.io.reading import read_yaml

    read_yaml(path)


KINDS = {
    "csv": table("a.csv", encoded(csv_text)),
    "csv of UTF-16": table("b.csv", encoded(csv_text, "utf-16")),
    "csv.gz": table("a.csv.gz", lambda: gzip.compress(csv_text().encode(), mtime=0)),
    "csv.bz2": table("a.csv.bz2", lambda: bz2.compress(csv_text().encode())),
    "csv.xz": table("a.csv.xz", lambda: lzma.compress(csv_text().encode())),
    "tsv": table("a.tsv", encoded(tsv_text)),
    "jsonl": table("a.jsonl", encoded(json_lines)),
    "json": table("a.json", lambda: json.dumps(rows(), indent=1).encode()),
    "parquet": table("a.parquet", parquet),
    "arrow": table("a.arrow", feather),
    "text": file("a.txt", TEXT, read_corpus),
    "corpus.jsonl": file("t.jsonl", '{"text": "t", "more": {"a": 1}}\n' * 2, read_corpus),
    "wikiextractor": file("w.txt", f'<doc id="1" title="T">\nT\n{TEXT}</doc>\n', read_corpus),
    "conll": file("a.conll", CONLL, read_tagged),
    "brat": file("a.ann", BRAT, read_brat),
    "conllu": file("a.conllu", CONLLU, read_tagged),
    "spans": file("s.jsonl", "".join(json.dumps(span) + "\n" for span in SPANS), read_tagged),
    **{f"annotations {path.name}": annotations(path) for path in sorted(ANNOTATIONS.iterdir())},
    "lists of words": file("w.json", json.dumps(WORDS), read_tagged),
    "squad": file("q.json", json.dumps({"data": SQUAD}, indent=1), read_questions),
    "swag.csv": file("c.csv", SWAG, read_answers),
    "choices.jsonl": file("c.jsonl", "".join(json.dumps(c) + "\n" for c in CHOICE), read_answers),
    "recipe.yaml": file("recipe.yaml", RECIPE, read_recipe),
    **{f"values of {name}": from_hostile(name) for name in hostile.READERS},
    "vocab.txt": models.vocabulary,
    "merges.txt": models.merges,
    "spiece.model": models.sentence_piece,
    "model.safetensors": models.safetensors_file,
    "pytorch_model.bin": functools.partial(models.torch_file, True),
    "pytorch_model.bin, old": functools.partial(models.torch_file, False),
    "ckpt.index": models.checkpoint,
    "weights.h5": models.keras_weights,
    "tf_model.h5": models.tensorflow_file,
    "flax_model.msgpack": models.flax_file,
    "model.keras": models.keras_file,
    "vectors.npy": models.vectors,
    "records": models.records,
    "SavedModel": exports.saved_model,
    "requests": exports.requests,
    "hub SavedModel": functools.partial(exports.hub_module, "hub_bert_1"),
    "hub module": functools.partial(exports.hub_module, "module_bert"),
    "adapter of AdapterHub": functools.partial(exports.adapter, "pfeiffer"),
    "adapter.bin": functools.partial(exports.adapter, "houlsby"),
    "files of a run": exports.run_files,
}
GRAPHS = {"SavedModel", "requests"}  # These run graphs of TensorFlow.


@functools.cache
def sound_files() -> list[bytes]:
    """Returns files of other kinds, whose parts replace those of a file."""
    plain = [csv_text(), json_lines(), CONLL, CONLLU, RECIPE, TEXT, json.dumps(SQUAD)]
    with contextlib.suppress(ImportError):
        return [
            *(text.encode() for text in plain),
            gzip.compress(TEXT.encode(), mtime=0),
            parquet(),
        ]
    return [text.encode() for text in plain]
