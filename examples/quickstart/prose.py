"""English sentences from docstrings, without code, tables, markup and signatures."""

import inspect
import re
from collections.abc import Iterator

from keras_bert_impl.pretraining import split_sentences

# Blocks that are not prose. The text below a directive or after `::` is indented.
_BELOW = r"(?:\n(?:\1[ ]+\S.*|[ ]*(?=\n)))*"
_BLOCKS = re.compile(
    r"""^[ ]*(```|~~~)[\s\S]*?^[ ]*\1.*  # fenced code
    |^[ ]*>>>.*(?:\n.*\S.*)*  # doctests
    |^[ ]*(?:[-=+|]{2,}[-=+| ]*|[^|\n]*\|.*\|.*)$  # rows and borders of tables
    |^(?:references?|see[ ]also|raises|warns|methods)\n[-=]+\n[\s\S]*?(?=\n.*\n(?:---|===)|\Z)
    |^(?:references?|see[ ]also|raises|warns|methods):(?:\n(?:[ ]+.*)?)*  # sections without prose
    |^(?:.*\n)[-=~^]{3,}$  # headings""",
    re.M | re.X | re.I,
)
_INDENTED = re.compile(
    rf"^( *)(?:\.\. (?!(?:note|warning|tip|important|hint)::).*|(?!\.\. ).*::[ ]*$){_BELOW}", re.M
)
_ADMONITION = re.compile(r"^( *)\.\. \w+::", re.M)
# A bullet, `name: text`, `name (type): text`, `:param name: text`, or NumPy's `name : type`
_MARKER = re.compile(
    r"(?:[-*+•]|\d+[.)]) +|:(?:param|arg|returns?|ivar)\b[^:]*: *|:\w+[^:`]*:(?!`).*|\S+ : .*"
    r"|(?:Args|Arguments|Parameters|Returns|Yields|Attributes|Examples?|Notes?):$"
    r"|[`*]{0,2}[\w.]+[`*]{0,2}(?:, [`*\w.]+)* *(?:\([^()]*\))?: +"
)
_MARKUP = [
    (re.compile(r":[\w:+-]+:`~?(?:[^`<]*?\.)?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),  # :func:`a.b`
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}|!?\[([^\]]+)\]\([^)]*\)"), r"\1\2"),  # links
    (re.compile(r"\s*\[(?:\d+|[A-Z]\w*\d+)\]_?"), ""),  # [1]_
    (re.compile(r"`+([^`]*?)`+_{0,2}|(?<!\w)\*{1,2}(\w[^*]*?)\*{1,2}(?!\w)"), r"\1\2"),
    (re.compile(r"\b([A-Za-z_]\w*(?:\.\w+)*)\(\)|\((?:optional|required)\)[.,:;]?\s*"), r"\1"),
    (re.compile(r" +(?=[.,;:!?](?: |$))"), ""),
]
_FEWEST_WORDS, _MOST_WORDS = 5, 80
_LONGEST = 5_000  # characters of a paragraph; limits the run time of the patterns
_CODE = re.compile(r"[=<>{}\[\]\\|@$^#*~`%+&_/]|https?:|\w\.\w+\.\w|\w\(|--|\.\.|::|\(\s*[,)]")
_WORD = re.compile(r"\(?[\"']?(?:[A-Za-z]+(?:[-'’][A-Za-z]+)*|\d+(?:[.,]\d+)*)[\"']?[).,;:!?\"']*")
_FUNCTION_WORDS = set(
    "a an the of to in is are be was for and or if on by with as that this it can will from not "
    "at have has which when you must may should its".split()
)


def prose_sentences(docstring: str) -> list[str]:
    """Returns the English sentences of a docstring, without fragments."""
    sentences: list[str] = []
    for paragraph in _paragraphs(inspect.cleandoc(docstring)):
        if paragraph.count(" ") < _FEWEST_WORDS - 1 or len(paragraph) > _LONGEST:
            continue
        for pattern, replacement in _MARKUP:
            paragraph = pattern.sub(replacement, paragraph)
        sentences += filter(_is_prose, split_sentences(paragraph.strip()))
    return sentences


def _is_prose(sentence):
    words = sentence.split()
    if not (sentence[:1].isupper() and sentence[-1] in ".!?" and not _CODE.search(sentence)):
        return False
    # An English sentence has function words; a list of names or numbers has none.
    functions = sum(word.lower().strip("(,;:") in _FUNCTION_WORDS for word in words)
    return (
        _FEWEST_WORDS <= len(words) <= _MOST_WORDS
        and sum(bool(_WORD.fullmatch(word)) for word in words) >= 0.95 * len(words)
        and functions >= max(1, len(words) // 10)
    )


def _paragraphs(text: str) -> Iterator[str]:
    """Splits at blank lines, at markers such as bullets, and where the indentation changes."""
    text = _ADMONITION.sub(r"\1", _INDENTED.sub("", _BLOCKS.sub("", text)))
    lines, indent, is_entry = [], 0, False
    for line in [*text.splitlines(), ""]:
        text, depth = line.strip(), len(line) - len(line.lstrip())
        marker = _MARKER.match(text)
        # The other lines of an entry may be indented more than its first line.
        if not text or marker or depth < indent or (depth > indent and not is_entry):
            yield " ".join(lines)
            lines, is_entry = [], bool(marker)
        if marker:
            text = text[marker.end() :]
            text = text[:1].upper() + text[1:]
        if not lines:
            indent = depth
        lines += [text] if text else []
        is_entry = is_entry and bool(lines)
