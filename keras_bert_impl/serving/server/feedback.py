"""Stores and scores labels that clients send for earlier predictions."""

import collections
import csv
import datetime
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_bert_impl.serving.server.wire import ApiError, Arrays
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import parse_json

if TYPE_CHECKING:  # imports TensorFlow
    from keras_bert_impl.serving.server.model import Description, Model, Signature

# maximum number of stored responses, and of characters in their texts; a row counts as more
_MOST_REQUESTS, _MOST_TEXT, _ROW_SIZE = 100_000, 64 << 20, 128
_MOST_BYTES = 100 << 20  # maximum size of the file in bytes
_WINDOW = 1000  # number of recent labels per version that are scored
# columns of the file in addition to texts and labels
KEYS = ("prediction", "correct", "version", "time", "request_id")

_SUPPORTED = (
    "Feedback is supported only for the export of one text classifier, with string inputs and "
    "assets.extra/labels.json."
)

Labels = str | list[str]


class Scores(NamedTuple):
    rows: int
    accuracy: float
    macro_f1: float


class _Answer(NamedTuple):
    """The texts and predictions of a finished request.

    Attributes:
        labels: labels of the model. The model is not stored, so that the memory of old versions can
            be freed.
        labeled: indices of the rows for which a client has sent a label.
        size: number of characters in `texts`, plus `_ROW_SIZE` for each row.
    """

    version: int
    labels: list[str]
    columns: "_Columns"
    texts: list[tuple[str, ...]]
    predictions: list[Labels]
    labeled: set[int]
    size: int


class Feedback:
    """Appends labels for predictions to a JSON lines file for `finetune`.

    The class is not thread-safe.

    Args:
        path: file to append to; created if missing.
        report: function that is called after each label, with the model version and its `Scores`.
    """

    def __init__(self, path: str | Path, report: Callable[[int, Scores], None]) -> None:
        self._path = local_path(path).absolute()
        self._report = report
        self._answers: dict[str, _Answer] = {}  # request id -> stored response, oldest first
        self._size = 0  # characters of all responses
        self._windows: dict[int, collections.deque] = {}  # version -> pairs (labels, predictions)
        self._columns: _Columns | None = None  # columns of the file

    def check(self, model: "Model | Description") -> None:
        """Raises `ApiError` if labels for the predictions of a model cannot be stored."""
        columns = _Columns.of(model) if _can_store_feedback(model) else None
        if columns is None:
            text = f"--feedback: {_SUPPORTED} Leave out --feedback to serve this model."
        elif clashes := columns.names & set(KEYS):
            text = (
                f"--feedback: the training set must not have the columns {listed(clashes)}, which "
                "the feedback file uses."
            )
        elif self._columns not in (None, columns):
            text = (
                f"--feedback: the columns {listed(columns.names)} of assets.extra/columns.json "
                f"differ from {self._path}. Start the server with a new --feedback file."
            )
        else:
            return
        raise ApiError(text, "FAILED_PRECONDITION")

    def start(self, model: "Model") -> None:
        """Computes scores from the labels that are already in the file."""
        columns = self._columns = _Columns.of(model)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a+b") as file:  # The file is created if it is missing.
                file.seek(0)
                for line in file:
                    try:
                        row = json.loads(line)
                        pair = _make_set(columns.label_of(row)), _make_set(row["prediction"])
                        self._get_window(int(row["version"])).append(pair)
                    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
                        pass  # `finetune` reports such lines.
        except OSError as error:
            raise InputError(f"--feedback: cannot write {self._path}: {error.strerror}.") from error
        for version in self._windows:
            self._report(version, self._compute_scores(version))

    def remember(
        self, model: "Model", signature: "Signature", inputs: Arrays, outputs: Arrays
    ) -> str | None:
        """Stores the predictions of a text classifier. Returns a request id.

        Returns None for other models.
        """
        if not _is_classification(model, signature):
            return None
        texts = list(zip(*(map(_decode, inputs[name]) for name in sorted(inputs))))
        predictions: list[Labels]
        if "label" in outputs:
            predictions = list(map(_decode, outputs["label"]))
        else:
            predictions = [[_decode(label) for label in row if label] for row in outputs["labels"]]
        size = sum(_ROW_SIZE + sum(map(len, row)) for row in texts)
        name = uuid.uuid4().hex
        model_facts = model.version, model.decisions["labels"], _Columns.of(model)
        self._answers[name] = _Answer(*model_facts, texts, predictions, set(), size)
        self._size += size
        while len(self._answers) > _MOST_REQUESTS or self._size > _MOST_TEXT:
            self._size -= self._answers.pop(next(iter(self._answers))).size
        return name

    def add(self, body: bytes) -> str:
        """Stores the label of a feedback request. Returns the JSON body of the response."""
        request = _parse(body)
        name = request["request_id"]
        answer = self._answers.get(name)
        if answer is None:
            raise ApiError(
                f"Request id {shown(name)} is unknown. The server stores the last "
                f"{_MOST_REQUESTS} responses since its start.",
                "NOT_FOUND",
            )
        number = _check_row(request.get("row"), len(answer.texts))
        prediction, version = answer.predictions[number], answer.version
        label = _check_label(request["label"], answer.labels, prediction)
        if number in answer.labeled:
            raise ApiError(f"Row {number} of {name} already has a label.", "ALREADY_EXISTS")
        pair = _make_set(label), _make_set(prediction)
        is_correct = pair[0] == pair[1]
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        values = prediction, is_correct, version, now, name
        cells = answer.columns.cells(answer.texts[number], label)
        self._append(cells | dict(zip(KEYS, values)))
        answer.labeled.add(number)
        self._get_window(version).append(pair)
        self._report(version, self._compute_scores(version))
        return json.dumps({"label": label, "prediction": prediction, "correct": is_correct})

    def _append(self, row):
        """Appends a line to the file. If an error occurs, the file is unchanged."""
        line = json.dumps(row).encode("ascii") + b"\n"  # ASCII: the same bytes in any encoding
        try:
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                _wait_for_lock(file)
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":
                    line = b"\n" + line  # Another program may have left a line unfinished.
                if size + len(line) > _MOST_BYTES:
                    text = f"The feedback file has reached {_MOST_BYTES} bytes. Move it away."
                    raise ApiError(text, "RESOURCE_EXHAUSTED", 507)
                if os.write(file, line) < len(line):
                    os.ftruncate(file, size)
                    raise OSError("the disk is full")
            finally:
                os.close(file)
        except OSError as error:
            reason = error.strerror or error
            raise ApiError(f"The label was not stored: {reason}.", "INTERNAL") from error

    def _get_window(self, version):
        return self._windows.setdefault(version, collections.deque(maxlen=_WINDOW))

    def _compute_scores(self, version):
        pairs = self._get_window(version)
        true_counts, predicted_counts, hits = (collections.Counter[str]() for _ in range(3))
        for label, prediction in pairs:
            true_counts.update(label)
            predicted_counts.update(prediction)
            hits.update(label & prediction)
        names = true_counts | predicted_counts
        f1 = [2 * hits[name] / (true_counts[name] + predicted_counts[name]) for name in names]
        accuracy = sum(label == prediction for label, prediction in pairs) / len(pairs)
        return Scores(len(pairs), accuracy, sum(f1) / len(f1) if f1 else 1.0)


