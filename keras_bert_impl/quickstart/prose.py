"""Extracts English sentences from docstrings, without markup, code, tables and signatures."""

import inspect
import re

from keras_bert_impl.pretraining.corpus.sentences import split_sentences

# Sections that contain no prose, or only fragments such as "If the shape is wrong."
_DROPPED_SECTIONS = set(
    "references|reference|see also|seealso|methods|raises|warns|yaml|api docstring|"
    "call arguments inputs|example usage".split("|")
)
# NumPy sections with unindented "name : type" lines and indented descriptions below them.
_NUMPY_ENTRY_SECTIONS = set(
    "parameters|other parameters|returns|yields|receives|attributes|keyword arguments".split("|")
)
_ADMONITIONS = {"note", "warning", "tip", "important", "caution", "hint", "attention"}

_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}")
_SECTION = re.compile(r"#{0,4}\s*([A-Z][A-Za-z]*(?: [A-Za-z]+){0,3}):")
_DIRECTIVE = re.compile(r"\.\.\s+(?:([\w:-]+?)::\s*(.*)|.*)")
_TABLE = re.compile(r"[=\-+|]{2}[=\-+|]*[\s+|][=\-+|\s]*[=\-+|]{2}|[^|]*\|[^|]*\|.*|\+[-=+]+\+?")
_BULLET = re.compile(r"(?:[-*+•]|\(?\w{1,2}[.)]|#\.)\s+")
# "name: text", "name (type, optional): text", "*args, **kwargs: text"
_GOOGLE_ENTRY = re.compile(r"[`*]{0,2}[\w.,*` /\[\]-]{1,40}?[`*]{0,2}\s*(?:\([^()]*\))?\s*:\s+(.*)")
_FIELD = re.compile(r":(\w+)(?:\s[^:]*)?:\s*(.*)")
_FENCE = re.compile(r"(```|~~~)")

