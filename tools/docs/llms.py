"""The list of pages for language models, `llms.txt`: a title and a sentence for each page."""

import re
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_HEAD = """\
# keras_bert_impl

> BERT in Keras 3 for TensorFlow and JAX: fine-tune, pre-train and serve text encoders. The Python
> module is keras_bert_impl, the command keras-bert. Start with agents.html: six jobs as templates.
"""


def text(nav: list, generated: dict[str, str]) -> str:
    """Returns the file.

    Args:
        nav: navigation of `mkdocs.yml`: groups with paths of pages, which may be nested.
        generated: texts of the pages that are not in `docs`, keyed by path.
    """
    parts = [_HEAD]
    for group in nav:
        for title, entries in group.items():
            lines = [_format_line(path, generated) for path in _list_paths(entries)]
            parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _list_paths(entries):
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from [below] if isinstance(below, str) else _list_paths(below)


def _format_line(path, generated):
    page = generated.get(path) or (_DOCS / path).read_text(encoding="utf-8")
    title, _, body = page.removeprefix("# ").partition("\n")
    link = f"- [{title.replace('`', '')}]({path.removesuffix('.md')}.html)"
    paragraphs = re.findall(r"^[\w`*\[].*?(?=\n\n|\Z)", body, re.DOTALL | re.MULTILINE)
    if not paragraphs:
        return link
    words = " ".join(paragraphs[0].split())
    plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|\*\*", r"\1", words)
    return f"{link}: {re.split(r'(?<=[.:])[ ]', plain)[0].rstrip(':.')}."
