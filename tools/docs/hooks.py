"""MkDocs hooks: generated pages and files, version in the header, unbroken short code and tables."""

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, Files

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import api  # noqa: E402
import commands_page  # noqa: E402
import examples_page  # noqa: E402
import links  # noqa: E402
import llms  # noqa: E402
import settings_page  # noqa: E402

from keras_bert_impl.utils.version import __version__  # noqa: E402

_SHORT = re.compile(r"<code>([^<\n]{1,25})</code>")
_OUTPUT = re.compile(r'<div class="language-text highlight">(.*?)</div>', re.DOTALL)
_COLUMNS = re.compile(r"^(?:.*\S {3,}\S.*\n){3}", re.MULTILINE)  # three aligned rows


def on_config(config):
    """Writes the version into the header."""
    config["site_name"] += f" {__version__}"
    return config


def on_files(files: Files, config) -> Files:
    """Adds the generated pages, and `llms.txt`."""
    pages = api.pages() | examples_page.pages()
    pages |= {
        "reference/commands.md": commands_page.page(),
        "reference/settings.md": settings_page.page(),
    }
    pages["llms.txt"] = llms.text(config["nav"], pages)
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    return links.to_pages(markdown)


def on_page_content(html: str, page, config, files) -> str:
    """Marks what the style does not break: code of at most 25 characters, and output in columns."""
    html = _OUTPUT.sub(_mark_columns, html)
    return _SHORT.sub(_mark_short, html)


def _mark_short(match: re.Match) -> str:
    name = match[1]
    return f'<code class="short{" word" if len(name) <= 14 else ""}">{name}</code>'


def _mark_columns(match: re.Match) -> str:
    text = re.sub("<[^>]*>", "", match[1])
    return match[0].replace('"language-text', '"columns language-text', bool(_COLUMNS.search(text)))
