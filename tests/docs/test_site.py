"""The site's navigation and its check for files from other hosts."""

import os
import re
from pathlib import Path

import check_site
import examples_page
import links
import llms
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
GENERATED = ("reference/", "examples/")


def pages(entries):
    """Yields the paths of a navigation."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from [below] if isinstance(below, str) else pages(below)


def test_every_page_is_in_the_navigation_once():
    listed = [page for page in pages(CONFIG["nav"]) if not page.startswith(GENERATED)]
    docs = ROOT / "docs"
    excluded = tuple(line for line in CONFIG["exclude_docs"].split() if line.endswith("/"))
    paths = [str(path.relative_to(docs)) for path in docs.rglob("*.md")]
    assert sorted(listed) == sorted(page for page in paths if not page.startswith(excluded))


def source_pages():
    docs = ROOT / "docs"
    listed = [page for page in pages(CONFIG["nav"]) if not page.startswith(GENERATED)]
    return {page: (docs / page).read_text(encoding="utf-8") for page in listed}


_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def linked_files(text):
    """Returns the targets of the links to files in Markdown text."""
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", _CODE.sub("", text))
    return {target for target in targets if "://" not in target}


def test_links_work_in_a_checkout():
    folders = ("docs", "examples", "colab", "keras_bert_impl", "tools", "tests")
    files = [*ROOT.glob("*.md"), *(path for f in folders for path in (ROOT / f).rglob("*.md"))]
    links = [(path, target) for path in files for target in linked_files(path.read_text("utf-8"))]
    assert len(links) > 200
    assert [link for link in links if not (link[0].parent / link[1]).exists()] == []


def test_links_work_on_the_site():
    excluded = tuple(line for line in CONFIG["exclude_docs"].split() if line.endswith("/"))
    generated = examples_page.pages() | dict.fromkeys(pages(CONFIG["nav"]), "")
    texts = generated | {page: links.to_pages(text) for page, text in source_pages().items()}
    for page, text in texts.items():
        for target in linked_files(text):
            path = os.path.normpath(os.path.join(os.path.dirname(page), target))
            is_file = (ROOT / "docs" / path).is_file() and not path.startswith((*excluded, ".."))
            assert path in texts or is_file, f"{page}: {target}"


def test_tables_have_no_gaps():
    row, rule = re.compile(r"\|.*\|"), re.compile(r"\|[-:| ]+\|")
    for page, text in source_pages().items():
        lines = ["", *text.splitlines(), ""]
        for before, line, after in zip(lines, lines[1:], lines[2:]):
            if row.fullmatch(line) and not row.fullmatch(before):
                assert rule.fullmatch(after), f"{page}: {line}"


def test_a_broken_link_fails_the_build():
    assert CONFIG["strict"]
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert CONFIG["theme"]["font"] is False


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        "<script src=//cdn.example.org/a.js></script>",
        '<link rel="stylesheet" href="https://fonts.example.org/css">',
        '<img alt="x" src="http://example.org/a.png">',
    ],
)
def test_finds_what_a_page_loads_from_another_host(text, tmp_path):
    (tmp_path / "a.html").write_text(text)
    assert len(check_site.loaded_from_elsewhere(tmp_path)) == 1


def test_finds_a_font_in_a_style(tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.org/a.woff2) }")
    assert len(check_site.loaded_from_elsewhere(tmp_path)) == 1


def test_links_and_own_files_are_no_findings(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">x</a><script src="assets/a.js"></script>'
        '<link rel="canonical" href="https://example.org/a.html">'
    )
    assert check_site.loaded_from_elsewhere(tmp_path) == []


def test_llms_lists_every_page_with_a_sentence():
    generated = {page: "# A page\n\nA sentence. Another." for page in pages(CONFIG["nav"])}
    generated.pop("agents.md")
    text = llms.text(CONFIG["nav"], generated)
    assert text.count("](") == len(list(pages(CONFIG["nav"])))
    assert text.count(": A sentence.\n") == len(generated)
    assert "- [For agents](agents.html): Command templates for six jobs" in text


def test_the_search_works_from_disk_without_another_host():
    assert CONFIG["extra"]["polyfills"] == ["iframe-worker.js"]  # `offline` adds none then
    assert (ROOT / "docs" / "iframe-worker.js").exists()


def test_output_in_columns_and_short_code_are_not_broken():
    hooks = pytest.importorskip("hooks", reason="MkDocs is not installed")
    start, end = '<div class="language-text highlight"><pre><code>', "</code></pre></div>"
    table = (
        "week        labels  accuracy\n2026-11-02     14      0.64\n2026-11-09      6      0.67\n"
    )
    columns = hooks.on_page_content(start + table + end, None, None, None)
    assert columns == start.replace('"language', '"columns language') + table + end
    prose = f"{start}one   two\nthree\n{end}"
    assert hooks.on_page_content(prose, None, None, None) == prose
    names = "<code>one_device</code> <code>sentence-transformers</code>"
    assert hooks.on_page_content(names, None, None, None) == (
        '<code class="short word">one_device</code> <code class="short">sentence-transformers</code>'
    )
