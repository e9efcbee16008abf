"""Escaping of text and data for HTML and SVG."""

import html
import json
import re
from typing import Any

# XML and HTML allow no control characters but these white spaces, and UTF-8 no lone surrogates.
_NOT_ALLOWED = re.compile(r"[^\t\n\r -\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_CHARACTERS = 600


class Html(str):
    """Text that is HTML already; `escape` leaves it as it is."""


def escape(value: Any) -> str:
    """Returns any value as text of an HTML or SVG element or attribute."""
    return value if isinstance(value, Html) else html.escape(clean(value))


def clean(value: Any) -> str:
    """Returns any value as text in which U+FFFD replaces characters that a page cannot have."""
    return _NOT_ALLOWED.sub("\ufffd", str(value))


def user_text(value: Any, most: int = _MOST_CHARACTERS) -> Html:
    """Returns the HTML of a text of the data, with its own direction; says if it is cut."""
    text = str(value)
    cut = f'<small class="cut"> … {len(text):,} characters</small>' if len(text) > most else ""
    return Html(f'<bdi class="text">{escape(text[:most])}</bdi>{cut}')


def script_json(value: Any) -> str:
    """Returns JSON that can stand in a `<script>` element: nothing in it ends the element."""
    text = json.dumps(_cleaned(value), ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _cleaned(value):
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return clean(value) if isinstance(value, str) else value


def number(value: Any) -> str:
    """Formats a number for people: 12,345 or 0.8312; NaN and text as they are."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == value and abs(value) >= 1000 and value % 1 == 0):
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
