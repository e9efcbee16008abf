"""Links of pages: to sources in a checkout, to the pages that are made of them on the site."""

import re

_PAGES = {
    r"\.\./examples/(\w+)\.py": r"examples/\1.md",
    r"\.\./keras_bert_impl/runs/settings\.py": "reference/settings.md",
    r"\.\./keras_bert_impl/cli/main\.py": "reference/commands.md",
}


def to_pages(markdown: str) -> str:
    """Replaces links to sources by links to the generated pages."""
    for source, page in _PAGES.items():
        markdown = re.sub(rf"\]\({source}\)", f"]({page})", markdown)
    return markdown
