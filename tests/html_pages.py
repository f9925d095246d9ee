"""Parser of HTML pages."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


class Reader(HTMLParser):
    """Tables, links, tags with attributes, scripts and other texts of an HTML file or string."""

    def __init__(self, page: Path | str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, str | None]]]] = {}
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self._cell: list[str] | None = None
        self._caption: list[str] | None = None
        self._rows: list[list[tuple[str, str | None]]] = []
        self.feed(page if isinstance(page, str) else page.read_text("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        self._inside = tag
        if tag == "script":
            self.scripts.append("")
        elif tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell, self._key = [], named.get("data-key")
        elif tag == "caption":
            self._caption = []

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)
        for parts in (self._cell, self._caption):
            if parts is not None:
                parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag in ("td", "th") and self._cell is not None:
            self._rows[-1].append(("".join(self._cell), self._key))
            self._cell = None
        elif tag == "caption" and self._caption is not None:
            self._title, self._caption = "".join(self._caption), None
        elif tag == "table":
            self.tables[self._title] = self._rows
