"""Names: the proper names in a text, how words are capitalized, and the head of a chat line.

A name is a span of capitalized words ("Bank of England"); its longer words count as names too.
Capitals at the start of a sentence prove nothing, so `casing` counts only the other places:
a word is a name when it is capitalized in most of them.
"""

import re
from dataclasses import dataclass

from headgate.text.languages import ENGLISH

_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0410-\u042f"
_NAME = re.compile(
    rf"\b(?:[{_UPPER}][\w'\u2019-]+(?:\s+(?:of|the|de|von|van|and)\s+(?=[{_UPPER}]))?\s*)+"
)
_INSIDE = re.compile(r"(?:(?<=[\w,;)'\u2019-]\s)|(?<=\())([^\W\d_][\w'\u2019-]*)")
_STARTING = re.compile(r"(?<![\w,;)'\u2019-]\s)(?<!\()\b([a-z][\w'\u2019-]*)")
_HEAD = re.compile(
    rf"^\[([^\]]{{0,60}})\]\s*(?:([{_UPPER}][\w .'-]{{0,30}}?):\s*)?|^([{_UPPER}][\w .'-]{{0,30}}?):\s+"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A text parted into date, speaker and what is said; the first two are empty in most texts."""

    date: str
    speaker: str
    body: str


def part(text: str) -> Line:
    """Part '[date] Speaker: text', '[date] text' or 'Speaker: text' at its head."""
    match = _HEAD.match(text)
    if match is None:
        return Line("", "", text)
    date, one, two = match.groups()
    return Line(date or "", (one or two or "").strip(), text[match.end() :])


def names(text: str) -> set[str]:
    """The names in a text, lower case: whole spans, and their words of four letters or more."""
    found = set()
    for span in _NAME.findall(text):
        name = _plain(span.strip())
        if len(name) > 2 and name not in ENGLISH:
            found.add(name)
            if " " in name:
                found.update(w for w in name.split() if len(w) > 3 and w not in ENGLISH)
    return found


def _plain(span: str) -> str:
    name = span.lower().replace("\u2019", "'")
    return name[:-2] if name.endswith("'s") else name


def casing(text: str) -> tuple[list[str], list[str]]:
    """Words inside sentences as they stand, and the lower-case words at places where sentences start."""
    return _INSIDE.findall(text), _STARTING.findall(text)
