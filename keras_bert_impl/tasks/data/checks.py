"""Checks of labeled texts before training: labels, duplicates, leaks, HTML and skipped rows."""

import collections
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import shown
from keras_bert_impl.tasks.data.examples import Examples, LabeledExamples
from keras_bert_impl.tasks.data.layout import count_reasons
from keras_bert_impl.tasks.data.splits import same_text

_HTML = re.compile(
    r"</?(p|br|div|span|a|b|i|em|strong|ul|ol|li|table|tr|td|h[1-6]|img|html|body|script|style)"
    r"\b[^<>]*>|&(nbsp|amp|lt|gt|quot|apos|#\d+|#x[0-9a-f]+);",
    re.IGNORECASE,
)
_PERCENTILES = (50, 90, 99)


def similar_labels(names: Iterable[str]) -> list[list[str]]:
    """Returns the groups of names that differ in case and white space only."""
    groups = collections.defaultdict(list)
    for name in names:
        groups["".join(name.casefold().split())].append(name)
    return [group for group in groups.values() if len(group) > 1]


def count_html(texts: Iterable[Any]) -> int:
    """Returns the number of texts or pairs with HTML tags or entities such as `&nbsp;`."""
    return sum(any(map(_HTML.search, _parts(text))) for text in texts)


def count_in_both(train: LabeledExamples, dev: LabeledExamples) -> int:
    """Returns the number of examples of `dev` with a text of `train`, ignoring case."""
    known = set(map(same_text, train.inputs))
    return sum(same_text(text) in known for text in dev.inputs)


def count_repeated(examples: Examples) -> tuple[int, int]:
    """Returns (texts that repeat an earlier one, and how many have another label)."""
    first: dict[Any, Any] = {}
    repeated = different = 0
    for text, label in zip(examples.texts, examples.labels or [None] * len(examples)):
        key = same_text(text)
        if key in first:
            repeated, different = repeated + 1, different + (first[key] != label)
        else:
            first[key] = label
    return repeated, different


def count_words(texts: Iterable[Any]) -> dict[str, int]:
    """Returns percentiles and the maximum of the lengths of texts in words, of white space."""
    lengths = [sum(len(part.split()) for part in _parts(text)) for text in texts]
    found = {str(n): int(np.percentile(lengths, n, method="higher")) for n in _PERCENTILES}
    return found | {"max": max(lengths)}


def advice(train: Any) -> list[str]:
    """Returns warnings about the texts and classes of a training set; a sentence each."""
    _, counts = train.label_counts()
    found = []
    for group in similar_labels(counts):
        names = ", ".join(f"{shown(name)} {counts[name]:,}" for name in group)
        found.append(f"classes differ in case or spaces only: {names}. Write each in one way.")
    different = count_repeated(train)[1]
    if different:
        found.append(f"{different:,} texts repeat another one with another label. Check them.")
    html = count_html(train.texts)
    if html:
        found.append(f"{html:,} texts have HTML tags or entities such as &nbsp;. Remove them.")
    return found


def _parts(text):
    return (text,) if isinstance(text, str) else text


def check_table(
    columns: list[str], train: Examples, dev: Examples | None = None, encoding: str | None = None
) -> dict[str, Any]:
    """Returns what is in a table of labeled texts, and what may spoil a model, as numbers.

    Args:
        columns: names of the columns of the file.
        train: its examples, read with `skip_bad_rows`.
        dev: validation set.
        encoding: of the file; None for UTF-8.
    """
    counted, labels = train.label_counts()
    repeated, different = count_repeated(train)
    return {
        "file": train.source,
        "encoding": encoding or "utf-8",
        "columns": columns,
        "rows": len(train) + len(train.skipped),
        "usable": len(train),
        "skipped": count_reasons(train.skipped),
        counted or "classes": labels,
        "similar_labels": similar_labels(labels) if counted == "classes" else [],
        "repeated": repeated,
        "repeated_with_other_label": different,
        "words": count_words(train.texts),
        "html": count_html(train.texts),
        "in_both": None if dev is None else count_in_both(train, dev),
    }


def lines_of(found: Mapping[str, Any], most: int = 8) -> list[str]:
    """Returns the result of `check_table` as lines of text, ten or fewer."""
    lines = [
        f"{found['file']}: {found['encoding']}, columns {', '.join(map(shown, found['columns'][:20]))}",
        f"rows: {found['rows']:,}, of which {found['usable']:,} can be used",
    ]
    if found["skipped"]:
        reasons = list(found["skipped"].items())[:most]
        parts = (f"{count:,} ({reason.removesuffix('.')})" for reason, count in reasons)
        lines.append(f"skipped: {', '.join(parts)}")
    for name in ("classes", "numbers"):
        if found.get(name):
            lines.append(f"{name}: {_counts(found[name], most)}")
    for group in found["similar_labels"][:2]:
        counts = {name: found["classes"][name] for name in group}
        lines.append(f"labels that differ in case or spaces only: {_counts(counts, most)}")
    if found["repeated"]:
        other = found["repeated_with_other_label"]
        lines.append(f"repeated texts: {found['repeated']:,}, {other:,} with another label")
    words = found["words"]
    shares = ", ".join(f"{n} % up to {words[str(n)]}" for n in _PERCENTILES)
    lines.append(f"words: {shares}, longest {words['max']:,}")
    if found["html"]:
        lines.append(f"HTML: {found['html']:,} texts have tags or entities such as &nbsp;")
    if found["in_both"]:
        lines.append(f"leak: {found['in_both']:,} validation texts are also in the training set")
    return lines


def _counts(counts, most):
    shown_counts = [
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:g}"
        for name, value in list(counts.items())[:most]
    ]
    more = len(counts) - len(shown_counts)
    return ", ".join([*shown_counts, f"and {more:,} more"] if more else shown_counts)
