"""The same labeled examples of each task, written in every form of file that people have."""

import csv
import io
import json

import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

from keras_bert_impl.tasks import read_choices, read_squad, read_table, read_tags
from tests.tasks.helpers import choices, examples, some_questions


class TaskData:
    """A task with rows for training and validation, and the options that read the rows.

    Args:
        name: value of `--task`; None for text classification.
        rows: list of dicts, one per example.
        options: reader options as {name: value}.
        forms: functions that return {suffix of the file: content} for a list of rows; by default,
            the forms of tables.
        read: reader of the Python API.
        columns: options that `predict` needs.
    """

    def __init__(self, name, rows, options, read, forms=None, columns=()):
        self.name, self.rows, self.options, self.read = name, rows, options, read
        self.forms = table_forms() if forms is None else forms
        self.columns = columns

    def arguments(self, verb):
        """Options of a command that reads labeled examples (`verb`) or texts (`predict`)."""
        options = {} if self.name is None or verb == "predict" else {"task": self.name}
        names = self.columns if verb == "predict" else self.options
        options |= {name: self.options[name] for name in names}
        words = []
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        return words

    def write(self, folder, form, rows, name):
        """Writes rows in a form; returns the path of the file."""
        suffix, content = self.forms[form]
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content(rows)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


# === Tables ===


def delimited(delimiter, header=True):
    def content(rows):
        file = io.StringIO()
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        if header:
            writer.writerow(rows[0])
        writer.writerows(map(_cells, rows))
        return file.getvalue()

    return content


def _cells(row):
    return ["|".join(value) if isinstance(value, list) else value for value in row.values()]


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def arrow_table(rows):
    return pyarrow.Table.from_pylist(rows)


def parquet(rows):
    file = io.BytesIO()
    pyarrow.parquet.write_table(arrow_table(rows), file)
    return file.getvalue()


def arrow_stream(rows):
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, arrow_table(rows).schema) as writer:
        writer.write_table(arrow_table(rows))
    return file.getvalue()


def feather(rows):
    file = io.BytesIO()
    pyarrow.feather.write_feather(arrow_table(rows), file)
    return file.getvalue()


RECORDS = {
    "jsonl": (".jsonl", json_lines),
    "json": (".json", json.dumps),
    "parquet": (".parquet", parquet),
    "arrow": (".arrow", arrow_stream),
    "feather": (".feather", feather),
}


def table_forms():
    text = {"csv": (".csv", delimited(",")), "tsv": (".tsv", delimited("\t"))}
    return text | {"semicolons": (".csv", delimited(";"))} | RECORDS


# === Words with labels ===


def conll(rows):
    return "\n".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(row["tokens"], row["ner_tags"]))
        for row in rows
    )


def words_in_rows(rows):
    cells = [
        {"Sentence #": number, "Word": word, "Tag": tag}
        for number, row in enumerate(rows)
        for word, tag in zip(row["tokens"], row["ner_tags"])
    ]
    return delimited(",")(cells)


def offsets(rows):
    """Rows as doccano writes them: a text, and the offsets of its entities."""
    return json_lines({"text": " ".join(row["tokens"]), "label": _spans(row)} for row in rows)


def _spans(row):
    start, spans = 0, []
    for word, tag in zip(row["tokens"], row["ner_tags"]):
        if tag != "O":
            spans.append([start, start + len(word), tag.removeprefix("B-")])
        start += len(word) + 1
    return spans


TAGS = {
    "conll": (".conll", conll),
    "words": (".csv", words_in_rows),
    "offsets": (".jsonl", offsets),
} | RECORDS


# === Questions ===


def squad(rows):
    paragraphs = [
        {"context": row["context"], "qas": [row | {"answers": _answers(row["answers"])}]}
        for row in rows
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "films", "paragraphs": paragraphs}]})


def _answers(columns):
    return [
        {"text": text, "answer_start": start}
        for text, start in zip(columns["text"], columns["answer_start"])
    ]


