"""HTML to Markdown-like text: headings, lists, tables and code keep their shape, scripts and styles go.

The result is cut like Markdown, so that a heading stays above what it heads and a table stays whole.
"""

import re
from html.parser import HTMLParser

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object"})
_BLOCKS = """
p div section article header footer main aside nav ul ol dl dt dd table blockquote
form fieldset figure figcaption details summary address hr h1 h2 h3 h4 h5 h6 body
"""
_BREAKS = frozenset(_BLOCKS.split())
_HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_SPACE = re.compile(r"\s+")
_GAPS = re.compile(r"\n{3,}")


def extract(source: str) -> tuple[str, str]:
    """The title and the text of a page."""
    reader = _Reader()
    end = source.rfind(">") + 1  # no tag ends behind it, and looking for that would take long
    reader.feed(source[:end] + source[end:].replace("<", "&lt;"))
    reader.close()
    text = "\n".join(line.rstrip() for line in "".join(reader.out).splitlines())
    return _SPACE.sub(" ", "".join(reader.title)).strip(), _GAPS.sub("\n\n", text).strip()


class _Reader(HTMLParser):
    """Collects text; knows whether it stands in what is silent or preformatted."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.title: list[str] = []
        self._silent = 0
        self._silenced: dict[str, int] = {}
        self._pre = 0
        self._titling = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open what has a shape."""
        if tag == "title":
            self._titling = True
        elif tag == "body":
            self._silent = 0  # a page that forgot to close its head
            self._silenced.clear()
        elif tag in _SILENT:
            self._silent += 1
            self._silenced[tag] = self._silenced.get(tag, 0) + 1
        elif not self._silent:
            self._open(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        if tag == "title":
            self._titling = False
        elif self._silenced.get(tag):
            self._silenced[tag] -= 1
            self._silent -= 1
        elif not self._silent:
            self._close(tag)

    def handle_data(self, data: str) -> None:
        """Keep text; collapse white space outside of preformatted parts."""
        if self._titling:
            self.title.append(data)
        elif not self._silent:
            self.out.append(data if self._pre else _SPACE.sub(" ", data))

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Pass over `<![...>` as browsers do. The library raises an AssertionError if it knows no such section."""
        return self.parse_bogus_comment(i)

    def _open(self, tag: str) -> None:
        if tag in _HEADINGS:
            self.out.append("\n\n" + _HEADINGS[tag])
        elif tag == "pre":
            self._pre += 1
            self.out.append("\n\n```\n")
        elif tag == "li":
            self.out.append("\n- ")
        elif tag == "tr":
            self.out.append("\n| ")
        elif tag == "br":
            self.out.append("\n")
        elif tag in _BREAKS:
            self.out.append("\n\n")

    def _close(self, tag: str) -> None:
        if tag == "pre" and self._pre:
            self._pre -= 1
            self.out.append("\n```\n\n")
        elif tag in ("td", "th"):
            self.out.append(" | ")
        elif tag in _BREAKS:
            self.out.append("\n\n")
