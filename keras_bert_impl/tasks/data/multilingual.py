"""Readers of XNLI and PAWS-X, one language at a time, in their published layouts."""

import dataclasses
import functools
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.examples import Examples, Layout, examples_of
from keras_bert_impl.tasks.data.glue import NLI, find_file, with_names
from keras_bert_impl.tasks.data.tables import tsv_rows

_TRANSLATED_NLI = NLI | {"contradictory": "contradiction"}
_PARAPHRASE = {"0": "different", "1": "paraphrase"}


def read_xnli(
    directory: str | Path, split: str, language: str = "en", skip_bad_rows: bool = False
) -> Examples:
    """Reads one language of a split of XNLI.

    Args:
        directory: the folder that contains `XNLI-1.0` and, for the training texts, which are
            translated from MNLI, `XNLI-MT-1.0`.
        split: `"train"`, `"dev"` or `"test"`.
        language: such as `"de"`.
        skip_bad_rows: see `read_glue`.

    Returns:
        `Examples` with class indices.

    Raises:
        InputError: a file or language is missing, or a row is invalid; the message says where.

    Source: Conneau et al. 2018, "XNLI", and the published files.

    Example:
        from keras_bert_impl.tasks import read_xnli
        read_xnli("data", "dev", "de").label_names  # ["entailment", "neutral", "contradiction"]
    """
    if split == "train":
        path = find_file(directory, "XNLI-MT-1.0/multinli", f"multinli.train.{language}.tsv")
        layout = Layout("premise", "hypo", "label", labels=list(_TRANSLATED_NLI))
        rows = tsv_rows(path, layout)
    else:
        path = find_file(directory, "XNLI-1.0", f"xnli.{split}.tsv")
        layout = Layout("sentence1", "sentence2", "gold_label", labels=list(NLI))
        rows = _of_language(path, tsv_rows(path, layout), language)
    examples = examples_of(path, rows, layout, skip_bad_rows)
    examples = _read_with(examples, "xnli", directory, language, skip_bad_rows)
    return with_names(examples, _TRANSLATED_NLI, ("accuracy",))


def read_paws_x(
    directory: str | Path, split: str, language: str = "en", skip_bad_rows: bool = False
) -> Examples:
    """Reads one language of a split of PAWS-X.

    Args:
        directory: the folder that contains `en`, `de`, ...
        split: `"train"`, which is translated for all languages but English, `"dev"` or `"test"`.
        language, skip_bad_rows: see `read_xnli`.

    Returns and raises: see `read_xnli`. The published files have invalid rows: some texts of the
    training sets are empty, and some texts of the other sets are `NS`, which marks a missing
    translation (https://github.com/google-research-datasets/paws/blob/master/pawsx/README.md).

    Source: Yang et al. 2019, "PAWS-X", and the published files.
    """
    train = "train" if language == "en" else "translated_train"
    names = {"train": train, "dev": "dev_2k", "test": "test_2k"}
    if split not in names:
        raise InputError(f"split must be one of {', '.join(names)}. Received: split={split!r}")
    path = find_file(directory, language, names[split] + ".tsv")
    layout = Layout("sentence1", "sentence2", "label", labels=list(_PARAPHRASE))
    examples = examples_of(path, _translated(tsv_rows(path, layout)), layout, skip_bad_rows)
    examples = _read_with(examples, "paws_x", directory, language, skip_bad_rows)
    return with_names(examples, _PARAPHRASE, ("accuracy", "f1"))


def _read_with(examples, task, directory, language, skip_bad_rows):
    options = {"task": task, "data": str(directory), "language": language}
    options["skip_bad_rows"] = skip_bad_rows
    return dataclasses.replace(examples, read_with=options)


def _translated(rows):
    """Yields the rows; reading one without a translation raises `InputError`."""

    def checked(read):
        row = read()
        if "NS" in (row["sentence1"].strip(), row["sentence2"].strip()):
            raise InputError("a text is 'NS', which marks a missing translation.")
        return row

    for line, read in rows:
        yield line, functools.partial(checked, read)


def _of_language(path, rows, language):
    """Yields the rows of a language, and those that cannot be read."""
    languages = set()
    for line, read in rows:
        try:
            row = read()
        except InputError:
            yield line, read
            continue
        languages.add(row.get("language"))
        if row.get("language") == language:
            yield line, functools.partial(dict, row)
    if language not in languages:
        found = ", ".join(sorted(map(str, languages)))
        raise InputError(f"{path} has no rows in language {language!r}. It has {found}.")
