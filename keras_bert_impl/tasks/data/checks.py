"""Checks of labeled examples before training: labels, duplicates, leaks, HTML and skipped rows."""

import collections
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import shown
from keras_bert_impl.tasks.data.examples import LabeledExamples, segments_of
from keras_bert_impl.tasks.data.layout import count_reasons
from keras_bert_impl.tasks.data.splits import same_text

_HTML = re.compile(
    r"</?(p|br|div|span|a|b|i|em|strong|ul|ol|li|table|tr|td|h[1-6]|img|html|body|script|style)"
    r"\b[^<>]*>|&(nbsp|amp|lt|gt|quot|apos|#\d+|#x[0-9a-f]+);",
    re.IGNORECASE,
)
_PERCENTILES = (50, 90, 99)
_SHOWN = 8  # maximum number of labels or reasons per line
_COUNTED = ("classes", "numbers", "entities", "tags", "questions", "endings")


def similar_labels(names: Iterable[str]) -> list[list[str]]:
    groups = collections.defaultdict(list)
    for name in names:
        groups["".join(name.casefold().split())].append(name)
    return [group for group in groups.values() if len(group) > 1]


def count_html(texts: Iterable[Any]) -> int:
    return sum(any(map(_HTML.search, segments_of(text))) for text in texts)


def count_in_both(train: LabeledExamples, dev: LabeledExamples) -> int:
    """Counts the examples of `dev` whose text or context also occurs in `train`."""
    known = set(map(same_text, train.undivided))
    return sum(same_text(text) in known for text in dev.undivided)


def count_repeated(examples: LabeledExamples) -> tuple[int, int]:
    """Returns the number of duplicate texts, and how many of them have a different label."""
    first: dict[Any, Any] = {}
    repeated = different = 0
    for text, label in zip(examples.texts, examples.labels or [None] * len(examples)):
        key = same_text(text)
        if key in first:
            repeated, different = repeated + 1, different + (first[key] != label)
        else:
            first[key] = label
    return repeated, different


def percentiles(lengths: Sequence[int]) -> dict[str, int]:
    found = {str(n): int(np.percentile(lengths, n, method="higher")) for n in _PERCENTILES}
    return found | {"max": int(max(lengths))}


def advice(train: Any) -> list[str]:
    _, counts = train.label_counts()
    found = []
    for group in similar_labels(counts):
        names = ", ".join(f"{shown(name)} {counts[name]:,}" for name in group)
        found.append(f"classes differ in case or spaces only: {names}. Use one spelling.")
    facts = train.facts()
    if facts.get("invalid_entities"):
        found.append(
            f"{facts['invalid_entities']:,} entities do not follow the scheme "
            f"{facts['label_scheme']}, the first in {facts['first_invalid_entity']}. Check them."
        )
    different = count_repeated(train)[1]
    if different:
        found.append(f"{different:,} duplicate texts have different labels. Check them.")
    html = count_html(train.texts)
    if html:
        found.append(f"{html:,} texts have HTML tags or entities such as &nbsp;. Remove them.")
    return found


def token_numbers(lengths: Sequence[int], max_length: int, are_split: bool) -> dict[str, Any]:
    """Returns percentiles of the lengths in tokens, and the fraction of texts that are too long.

    Args:
        lengths: number of tokens of each sequence, including special tokens.
        max_length: maximum length of the model.
        are_split: whether longer texts are split into windows instead of truncated.
    """
    fraction = float(np.mean(np.array(lengths) > max_length))
    name = "split" if are_split else "truncated"
    return {"tokens": percentiles(lengths), "max_length": max_length, name: fraction}


def check_examples(
    train: LabeledExamples,
    dev: LabeledExamples | None = None,
    form: Mapping[str, Any] | None = None,
    tokens: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Counts labels, tokens and possible problems in labeled examples.

    Args:
        train: examples, read with `skip_bad_rows`.
        dev: validation set.
        form: encoding, delimiter and columns of the file.
        tokens: return value of `token_numbers`.
    """
    counted, labels = train.label_counts()
    repeated, different = count_repeated(train)
    return {
        "file": train.source,
        **(form or {}),
        "rows": len(train) + len(train.skipped),
        "usable": len(train),
        "skipped": count_reasons(train.skipped),
        counted or "classes": labels,
        "similar_labels": [] if counted == "numbers" else similar_labels(labels),
        **train.facts(),
        "repeated": repeated,
        "repeated_with_other_label": different,
        "words": percentiles([sum(len(part.split()) for part in row) for row in train.sequences]),
        **(tokens or {}),
        "html": count_html(train.inputs),
        "in_both": None if dev is None else count_in_both(train, dev),
    }


def lines_of(found: Mapping[str, Any]) -> list[str]:
    form = [found["encoding"]] if found.get("encoding") else []
    if found.get("delimiter"):
        marks = ("tab" if mark == "\t" else shown(mark) for mark in found["delimiter"])
        form.append(f"delimiter {' and '.join(marks)}")
    if found.get("columns"):
        form.append(f"columns {', '.join(map(shown, found['columns'][:20]))}")
    lines = [
        f"{found['file']}: {', '.join(form)}",
        f"rows: {found['rows']:,}, of which {found['usable']:,} can be used",
    ]
    if found["skipped"]:
        reasons = list(found["skipped"].items())[:_SHOWN]
        parts = (f"{count:,} ({reason.removesuffix('.')})" for reason, count in reasons)
        lines.append(f"skipped: {', '.join(parts)}")
    counted = next((name for name in _COUNTED if found.get(name)), None)
    if counted is not None:
        lines.append(f"{counted}: {counts_text(found[counted])}")
    for group in found["similar_labels"][:2]:
        counts = {name: found[counted][name] for name in group}
        lines.append(f"labels that differ in case or spaces only: {counts_text(counts)}")
    if "contexts" in found:
        lines.append(f"contexts: {found['contexts']:,}")
    if "label_scheme" in found:
        count, first = found["invalid_entities"], found.get("first_invalid_entity")
        invalid = f"{count:,} invalid entities, the first in {first}" if count else "valid"
        lines.append(f"label scheme: {found['label_scheme']}, {invalid}")
    if found["repeated"]:
        other = found["repeated_with_other_label"]
        lines.append(f"duplicate texts: {found['repeated']:,}, {other:,} with a different label")
    lines.append(f"words: {lengths_text(found['words'])}")
    if "tokens" in found:
        how = "split" if "split" in found else "truncated"
        long = f"{found[how]:.1%} are {'split into windows' if how == 'split' else how}"
        lines.append(
            f"tokens: {lengths_text(found['tokens'])}; max_length is {found['max_length']}, {long}"
        )
    if found["html"]:
        lines.append(f"HTML: {found['html']:,} texts have tags or entities such as &nbsp;")
    if found["in_both"]:
        what = (
            "contexts of {:,} validation questions"
            if "contexts" in found
            else "{:,} validation texts"
        )
        lines.append(f"leak: {what.format(found['in_both'])} are also in the training set")
    return lines


def lengths_text(lengths: Mapping[str, int]) -> str:
    limits = ", ".join(f"{n} % up to {lengths[str(n)]:,}" for n in _PERCENTILES)
    return f"{limits}, longest {lengths['max']:,}"


def counts_text(counts: Mapping[str, float]) -> str:
    shown_counts = [
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:g}"
        for name, value in list(counts.items())[:_SHOWN]
    ]
    more = len(counts) - len(shown_counts)
    return ", ".join([*shown_counts, f"and {more:,} more"] if more else shown_counts)