def _wait_for_lock(file):
    """Waits until no other server writes to a file."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):  # The system or the file system has no such locks.
        pass


class _Columns(NamedTuple):
    """Columns of the training set: text columns, and a label column or one column per label."""

    text: str
    pair: str
    label: str | list[str]

    @classmethod
    def of(cls, model):
        """Reads the columns from the export. Defaults: `text`, `pair` and `label`."""
        columns = model.columns
        label, labels = columns.get("label") or "label", model.decisions["labels"]
        names = next(csv.reader([label], skipinitialspace=True))
        label = labels if len(names) > 1 and set(names) == set(labels) else label
        return cls(columns.get("text") or "text", columns.get("pair") or "pair", label)

    @property
    def names(self):
        return {
            self.text,
            self.pair,
            *([self.label] if isinstance(self.label, str) else self.label),
        }

    def cells(self, texts: tuple[str, ...], label: Labels) -> dict[str, Any]:
        row: dict[str, Any] = dict(zip((self.text, self.pair), texts))
        if isinstance(self.label, str):
            return row | {self.label: label}
        return row | {name: int(name in label) for name in self.label}

    def label_of(self, row: dict[str, Any]) -> Labels:
        if isinstance(self.label, str):
            return row[self.label]
        return [name for name in self.label if row[name]]


def why_not_stored(model: "Model") -> str:
    """Returns the answer to a label for a server without a feedback file."""
    way_out = "Start it with --feedback FILE." if _can_store_feedback(model) else _SUPPORTED
    return f"This server stores no feedback. {way_out}"


def _can_store_feedback(model):
    return any(_is_classification(model, signature) for signature in model.signatures.values())


def _is_classification(model, signature):
    """Returns whether a signature predicts one or several labels of texts or text pairs."""
    takes_texts = set(signature.inputs) in ({"text"}, {"first", "second"})
    return (
        takes_texts
        and "labels" in model.decisions  # an export of several models has no common labels
        and ("label" in signature.outputs or set(signature.outputs) == {"labels", "scores"})
    )


def _parse(body):
    try:
        request = parse_json(body, "the request")
    except InputError as error:
        raise ApiError(f"JSON Parse error: {error}") from error
    needed, allowed = {"request_id", "label"}, {"request_id", "label", "row"}
    if not isinstance(request, dict) or not needed <= request.keys() <= allowed:
        raise ApiError(
            "Feedback is an object with 'request_id', 'label' and, for one of several instances, "
            f"'row'. Received: {shown(request)}"
        )
    if not isinstance(request["request_id"], str):
        raise ApiError(f"'request_id' must be a string, not {shown(request['request_id'])}.")
    return request


def _check_row(row, count):
    if row is None and count == 1:
        return 0
    if type(row) is not int or not 0 <= row < count:
        raise ApiError(f"'row' must be from 0 to {count - 1}. Received: {shown(row)}")
    return row


def _check_label(label, names, prediction):
    """Checks the label or labels of a client. Returns labels in the order of the model."""
    is_list = isinstance(prediction, list)
    if is_list != isinstance(label, list):
        raise ApiError(f"'label' must be {'a list of labels' if is_list else 'one label'}.")
    for label_name in label if is_list else [label]:
        if label_name not in names:
            raise ApiError(f"Label {shown(label_name)} is not one of {listed(names)}.")
    return [name for name in names if name in label] if is_list else label


def _make_set(labels):
    return {labels} if isinstance(labels, str) else set(labels)


def _decode(value):
    return value.decode("utf-8", "replace")
