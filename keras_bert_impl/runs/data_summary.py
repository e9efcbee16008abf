"""Summary of the training data, computed before training: counts, lengths and warnings."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert_impl.data.scores.comparison import is_uneven
from keras_bert_impl.data.tables import checks
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.data.tables.token_lengths import sample_of
from keras_bert_impl.tasks.base.task_model import TaskModel

_SAMPLE_CHARACTERS = 2_000_000  # number of characters to tokenize, which takes about half a second
_CUT = 0.01  # fraction of truncated texts that causes a warning
_MOST_WORDS = 2000  # most frequent words among which unknown words are searched


@dataclasses.dataclass(frozen=True)
class DataSummary:
    """Statistics of the examples of a run, also written to `data.json`.

    Attributes:
        train_rows, dev_rows: number of examples.
        labels: type of the labels: `"classes"`, `"entities"`, `"tags"`, `"questions"`, `"endings"`
            or `"numbers"`. None if the examples have no labels.
        train_labels, dev_labels: dict of label -> count. For `"numbers"`, the `min`, `mean` and
            `max` of the labels.
        lengths: percentiles `"50"`, `"90"` and `"99"` of the sequence lengths, and the maximum
            `"max"`, in a sample of 10,000 examples of the training set.
        max_length: maximum sequence length of the model.
        truncated: fraction of texts that are truncated; None if they are split into windows.
        in_both: number of validation examples with a text that is also in the training set.
        empty: number of examples with an empty text, in both sets.
        warnings: problems of the data, each with a fix.
    """

    train_rows: int
    dev_rows: int
    labels: str | None
    train_labels: dict[str, float]
    dev_labels: dict[str, float]
    lengths: dict[str, int]
    max_length: int
    truncated: float | None
    in_both: int
    empty: int
    warnings: list[str] = dataclasses.field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns the statistics, without the warnings, as at most three lines of text."""
        lines = [f"data: {self.train_rows:,} examples to train on, {self.dev_rows:,} to score on"]
        if self.labels is not None:
            lines.append(f"{self.labels}: {checks.counts_text(self.train_labels) or 'none'}")
        long = "longer texts are split into windows"
        if self.truncated is not None:
            long = f"{self.truncated:.1%} are truncated"
        lines.append(
            f"tokens: {checks.lengths_text(self.lengths)}; max_length is {self.max_length}, {long}"
        )
        return lines

    def advice(self, shown: Sequence[str] = ()) -> list[str]:
        """Returns the warnings as lines of text, without those in `shown`."""
        return [f"warning: {warning}" for warning in self.warnings if warning not in shown]


def summarize(
    model: TaskModel,
    train: LabeledExamples,
    dev: LabeledExamples,
    metric: str | None = None,
    is_weighted: bool = False,
    remarks: Sequence[str] | None = None,
) -> DataSummary:
    """Counts labels, measures sequence lengths and checks for problems.

    Args:
        remarks: return value of `checks.remarks` for these examples.
        metric: name of the score that compares models.
        is_weighted: whether the run has class weights.
    """
    labels, train_counts = train.label_counts()
    kind_of_dev, dev_counts = dev.label_counts()
    dev_counts = (
        dev_counts if kind_of_dev == labels else {}
    )  # entity labels without an entity are tags
    lengths, unknown = _tokenize_sample(model, train)
    summary = DataSummary(
        len(train),
        len(dev),
        labels,
        train_counts,
        dev_counts,
        checks.percentiles(lengths),
        model.max_length,
        None if model.splits_texts else float((lengths > model.max_length).mean()),
        checks.count_in_both(train, dev),
        sum(_is_blank(text) for examples in (train, dev) for text in examples.inputs),
    )
    has_one_each = getattr(train, "is_multi_label", None) is False
    warnings = checks.remarks(train, dev) if remarks is None else list(remarks)
    warnings += _collect_warnings(summary, model, has_one_each, metric, is_weighted)
    return dataclasses.replace(summary, warnings=warnings + unknown + checks.advice(train))


# === Texts ===


def _is_blank(text):
    return not text.strip() if isinstance(text, str) else not text or any(map(_is_blank, text))


def _tokenize_sample(model, examples):
    """Tokenizes a sample of the examples.

    Returns the sequence lengths with special tokens, int [rows], and a list of warnings.
    """
    texts = examples.inputs
    rows, characters = [], 0
    # A permutation, so that the sample is spread over the file.
    for number in np.random.default_rng(0).permutation(sample_of(len(texts))):
        rows += model.rows_of(texts[number])
        characters += sum(map(len, rows[-1]))
        if characters > _SAMPLE_CHARACTERS:
            break
    tokenizer = model.tokenizer
    segments = [segment for row in rows for segment in row]
    tokens = tokenizer.tokenize(segments)
    num_unknown = np.sum(tokens.flat_values.numpy() == tokenizer.unk_id)
    share = num_unknown / max(len(tokens.flat_values), 1)
    words = _find_unknown_words(tokenizer, segments) if share else []
    warnings = checks.about_unknown_tokens(share, words)
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    special = [2 + tokenizer.num_separators * (len(row) - 1) for row in rows]
    return np.add.reduceat(tokens.row_lengths().numpy(), starts) + special, warnings


def _find_unknown_words(tokenizer, texts):
    counts = collections.Counter(" ".join(texts).split())
    words = [word for word, _ in counts.most_common(_MOST_WORDS)]
    ids = tokenizer.tokenize([f" {word}" for word in words]).to_list()
    return [word for word, row in zip(words, ids) if tokenizer.unk_id in row]


# === Warnings ===


def _collect_warnings(summary, model, has_classes, metric, is_weighted):
    warnings = []
    if summary.truncated is not None and summary.truncated > _CUT:
        warnings.append(_warn_of_length(summary, model))
    if has_classes and summary.labels == "classes":
        warnings += _warn_of_uneven_classes(summary.train_labels, metric, is_weighted)
    if summary.in_both:
        warnings.append(
            f"{summary.in_both:,} of the {summary.dev_rows:,} validation texts are also in the "
            "training set, which raises the scores. Remove these texts from one of the two sets."
        )
    if summary.empty:
        warnings.append(
            f"{summary.empty:,} texts are empty. Remove these texts, or check the text column."
        )
    return warnings


def _warn_of_length(summary, model):
    cut, most = (
        f"{summary.truncated:.1%} of the texts are truncated",
        model.encoder.config.max_length,
    )
    if summary.max_length >= most:
        return f"{cut}: the model takes at most {most} tokens. Try long_texts=mean."
    fitting_length = min(-(-summary.lengths["99"] // 8) * 8, most)
    share = "99 % of the texts" if fitting_length < most else "more texts"
    return f"{cut}. With max_length={fitting_length}, {share} fit."


def _warn_of_uneven_classes(counts, metric, is_weighted):
    numbers = np.array([count for count in counts.values() if count])
    if is_uneven(numbers):
        most, least = max(counts, key=counts.get), min(filter(counts.get, counts), key=counts.get)
        compared = f" Models are compared by {metric}." if metric else ""
        advice = "" if is_weighted else " Try class_weight=balanced."
        yield (
            f"{most!r} has {numbers.max():,} examples and {least!r} {numbers.min():,}."
            f"{compared}{advice}"
        )
