"""Joins labeled examples from several files."""

import itertools
from collections.abc import Iterable
from typing import Any, TypeVar

from keras_bert_impl.data.tables.examples import LabeledExamples, check_read
from keras_bert_impl.data.tables.labels import sort_names
from keras_bert_impl.data.tables.layout import SKIP_HINT, warn_of_skipped
from keras_bert_impl.utils.errors import InputError

AnyExamples = TypeVar("AnyExamples", bound=LabeledExamples)
_FORM = ("encoding", "delimiter")  # options that may apply to some files only
_KINDS = {list: "a list of labels", float: "a number", type(None): "no label"}


def join_examples(parts: Iterable[AnyExamples]) -> AnyExamples:
    """Joins examples from several files into one set.

    Ids must be unique across all files. If the files were read with `skip_bad_rows`, examples with
    a duplicate id are skipped with a warning.

    Args:
        parts: list of examples that were read with the same function, such as `read_table`.

    Returns:
        All examples in order; `files` contains the file of each example.

    Raises:
        InputError: `parts` is not a list of examples, a file is passed twice, the files have
            different kinds of labels, or an id occurs twice.

    Example:
        from keras_bert_impl.tasks import join_examples, read_table
        files = "train.csv", "all.csv"
        train = join_examples([read_table(path, "text", label="label") for path in files])
    """
    argument: Any = parts
    is_one = isinstance(argument, (str, LabeledExamples))
    parts = [argument] if is_one else list(argument)
    for part in parts or [argument]:
        check_read(part)
    if len(parts) == 1:
        return parts[0]
    parts = [part.of_file(number) for number, part in enumerate(parts, 1)]
    first = parts[0]
    for number, part in enumerate(parts):
        _check_fits(part, parts[:number])
    fields: dict[str, Any] = {
        name: _join_column([getattr(part, name) for part in parts]) for name in first.columns
    }
    names = [getattr(part, "label_names", None) for part in parts]
    if any(label_names != names[0] for label_names in names):
        fields["label_names"] = sort_names(
            name for label_names in names for name in label_names or ()
        )
    if any(getattr(part, "is_impossible", None) is not None for part in parts):
        # SQuAD 1.1 does not have this column.
        fields["is_impossible"] = [not answers for answers in fields["answers"]]
    if len({getattr(part, "unit", None) for part in parts}) > 1:
        fields["unit"] = "row"
    joined = first.replace(
        **fields,
        source=", ".join(part.source for part in parts),
        files=[part.source for part in parts for _ in range(len(part))],
        skipped=tuple(itertools.chain.from_iterable(part.skipped for part in parts)),
        read_with=_read_with(parts),
    )
    return _ensure_unique_ids(joined)


def _check_fits(part, before):
    if part.read_with and part.source in [earlier.source for earlier in before]:
        raise InputError(f"{part.source} is passed twice.")
    for earlier in before[:1]:
        kind, earlier_kind = _label_kind(part), _label_kind(earlier)
        if kind != earlier_kind:
            raise InputError(
                f"{part.source} has {kind} per example, but {earlier.source} has {earlier_kind}."
            )
        if type(part) is not type(earlier):
            raise InputError(
                f"{part.source} contains {type(part).__name__}, but {earlier.source} contains "
                f"{type(earlier).__name__}."
            )


def _label_kind(examples):
    labels = getattr(examples, "labels", None)
    return _KINDS.get(type(labels and labels[0]), "one label")


def _join_column(parts):
    return None if None in parts else list(itertools.chain.from_iterable(parts))


def _read_with(parts):
    """Returns options for reading all files; None if the files require different options."""
    options = [part.read_with or {} for part in parts]
    shared = {
        name: next(filter(None, (read_with.get(name) for read_with in options)), None)
        for name in _FORM
        if name in options[0]
    }
    shared["dev"] = [read_with.get("dev") for read_with in options]
    first, *later = (read_with | shared for read_with in options)
    return (
        first
        if None not in shared["dev"] and all(read_with == first for read_with in later)
        else None
    )


def _ensure_unique_ids(examples):
    """Raises if two examples have the same id; with `skip_bad_rows`, drops the second example."""
    first: dict[str, int] = {}
    repeated = {}
    for number, name in enumerate(getattr(examples, "ids", None) or ()):
        if first.setdefault(name, number) != number:
            place, first_place = examples.where(number), examples.where(first[name])
            repeated[number] = f"{place}: id {name!r:.80} is already used in {first_place}."
    if not repeated:
        return examples
    if not (examples.read_with or {}).get("skip_bad_rows"):
        raise InputError(next(iter(repeated.values())) + SKIP_HINT)
    skipped = list(repeated.values())
    warn_of_skipped(examples.source, skipped)
    unique = examples.select([n for n in range(len(examples)) if n not in repeated])
    return unique.replace(skipped=(*examples.skipped, *skipped))
