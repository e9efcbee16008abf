"""Pages, help texts, messages, docstrings and comments use the terms of the glossary."""

import ast
import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "colab").glob("*.ipynb")]
MODULES = [
    path for folder in ("keras_bert_impl", "examples") for path in (ROOT / folder).rglob("*.py")
]


def avoided():
    """Returns {what is not written: what is written} from the tables of the glossary."""
    words = {}
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[-1] not in ("not", "---", ""):
            words |= dict.fromkeys(cells[-1].lower().split(", "), cells[0])
    return words


AVOIDED = avoided()
PATTERN = re.compile(r"\b(" + "|".join(map(re.escape, AVOIDED)) + r")\b", re.IGNORECASE)


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
    """Returns `path:line: word -> better word` for each word that is not written."""
    found = []
    for line, text in prose(path):
        text = NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        for match in PATTERN.finditer(text):
            number = line + text.count("\n", 0, match.start())
            found.append(f"{path}:{number}: {match[0]} -> {AVOIDED[match[0].lower()]}")
    return found


def test_the_glossary_has_terms():
    rows = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    assert len(rows) >= 60
    assert len(AVOIDED) >= 40


@pytest.mark.parametrize(
    ("text", "count"), [("```\nanew\n```\n`beside`", 0), ("Start anew, beside\nthat of it.", 3)]
)
def test_finds_words_outside_of_code(text, count, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(text)
    assert len(findings(path)) == count


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(path):
    if path != GLOSSARY:
        assert findings(path) == []


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in MODULES}),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_modules(folder):
    assert [line for path in sorted(folder.glob("*.py")) for line in findings(path)] == []
