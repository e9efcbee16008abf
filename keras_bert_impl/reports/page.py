"""Self-contained HTML pages with sections, tables, charts and code to copy."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.data.scores.statistics import Interval
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.version import __version__

# XML and HTML only allow these control characters, and UTF-8 does not allow lone surrogates.
_NOT_ALLOWED = re.compile(r"[^\t\n\r -\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_CHARACTERS = 600
NO_INTERVAL = "–"


class Html(str):
    """A string of HTML. `escape` returns this type unchanged."""


class Digits(str):
    """A formatted number, aligned to the right in tables."""


def escape(value: Any) -> str:
    """Converts any value to text for an HTML or SVG element or attribute."""
    return value if isinstance(value, Html) else html.escape(clean(value))


def clean(value: Any) -> str:
    """Converts any value to text. Characters that HTML does not allow are replaced by U+FFFD."""
    return _NOT_ALLOWED.sub("\ufffd", str(value))


def user_text(value: Any, most: int = _MOST_CHARACTERS) -> Html:
    """Converts a text to HTML. The browser detects the writing direction of the text.

    If the text is longer than `most` characters, it is truncated, and its length is added.
    """
    text = str(value)
    cut = f'<small class="cut"> … {len(text):,} characters</small>' if len(text) > most else ""
    return Html(f'<bdi class="text">{escape(text[:most])}</bdi>{cut}')


def script_json(value: Any) -> str:
    """Returns JSON for a `<script>` element, escaped so that it does not end the element."""
    text = json.dumps(_clean_nested(value), ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _clean_nested(value):
    if isinstance(value, dict):
        return {clean(key): _clean_nested(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean_nested(item) for item in value]
    return clean(value) if isinstance(value, str) else value


def number(value: Any) -> str:
    """Formats a number, such as 12,345 or 0.8312. Returns NaN and text unchanged."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == value and abs(value) >= 1000 and value % 1 == 0):
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


# === Pages ===


class Section(NamedTuple):
    """A section of a page.

    Attributes:
        title: the heading.
        html: the contents.
        drawings: charts in `html`, which `save_pictures` also writes as files.
    """

    title: str
    html: str
    drawings: Sequence[Any] = ()


def page(
    title: str,
    lead: str,
    sections: Sequence[Section],
    tiles: Sequence[tuple[str, str]] = (),
    script: str = "",
    data: Any = None,
) -> str:
    code = _read_asset("page.js") + script
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    links = "".join(
        f'<li><a href="#{_make_anchor(section.title)}">{escape(section.title)}</a></li>'
        for section in sections
    )
    boxes = "".join(f"<li><b>{escape(v)}</b><span>{escape(k)}</span></li>" for k, v in tiles)
    body = "".join(
        f'<section aria-labelledby="{_make_anchor(section.title)}">'
        f'<h2 id="{_make_anchor(section.title)}">{escape(section.title)}</h2>{section.html}</section>'
        for section in sections
    )
    json = f'<script type="application/json" id="data">{script_json(data)}</script>' if data else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'">
<title>{escape(title)}</title><style>{_read_asset("page.css")}</style></head>
<body><a class="skip" href="#main">Skip to the contents</a>
<header><h1>{escape(title)}</h1><p class="lead">{lead}</p>
{f'<ul class="tiles">{boxes}</ul>' if boxes else ""}
{f'<nav aria-label="Sections"><ul>{links}</ul></nav>' if len(sections) > 1 else ""}</header>
<main id="main">{body}</main>
<footer>Written by keras_bert_impl {__version__}. This page loads no other files.</footer>
{json}<script>{code}</script></body></html>
"""


def save_page(path: str | Path, html: str) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


@cache
def _read_asset(name):
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def script_of(name: str) -> str:
    return _read_asset(name)


def _make_anchor(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


# === Elements ===


def paragraph(text: str, kind: str = "note") -> str:
    return f'<p class="{kind}">{escape(text)}</p>'


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", first: str = "row"
) -> str:
    """Returns an HTML table. A table that is wider than the page has a scroll bar."""
    rows = [list(row) for row in rows]
    is_number = [
        bool(rows) and all(_is_number(row[n]) for row in rows) for n in range(len(headings))
    ]
    head = "".join(
        f'<th scope="col"{_format_class(right)}>{escape(text)}</th>'
        for text, right in zip(headings, is_number, strict=True)
    )
    lines = []
    for row in rows:
        cells = [_format_cell(value, right) for value, right in zip(row, is_number, strict=True)]
        if first == "row":
            cells[0] = f'<th scope="row">{_format_value(row[0])}</th>'
        lines.append(f"<tr>{''.join(cells)}</tr>")
    label = escape(caption or ", ".join(headings))
    return (
        f"{paragraph(caption) if caption else ''}"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _is_number(value):
    return isinstance(value, (int, float, Digits)) and not isinstance(value, bool)


def _format_class(is_right):
    return ' class="n"' if is_right else ""


def _format_cell(value, right):
    kind = (
        ' class="t"'
        if isinstance(value, Html) and 'class="text"' in value
        else _format_class(right)
    )
    return f"<td{kind}>{_format_value(value)}</td>"


def _format_value(value):
    return number(value) if _is_number(value) else escape(value)


def score(value: float) -> Digits:
    return Digits(f"{value:.4f}")


def p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def bounds(value: Interval) -> Digits:
    """Formats an interval as "0.801 to 0.862", or `NO_INTERVAL` if the bounds are equal."""
    low, high = f"{value.low:.3f}", f"{value.high:.3f}"
    return Digits(f"{low} to {high}" if value.low < value.high else NO_INTERVAL)


def charts(drawings: Sequence[Any]) -> str:
    """Returns charts as HTML: next to each other or, on narrow screens, one below the other."""
    figures = "".join(f"<figure>{drawing.svg()}</figure>" for drawing in drawings)
    return f'<div class="charts">{figures}</div>' if drawings else ""


def code(text: str) -> str:
    return f'<div class="code"><pre tabindex="0"><code>{escape(text)}</code></pre></div>'


def details(summary: str, html: str) -> str:
    """Returns a collapsible HTML element: a click on `summary` shows `html`."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def example(pairs: Iterable[tuple[str, Any]]) -> str:
    """Returns the HTML of a box that lists (name, value) pairs of one example."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f'<div class="example"><dl>{lines}</dl></div>'


def shaded_words(words: Sequence[Any], most: int = 120) -> Html:
    """Returns the words of an `Attribution`, shaded by their score."""
    largest = max((abs(word.score) for word in words), default=0.0) or 1.0
    parts = []
    for before, word in zip([None, *words], words[:most]):
        if before is not None and before.segment != word.segment:
            parts.append(" <small>|</small> ")
        elif before is not None and word.start > before.end:
            parts.append(" ")
        share = abs(word.score) / largest
        kind = "for" if word.score >= 0 else "against"
        parts.append(
            f'<span class="w {kind}" style="--a:{share:.2f}" title="{word.score:+.3f}">'
            f"{escape(word.text[:200])}</span>"
        )
    ending = f"<small> … {len(words) - most:,} more words</small>" if len(words) > most else ""
    return Html(f'<div class="words" dir="auto">{"".join(parts)}{ending}</div>')