# Removes citations and the markup of roles such as :func:`x`, links, emphasis and calls.
# (substring of every match, pattern, replacement). The substring is tested first because `in` is
# faster.
_INLINE = [
    ("`", re.compile(r":[\w:+-]+:`~?(?:[^`<]*?\.)?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),
    ("`", re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}"), r"\1"),  # `text <url>`_
    ("](", re.compile(r"!?\[([^\]]+)\]\([^)]*\)"), r"\1"),  # [text](url)
    ("[", re.compile(r"\s*\[(?:\d+|[A-Z]\w*\d+)\]_?"), ""),  # [1]_
    ("`", re.compile(r"`+([^`]*?)`+_{0,2}"), r"\1"),
    ("*", re.compile(r"(?<!\w)\*{1,2}(\w[^*]*?)\*{1,2}(?!\w)"), r"\1"),
    ("_", re.compile(r"(?<!\w)_([A-Za-z][^_]*?)_(?!\w)"), r"\1"),
    ("_ ", re.compile(r"\b([A-Za-z]+)_(?= )"), r"\1"),
    ('"', re.compile(r'"([A-Za-z_][\w.]*)(?:\(\))?"'), r"\1"),  # help topics quote code with "
    ("(", re.compile(r"\((?:optional|required)\)[.,:;]?\s*", re.I), ""),
    ("()", re.compile(r"\b([A-Za-z_]\w*(?:\.\w+)*)\(\)"), r"\1"),  # name() -> name
    ("", re.compile(r"^(?:optional|required|default[^.)]*|note|warning)[.,:;]\s*", re.I), ""),
    ("  ", re.compile(r" +"), " "),
    (" ", re.compile(r" +([.,;:!?])(?= |$)"), r"\1"),
]
_FEWEST_TOKENS, _MOST_TOKENS = 5, 80  # words of a sentence
_LONGEST_LINE, _LONGEST_PARAGRAPH = 1_000, 5_000  # characters; limits the run time of the patterns
_CODE = re.compile(r"[=<>{}\[\]\\|@$^#*~`%+&_/]|https?:|\w\.\w+\.\w|\w\(|--|\.\.|::|\(\s*[,)]")
_WORD = re.compile(r"\(?[\"']?(?:[A-Za-z]+(?:[-'’][A-Za-z]+)*|\d+(?:[.,]\d+)*)[\"']?[).,;:!?\"']*")
_SYMBOL = re.compile(r"[(]?(?:[b-zB-HJ-Z]|[\d.,]+)[).,;:]*")  # a letter or a number
_FUNCTION_WORDS = set(
    "a an the of to in is are be was for and or if on by with as that this it can will from not "
    "at have has which when you must may should its".split()
)


def prose_sentences(docstring: str) -> list[str]:
    """Returns the English sentences of a docstring, without fragments."""
    sentences: list[str] = []
    lines = inspect.cleandoc(docstring).splitlines()
    for paragraph in _paragraphs([line for line in lines if len(line) <= _LONGEST_LINE]):
        if paragraph.count(" ") < _FEWEST_TOKENS - 1 or len(paragraph) > _LONGEST_PARAGRAPH:
            continue
        for needle, pattern, replacement in _INLINE:
            if needle in paragraph:
                paragraph = pattern.sub(replacement, paragraph)
        sentences.extend(filter(_is_prose, split_sentences(paragraph.strip())))
    return sentences


def _is_prose(sentence):
    if not sentence[:1].isupper() or sentence[-1] not in ".!?" or _CODE.search(sentence):
        return False
    tokens = sentence.split()
    if not _FEWEST_TOKENS <= len(tokens) <= _MOST_TOKENS:
        return False
    if sum(bool(_WORD.fullmatch(token)) for token in tokens) < 0.95 * len(tokens):
        return False
    # An English sentence has function words; a list of names or numbers has none.
    small = sum(token.lower().strip("(,;:") in _FUNCTION_WORDS for token in tokens)
    symbols = sum(bool(_SYMBOL.fullmatch(token)) for token in tokens)
    return small >= max(1, len(tokens) // 10) and symbols <= len(tokens) // 5


def _paragraphs(lines):
    lines = _without_headings(_without_code([line.expandtabs() for line in lines]))
    current, indent, entry = [], 0, False
    for section, line in lines:
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        new, text, hanging = _opens_paragraph(section, stripped, depth)
        # Deeper indentation without a bullet or entry starts the definition of a term.
        grows = depth > indent and not entry
        if not stripped or new or depth < indent or grows:
            if current:
                yield " ".join(current)
            current, entry = [], False
        if text:
            if not current:
                indent, entry = depth, hanging
            current.append(text)
    if current:
        yield " ".join(current)


def _opens_paragraph(section, stripped, depth):
    """Parses the marker at the start of a line, such as a bullet or the name of a parameter.

    Returns:
        (is_start, text, is_hanging): whether the line starts a new paragraph; the text after the
        marker; whether the paragraph has a hanging indent.
    """
    if section is None or not stripped:
        return True, "", False
    field = _FIELD.match(stripped)
    if field:
        keep = field.group(1) in ("param", "parameter", "arg", "return", "returns", "ivar", "var")
        return True, _capitalized(field.group(2)) if keep else "", True
    bullet = _BULLET.match(stripped)
    if bullet:
        stripped = stripped[bullet.end() :]
    if section.endswith(":"):  # Google style
        entry = _GOOGLE_ENTRY.fullmatch(stripped)
        if entry and (depth or bullet):
            return True, _capitalized(entry.group(1)), True
    if section in _NUMPY_ENTRY_SECTIONS and not depth:
        return True, "", False
    return bool(bullet), stripped, bool(bullet)


def _capitalized(text):
    return text[:1].upper() + text[1:]


def _without_headings(lines):
    """Yields (section, line) without headings. `section` is None in `_DROPPED_SECTIONS`."""
    section = ""
    for position, line in enumerate(lines):
        stripped = line.strip()
        following = lines[position + 1].strip() if position + 1 < len(lines) else ""
        if _UNDERLINE.fullmatch(stripped):
            continue
        if stripped and _UNDERLINE.fullmatch(following):
            section = stripped.lower()
        elif stripped.startswith("#") and not stripped.endswith("."):
            section = ""
        elif _SECTION.fullmatch(stripped):
            section = _SECTION.fullmatch(stripped).group(1).lower() + ":"
        else:
            keep = section.rstrip(":") not in _DROPPED_SECTIONS
            yield (section if keep else None), line
            continue
        yield section, ""


def _without_code(lines):
    """Removes code, doctests, directives, comments and tables from lines."""
    kept, fence, doctest, skip_deeper_than = [], None, False, None
    for line in lines:
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        mark = _FENCE.match(stripped)
        if fence:
            if stripped.startswith(fence):
                fence = None
            continue
        if mark:
            fence = mark.group(1)
            kept.append("")
            continue
        if skip_deeper_than is not None and (not stripped or depth > skip_deeper_than):
            continue
        skip_deeper_than = None
        doctest = stripped.startswith(">>>") or (doctest and bool(stripped))
        if doctest or _TABLE.fullmatch(stripped):
            kept.append("")
            continue
        directive = _DIRECTIVE.fullmatch(stripped)
        if directive:
            kept.append("")
            if directive.group(1) in _ADMONITIONS:
                kept.append(" " * (depth + 3) + directive.group(2))
            else:
                skip_deeper_than = depth
        else:
            kept.append(line)
            if stripped.endswith("::"):
                skip_deeper_than = depth
                kept.append("")
    return kept
