"""Extracts text from HTML, repairs characters and removes languages (extra `corpus`)."""

import collections
import functools
import re
from collections.abc import Sequence

import ftfy
import numpy as np
import trafilatura
from py3langid import langid

from keras_bert_impl.pretraining.corpus.near_duplicates import signature
from keras_bert_impl.utils.errors import InputError

STEPS = ("html", "characters", "language")
Counts = collections.Counter[tuple[str, str]]  # (step, what is counted) -> number
_IDENTIFIED = 2000  # characters of which the language is identified

_PAGE = re.compile(
    r"\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S
)
# Valid characters are not changed, because the tokenizer normalizes them.
_REPAIRS = ftfy.TextFixerConfig(
    unescape_html=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    uncurl_quotes=False,
    normalization=None,
    explain=False,
)


def check_languages(languages: Sequence[str]) -> None:
    """Raises `InputError` for a language that cannot be identified."""
    for language in languages:
        if language not in _load_identifier().labels:
            supported_languages = ", ".join(sorted(_load_identifier().labels))
            raise InputError(f"language {language!r} is not one of {supported_languages}.")


def clean_texts(
    texts: Sequence[str], languages: Sequence[str]
) -> tuple[list[tuple[str, np.ndarray]], Counts]:
    """Cleans texts, and removes web pages without text and texts in other languages.

    Args:
        languages: Codes of the languages to keep; empty for all.

    Returns:
        (texts, counts). `texts` contains (text, MinHash signature) for each remaining text.
        `counts` contains the number of documents that each step `removed` and `changed`, the number
        of removed `characters`, and for `languages` the number of documents in each language.
    """
    counts: Counts = collections.Counter()
    cleaned = [text for text in (_clean(text, languages, counts) for text in texts) if text]
    return [(text, signature(text)) for text in cleaned], counts


def _clean(text, languages, counts):
    for step in STEPS:
        cleaned = _STEPS[step](text, languages, counts)
        counts[step, "removed"] += not cleaned
        counts[step, "changed"] += cleaned not in ("", text)
        counts[step, "characters"] += len(text) - len(cleaned)
        if not cleaned:
            return ""
        text = cleaned
    return text


def _extract_main_text(text, *_):
    """Extracts the main text of an HTML page. Returns all other texts unchanged."""
    if not _PAGE.match(text):
        return text
    return trafilatura.extract(text, include_comments=False) or ""


def _clean_characters(text, *_):
    """Repairs wrongly decoded characters; removes control characters and blank lines."""
    lines = ftfy.fix_text(text, _REPAIRS).replace("\ufffd", "").split("\n")
    return "\n".join(filter(None, map(str.strip, lines)))


def _filter_by_language(text, languages, counts):
    if not languages:
        return text
    language, _ = _load_identifier().classify(text[:_IDENTIFIED])
    counts["languages", language] += 1
    return text if language in languages else ""


_STEPS = dict(zip(STEPS, (_extract_main_text, _clean_characters, _filter_by_language)))


@functools.cache
def _load_identifier():
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
