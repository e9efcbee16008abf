"""The pages of `examples/`: the docstring and the code of each script."""

import ast
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def scripts() -> list[Path]:
    """Returns the examples that are one script, without their shared module `common.py`."""
    shared = ("common", "__init__")
    return sorted(path for path in EXAMPLES.glob("*.py") if path.stem not in shared)


def pages() -> dict[str, str]:
    """Returns a page (Markdown) for each script, keyed by path."""
    return {f"examples/{path.stem}.md": _render_page(path) for path in scripts()}


def _render_page(path):
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = ast.get_docstring(tree).partition("\n\n")
    code = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :]).strip()
    return f"# {title.rstrip('.')}\n\n{text}\n\n```python\n{code}\n```\n"