def flat_questions(rows):
    return delimited(",")(
        [
            {
                "id": row["id"],
                "question": row["question"],
                "context": row["context"],
                "answer_text": row["answers"]["text"][0],
                "answer_start": row["answers"]["answer_start"][0],
            }
            for row in rows
        ]
    )


# === Choices ===


def swag(rows):
    return delimited(",")(
        [
            {"startphrase": row["prompt"]}
            | {f"ending{number}": ending for number, ending in enumerate(row["endings"])}
            | {"label": row["answer"]}
            for row in rows
        ]
    )


def codah(rows):
    return "".join(
        "\t".join(["c", row["prompt"], *row["endings"], str(row["answer"])]) + "\n" for row in rows
    )


# === Tasks ===


def _classified(count=40):
    return [{"text": text, "label": label} for text, label in zip(*examples(count))]


def _labeled_twice():
    rows = _classified()
    return [
        row | {"label": [row["label"]] + (["long"] if len(row["text"]) > 30 else [])}
        for row in rows
    ]


def _pairs(label):
    texts, labels = examples(80)
    rows = [{"first": first, "second": second} for first, second in zip(texts[::2], texts[1::2])]
    if not label:
        return rows
    same = [a == b for a, b in zip(labels[::2], labels[1::2])]
    return [
        row | {"score": 0.1 * number % 1 + is_same}
        for number, (row, is_same) in enumerate(zip(rows, same))
    ]


def _tagged():
    rows = []
    for text, _ in zip(*examples(40)):
        words = text.split()
        rows.append(
            {
                "tokens": words,
                "ner_tags": [
                    "B-GOOD" if word in ("good", "great", "joy") else "O" for word in words
                ],
            }
        )
    return rows


def _asked():
    pairs, answers = some_questions(40)
    return [
        {
            "id": str(number),
            "question": question,
            "context": context,
            "answers": {"text": [text], "answer_start": [start]},
        }
        for number, ((question, context), (text, start)) in enumerate(zip(pairs, answers))
    ]


def _chosen():
    rows = []
    for (prompt, endings), answer in zip(*choices(40)):
        endings = (endings + ["a film", "the plot", "what"])[:4]
        rows.append({"prompt": prompt, "endings": endings, "answer": answer})
    return rows


def read_pairs(source, text, pair, label=None, **options):
    from keras_bert_impl.tasks import AnchorExamples, SimilarityExamples

    examples = read_table(source, text, pair, label, numeric=label is not None, **options)
    return (SimilarityExamples if label else AnchorExamples).of(examples)


def tasks():
    """Returns {name of the case: `TaskData`}."""
    text_label = {"text": "text", "label": "label"}
    numbers = [
        {"text": row["text"], "label": len(row["text"].split()) / 4} for row in _classified()
    ]
    separator = {"label_separator": "|"}
    return {
        "classes": TaskData(None, _classified(), text_label, read_table, columns=["text"]),
        "several labels": TaskData(
            None, _labeled_twice(), text_label | separator, read_table, columns=["text"]
        ),
        "numbers": TaskData(
            None, numbers, text_label | {"regression": True}, read_table, columns=["text"]
        ),
        "tags": TaskData("tagging", _tagged(), {}, read_tags, TAGS),
        "questions": TaskData(
            "squad",
            _asked(),
            {},
            read_squad,
            {"squad": (".json", squad), "csv": (".csv", flat_questions)} | RECORDS,
        ),
        "choices": TaskData(
            "choice",
            _chosen(),
            {},
            read_choices,
            {"swag": (".csv", swag), "codah": (".tsv", codah)} | RECORDS,
        ),
        "similar": TaskData(
            "similarity",
            _pairs(True),
            {"text": "first", "pair": "second", "label": "score"},
            read_pairs,
            columns=["text", "pair"],
        ),
        "anchors": TaskData(
            "similarity",
            _pairs(False),
            {"text": "first", "pair": "second"},
            read_pairs,
            columns=["text", "pair"],
        ),
    }
