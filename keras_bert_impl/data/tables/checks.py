"""Checks of labeled examples before training: labels, texts, duplicates, leaks and skipped rows."""

import collections
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_impl.data.tables.examples import LabeledExamples, plain_name, segments_of
from keras_bert_impl.data.tables.layout import count_reasons
from keras_bert_impl.data.tables.splits import same_text
from keras_bert_impl.data.tables.token_lengths import TokenCounts, sample_of
from keras_bert_impl.utils.errors import InputError, listed, shown

_HTML = re.compile(
    r"</?(p|br|div|span|a|b|i|em|strong|ul|ol|li|table|tr|td|h[1-6]|img|html|body|script|style)"
    r"\b[^<>]*>|&(nbsp|amp|lt|gt|quot|apos|#\d+|#x[0-9a-f]+);",
    re.IGNORECASE,
)
_UNKNOWN = 0.05  # fraction of unknown tokens that causes a remark
_MISSING = {"nan", "NaN", "NaT", "None", "null", "NULL", "NA", "N/A", "<NA>"}  # written by tools
_FEW = 10  # with fewer examples, equal texts or different labels are no surprise
_PERCENTILES = (50, 90, 99)
_SHOWN = 8  # maximum number of labels or reasons per line
_ONLY = "occurs only in the training set", "occur only in the training set"
_COUNTED = ("classes", "numbers", "entities", "tags", "questions", "endings")


