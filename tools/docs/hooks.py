"""MkDocs hooks: the pages of reference/ and examples/, which are generated from the code."""

import sys
from pathlib import Path

from mkdocs.structure.files import File, Files

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import api  # noqa: E402
import commands_page  # noqa: E402
import examples_page  # noqa: E402
import settings_page  # noqa: E402


def on_files(files: Files, config) -> Files:
    """Adds the generated pages."""
    pages = api.pages() | examples_page.pages()
    pages |= {
        "reference/commands.md": commands_page.page(),
        "reference/settings.md": settings_page.page(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files
