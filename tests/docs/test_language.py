"""Pages, help texts, messages, docstrings and comments use the words of docs/decisions/wording.md."""

import ast
import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDING = ROOT / "docs" / "decisions" / "wording.md"
NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "colab").glob("*.ipynb")]
MODULES = [
    path for folder in ("keras_bert_impl", "examples") for path in (ROOT / folder).rglob("*.py")
]


def avoided():
    """Returns {word to avoid: term to write} from the tables of the page."""
    words = {}
    for line in WORDING.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[-1] not in ("not", "---", ""):
            words |= dict.fromkeys(cells[-1].lower().split(", "), cells[0])
    return words


AVOIDED = avoided()
ANY_WORD = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in AVOIDED)
PATTERN = re.compile(rf"\b({ANY_WORD})\b", re.IGNORECASE)


def prose(path):
    """Yields (line number, text) of the parts of a file that people read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, text
    elif path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            if cell["cell_type"] == "markdown":
                yield 1, "".join(cell["source"])
    else:
        for node in ast.walk(ast.parse(text)):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and " " in node.value:
                yield node.lineno, node.value
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def findings(path):
    """Returns `path:line: word -> term` for each word to avoid."""
    occurrences = []
    for line, text in prose(path):
        text = NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", "~", match[0]), text)
        for match in PATTERN.finditer(text):
            number = line + text.count("\n", 0, match.start())
            word = " ".join(match[0].lower().split())
            occurrences.append(f"{path}:{number}: {word} -> {AVOIDED[word]}")
    return occurrences


def test_the_page_lists_words_to_avoid():
    assert len(AVOIDED) >= 40
    assert AVOIDED["beside"] == "next to, with, compared with"


@pytest.mark.parametrize(
    ("name", "text", "occurrences"),
    [
        ("page.md", "```\nanew\n```\n`beside` and [this](anew.md)", []),
        ("page.md", "`x`\nBegin anew, that\n  of it", [(2, "begin anew"), (2, "that of")]),
        ("module.py", "beside = 1\nx = 'Placed beside it'  # anew\n", [(2, "beside"), (2, "anew")]),
    ],
)
def test_finds_words_in_prose_only(name, text, occurrences, tmp_path):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    starts = [f"{path}:{number}: {word} -> " for number, word in occurrences]
    lines = findings(path)
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path != WORDING], ids=lambda path: path.name
)
def test_pages(path):
    assert findings(path) == []


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MODULES}),
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_modules(folder):
    assert [line for path in sorted(folder.glob("*.py")) for line in findings(path)] == []