def similar_labels(names: Iterable[str]) -> list[list[str]]:
    groups = collections.defaultdict(list)
    for name in names:
        groups[plain_name(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def count_html(texts: Iterable[Any]) -> int:
    parts = (text if isinstance(text, str) else "\n".join(segments_of(text)) for text in texts)
    return sum(1 for text in parts if ("<" in text or "&" in text) and _HTML.search(text))


def count_in_both(train: LabeledExamples, dev: LabeledExamples) -> int:
    """Counts the examples of `dev` whose text or context also occurs in `train`."""
    train_keys = set(map(same_text, train.undivided))
    return sum(same_text(text) in train_keys for text in dev.undivided)


def count_repeated(examples: LabeledExamples) -> tuple[int, int]:
    """Returns the number of duplicate texts, and how many of them have a different label."""
    keys = list(map(same_text, examples.texts))
    if len(set(keys)) == len(keys):
        return 0, 0
    first: dict[Any, Any] = {}
    repeated = different = 0
    for key, label in zip(keys, examples.labels or [None] * len(examples)):
        if key in first:
            repeated, different = repeated + 1, different + (first[key] != label)
        else:
            first[key] = label
    return repeated, different


def percentiles(lengths: Sequence[int]) -> dict[str, int]:
    limits = {str(n): int(np.percentile(lengths, n, method="higher")) for n in _PERCENTILES}
    return limits | {"max": int(max(lengths))}


# === Remarks ===


def check_learnable(train: LabeledExamples) -> None:
    """Raises `InputError` if all labels are equal, so that a model has nothing to learn."""
    remark = next(_describe_equal_labels(*train.label_counts()), None)
    if remark:
        raise InputError(f"{train.source}: {remark}")


def remarks(train: LabeledExamples, dev: LabeledExamples | None = None) -> list[str]:
    """Returns a sentence for each odd property of the examples, for every task.

    The texts are checked in a sample of 10,000 examples.
    """
    kind, counts = train.label_counts()
    kind_of_dev, dev_counts = (None, {}) if dev is None else dev.label_counts()
    sentences = [*_describe_equal_labels(kind, counts)]
    if kind in ("classes", "entities", "tags"):
        # Entity labels without an entity are tags.
        sentences += _describe_odd_classes(
            counts, dev_counts if kind_of_dev == kind else {}, len(train)
        )
    if dev is not None:
        sentences += gaps_of(dev, kind, counts)
    sample = [train.inputs[number] for number in sample_of(len(train))]
    sentences += _describe_odd_texts(sample)
    if not hasattr(train, "contexts"):  # many questions may have the same context
        sentences += _describe_equal_texts(sample)
    return sentences + train.remarks()


def _describe_equal_labels(kind, counts):
    if kind == "numbers" and counts["min"] == counts["max"]:
        yield f"all labels are {counts['min']:g}, so a model has nothing to learn."
    if kind == "classes" and counts and not any(counts.values()):
        yield "no text has a label. In the label columns, write 1 for each label of a text."


def _describe_odd_classes(train, dev, num_examples):
    missing = [name for name, count in dev.items() if count and not train.get(name)]
    if missing:
        verb = "occurs" if len(missing) == 1 else "occur"
        yield f"{_format_names(missing)} {verb} only in the validation set. Add training examples."
    if num_examples >= _FEW and len(train) > 0.9 * num_examples:
        yield (
            f"the {num_examples:,} examples have {len(train):,} different labels, as in a column "
            "of ids. Check the label column."
        )
        return
    never = [name for name, count in train.items() if not count and not dev.get(name)]
    if never:
        yield f"no example has the label {_format_names(never)}. Add examples, or remove the label."
    missing = [name for name in train if name in _MISSING]
    if missing:
        yield (
            f"{_format_names(missing)} may mean that the label is missing. If so, leave the cells empty, "
            "and pass --skip-bad-rows."
        )
    single = [name for name, count in train.items() if count == 1]
    if single:
        verb = "has" if len(single) == 1 else "have"
        yield f"{_format_names(single)} {verb} one training example. Add some, or merge classes."


def _describe_odd_texts(inputs):
    """Yields remarks on a sample of inputs, which may have several segments."""
    segments = list(map(segments_of, inputs))
    without = sum(not any(map(str.isalpha, "".join(row))) for row in segments)
    if without > len(inputs) / 2:
        yield (
            f"{without / len(inputs):.0%} of the texts contain no letter, as in a column of ids or "
            "numbers. Check the text column."
        )
    texts = [part.strip() for row in segments for part in row]
    quoted = [text for text in texts if len(text) > 2 and text[0] == text[-1] in "\"'"]
    if len(quoted) > 0.9 * len(texts):
        yield (
            f"the texts are in quotes, such as {shown(quoted[0])}, and the quotes are read as "
            "part of the texts. In CSV, use double quotes, without a space before them."
        )


def _describe_equal_texts(inputs):
    # A tuple is a pair of texts or a prompt with its endings, a list is words.
    segments = [row if isinstance(row, tuple) else (_join_words(row),) for row in inputs]
    if len(inputs) < _FEW or not all(isinstance(part, str) for row in segments for part in row):
        return
    equal = sum(len(row) > 1 and row[0] == row[1] for row in segments)
    if equal > len(inputs) / 2:
        yield f"{equal / len(inputs):.0%} of the pairs are the same text twice. Check the columns."
    names = ("first", "second", "third") if isinstance(inputs[0], tuple) else ("",)
    for name, column in zip(names, zip(*segments)):
        if len(set(column)) == 1:
            subject = f"the {name} texts of all pairs" if name else "all texts"
            yield f"{subject} are {shown(column[0])}. Check the column."


def _join_words(text):
    return text if isinstance(text, str) else " ".join(text)


def gaps_of(examples: Any, kind: str | None, labels: Iterable[str] = ()) -> list[str]:
    """Returns sentences about labels and predictions that scores on the examples do not cover.

    Args:
        examples: labeled examples to compute scores on.
        kind: kind of labels of the training set; see `LabeledExamples.label_counts`.
        labels: labels of the training set, such as classes or entity types.

    Example:
        from keras_bert_impl.tasks import Examples
        from keras_bert_impl.data.tables.checks import gaps_of
        len(gaps_of(Examples(["dull"], ["bad"]), "classes", ["bad", "good"]))  # 1
    """
    kind_of_examples, counts = examples.label_counts()
    if kind == "tags" and set(counts) <= {"O", "o"}:
        kind = "entities"
    counts = counts if kind_of_examples == kind else {}
    if kind == "numbers" and counts and counts["min"] == counts["max"]:
        return [
            f"all labels of the validation set are {counts['min']:g}, so correlations are "
            "undefined. Use a validation set with different labels."
        ]
    if kind == "entities" and not any(counts.values()):
        return [
            "the validation set contains no entity, so F1 is 0 or undefined for every model. Use "
            "a validation set with entities."
        ]
    if kind == "classes" and not any(counts.values()):
        return [
            "no example of the validation set has a label, so F1 is 0 or undefined for every "
            "model. Use a validation set with labels."
        ]
    if kind == "questions" and not all(counts.get(name) for name in labels):
        (absent,) = (name for name in labels if not counts.get(name))
        has = "an answer" if absent.startswith("with ") else "no answer"
        return [f"no question of the validation set has {has}. The scores do not cover this case."]
    if kind == "endings" and len(set(examples.labels or ())) == 1 < len(examples):
        return [
            f"ending {examples.labels[0] + 1} is always the right one in the validation set, so "
            "the accuracy does not show whether the model reads the texts. Shuffle the endings."
        ]
    missing = [name for name in labels if not counts.get(name)]
    if kind not in ("classes", "entities", "tags") or not missing:
        return []
    return [
        f"{listed(missing)} {_ONLY[len(missing) > 1]}, so the scores do not cover "
        f"{'it' if len(missing) == 1 else 'them'}. Add validation examples."
    ]


def about_unknown_tokens(share: float, words: Sequence[str]) -> list[str]:
    """Returns a remark if too many tokens of the texts are unknown to the tokenizer.

    Args:
        share: fraction of the tokens that are the unknown token.
        words: unknown words or characters.
    """
    if share <= _UNKNOWN:
        return []
    return [
        f"{share:.0%} of the tokens are unknown to the tokenizer, such as {listed(words[:5])}, so "
        "the model cannot tell them apart. Choose a model whose vocabulary contains the language "
        "of the texts."
    ]


def _format_names(names):
    return listed(names) if len(names) <= _SHOWN else f"{len(names):,} classes"


def advice(train: LabeledExamples) -> list[str]:
    """Returns a sentence for each problem that `keras-bert check` prints as a number."""
    kind, counts = train.label_counts()
    sentences = []
    for group in similar_labels(counts) if kind != "numbers" else ():
        names = ", ".join(f"{shown(name)} {counts[name]:,}" for name in group)
        sentences.append(f"classes differ in their spelling only: {names}. Use one spelling.")
    facts = train.facts()
    if facts.get("invalid_entities"):
        sentences.append(
            f"{facts['invalid_entities']:,} entities do not follow the scheme "
            f"{facts['label_scheme']}, the first in {facts['first_invalid_entity']}. Check them."
        )
    different = count_repeated(train)[1]
    if different:
        sentences.append(f"{different:,} duplicate texts have different labels. Check them.")
    html = count_html(train.inputs)
    if html:
        sentences.append(f"{html:,} texts have HTML tags or entities such as &nbsp;. Remove them.")
    return sentences


def token_numbers(counts: TokenCounts, max_length: int, are_split: bool) -> dict[str, Any]:
    """Returns percentiles of the lengths in tokens, and the fraction of texts that are too long.

    Args:
        counts: return value of `count_tokens`.
        max_length: maximum length of the model.
        are_split: whether longer texts are split into windows instead of truncated.
    """
    fraction = float(np.mean(np.array(counts.lengths) > max_length))
    name = "split" if are_split else "truncated"
    statistics = {"tokens": percentiles(counts.lengths), "max_length": max_length, name: fraction}
    return statistics | {"unknown": counts.unknown, "unknown_words": counts.unknown_words}


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
    kind, labels = train.label_counts()
    repeated, different = count_repeated(train)
    return {
        "file": train.source,
        **(form or {}),
        "rows": len(train) + len(train.skipped),
        "usable": len(train),
        "skipped": count_reasons(train.skipped),
        kind or "classes": labels,
        "similar_labels": [] if kind == "numbers" else similar_labels(labels),
        **train.facts(),
        "repeated": repeated,
        "repeated_with_other_label": different,
        "words": percentiles([sum(len(part.split()) for part in row) for row in train.sequences]),
        **(tokens or {}),
        "html": count_html(train.inputs),
        "in_both": None if dev is None else count_in_both(train, dev),
        "warnings": [
            *remarks(train, dev),
            *(about_unknown_tokens(tokens["unknown"], tokens["unknown_words"]) if tokens else ()),
        ],
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
    kind = next((name for name in _COUNTED if found.get(name)), None)
    if kind is not None:
        lines.append(f"{kind}: {counts_text(found[kind])}")
    for group in found["similar_labels"][:2]:
        counts = {name: found[kind][name] for name in group}
        lines.append(f"labels that differ in their spelling only: {counts_text(counts)}")
    if "contexts" in found:
        lines.append(f"contexts: {found['contexts']:,}")
    if "label_scheme" in found:
        count, first = found["invalid_entities"], found.get("first_invalid_entity")
        invalid = f"{count:,} invalid entities, the first in {first}" if count else "valid"
        lines.append(f"label scheme: {found['label_scheme']}, {invalid}")
    if found["repeated"]:
        different = found["repeated_with_other_label"]
        lines.append(
            f"duplicate texts: {found['repeated']:,}, {different:,} with a different label"
        )
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
        template = (
            "contexts of {:,} validation questions"
            if "contexts" in found
            else "{:,} validation texts"
        )
        lines.append(f"leak: {template.format(found['in_both'])} are also in the training set")
    return [*lines, *(f"warning: {warning}" for warning in found["warnings"])]


def lengths_text(lengths: Mapping[str, int]) -> str:
    limits = ", ".join(f"{n} % up to {lengths[str(n)]:,}" for n in _PERCENTILES)
    return f"{limits}, longest {lengths['max']:,}"


def counts_text(counts: Mapping[str, float]) -> str:
    shown_counts = [
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:g}"
        for name, value in list(counts.items())[:_SHOWN]
    ]
    num_omitted = len(counts) - len(shown_counts)
    return ", ".join([*shown_counts, f"and {num_omitted:,} more"] if num_omitted else shown_counts)
