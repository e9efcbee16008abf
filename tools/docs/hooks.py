"""MkDocs hooks: generated pages and files, version in the header, unbroken short code."""

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, Files

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import api  # noqa: E402
import commands_page  # noqa: E402
import examples_page  # noqa: E402
import llms  # noqa: E402
import settings_page  # noqa: E402

from keras_bert_impl.version import __version__  # noqa: E402

_SHORT = re.compile(r"<code>([^<\n]{1,25})</code>")


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


def on_page_content(html: str, page, config, files) -> str:
    """Marks code of at most 25 characters, so that the style does not break it."""
    return _SHORT.sub(r'<code class="short">\1</code>', html)
