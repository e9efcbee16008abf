"""Reading of pages: their sections, and the tables in them."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Text of the sections of a page, by heading, and the rows of their tables.

    Attributes:
        sections: heading -> text.
        tables: heading -> list of rows, lists of text.
        tags: names of all elements.
        attributes: all (element, name, value).
        html: the source.
    """

    def __init__(self, html):
        super().__init__()
        self.sections, self.tables, self.tags, self.attributes = {"": ""}, {}, [], []
        self.html = html
        self._heading, self._is_heading, self._is_cell = "", False, False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        rows = self.tables.setdefault(self._heading, [])
        if tag == "h2":
            self._is_heading, self._heading = True, ""
        elif tag == "tr":
            rows.append([])
        elif tag in ("th", "td") and rows:
            rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag):
        if tag == "h2":
            self._is_heading = False
        elif tag in ("th", "td"):
            self._is_cell = False
        elif tag in ("p", "pre", "dd", "tr", "h3") and not self._is_cell:
            self.sections[self._heading] = self.sections.get(self._heading, "") + "\n"

    def handle_data(self, data):
        if self._is_heading:
            self._heading += data
            return
        self.sections[self._heading] = self.sections.get(self._heading, "") + data
        if self._is_cell:
            self.tables[self._heading][-1][-1] += data


def read(path):
    return Page(path.read_text(encoding="utf-8"))
