"""HTML to Markdown-like text: headings, lists, tables and code keep their shape; scripts, styles and navigation go.

The result is cut like Markdown, so that a heading stays above what it heads and a table stays whole. Navigation is what
the page itself calls so, by its tag, its role, or the class that a common tool gives it (DocBook, Sphinx, rustdoc,
mdBook). A library that guesses the main text from the density of links loses tables of reference pages.
"""

import re
from html.parser import HTMLParser

_SILENT = frozenset(
    {
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "head",
        "iframe",
        "object",
        "button",
        "select",
    }
)
_BLOCKS = """
p div section article header footer main aside nav ul ol dl dt dd table blockquote
form fieldset figure figcaption details summary address hr h1 h2 h3 h4 h5 h6 body
"""
_BREAKS = frozenset(_BLOCKS.split())
_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "menu"})
_CLASSES = """
navheader navfooter related sphinxsidebar headerlink toc toctree-wrapper breadcrumb breadcrumbs sidebar
skip-link skip-main mdbook-help-container mdbook-help-popup nav-chapters mobile-nav-chapters menu-bar anchor permalink navbar footer
"""
_NAVIGATION = frozenset(_CLASSES.split())
# elements that pages mark so, and that must be closed: what is not closed would take the rest of the page along
_MARKED = frozenset(
    {"a", "aside", "div", "footer", "form", "header", "nav", "ol", "section", "table", "ul"}
)
_HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_SPACE = re.compile(r"\s+")
_GAPS = re.compile(r"\n{3,}")
_UNSEEN = re.compile(r"display\s{0,9}:\s{0,9}none")
_PILCROWS = "¶\U0001f517"  # the link of a heading to itself


def extract(source: str) -> tuple[str, str]:
    """The title and the text of a page. A page that is nothing but navigation, or never ends it, keeps it."""
    reader = _read(source, keeps_navigation=False)
    if reader.skipping or not "".join(reader.out).strip():
        reader = _read(source, keeps_navigation=True)
    lines = "".join(reader.out).splitlines()
    text = "\n".join(line.rstrip().rstrip(_PILCROWS).rstrip() for line in lines)
    return _SPACE.sub(" ", "".join(reader.title)).strip(), _GAPS.sub("\n\n", text).strip()


def _read(source: str, *, keeps_navigation: bool) -> "_Reader":
    reader = _Reader(keeps_navigation=keeps_navigation)
    end = source.rfind(">") + 1  # no tag ends behind it, and looking for that would take long
    reader.feed(source[:end] + source[end:].replace("<", "&lt;"))
    reader.close()
    return reader


class _Reader(HTMLParser):
    """Collects text; knows whether it stands in what is silent or preformatted."""

    def __init__(self, *, keeps_navigation: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._keeps_navigation = keeps_navigation
        self._skipped_tag = ""
        self.skipping = 0
        self.out: list[str] = []
        self.title: list[str] = []
        self._silent = 0
        self._silenced: dict[str, int] = {}
        self._pre = 0
        self._titling = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open what has a shape."""
        if self.skipping:
            self.skipping += tag == self._skipped_tag
        elif self._is_navigation(tag, attrs):
            self._skipped_tag, self.skipping = tag, 1
        else:
            self._start(tag)

    def _start(self, tag: str) -> None:
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
        if self.skipping:
            self.skipping -= tag == self._skipped_tag
        elif tag == "title":
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
        elif not self._silent and not self.skipping:
            self.out.append(data if self._pre else _SPACE.sub(" ", data))

    def _is_navigation(self, tag: str, attrs: list[tuple[str, str | None]]) -> bool:
        if self._keeps_navigation or self._silent or tag not in _MARKED:
            return False
        return tag == "nav" or any(
            name == "hidden"
            or (name == "aria-hidden" and value == "true")
            or (name == "style" and value and _UNSEEN.search(value))
            or (name == "role" and value in _ROLES)
            or (name in ("class", "id") and value and not _NAVIGATION.isdisjoint(value.split()))
            for name, value in attrs
        )

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
        elif (
            tag in _BREAKS and "".join(self.out[-2:]).strip() != "-"
        ):  # a paragraph goes on after its bullet
            self.out.append("\n\n")

    def _close(self, tag: str) -> None:
        if tag == "pre" and self._pre:
            self._pre -= 1
            self.out.append("\n```\n\n")
        elif tag in ("td", "th"):
            self.out.append(" | ")
        elif tag in _BREAKS:
            self.out.append("\n\n")
