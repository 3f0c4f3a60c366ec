"""Names: the proper names in a text, and how words are capitalized.

A name is a span of capitalized words ("Bank of England"); its longer words count as names too.
Capitals at the start of a sentence prove nothing: a word is a name when it is capitalized in most of the
other places. `ends` tells where sentences end, `word` what a piece of text between spaces begins with.
"""

import re
from itertools import chain

from headgate.text.letters import UPPER
from headgate.text.stopwords import ENGLISH

# A look-behind after the capital lets the scan run to the next capital instead of the next word.
_NAME = re.compile(
    rf"[{UPPER}](?<!\w[{UPPER}])[\w'\u2019-]+"
    rf"(?:\s+(?:(?:of|the|de|von|van|and)\s+)?[{UPPER}][\w'\u2019-]+)*"
)
_WORD = re.compile(r"\(?([^\W\d_][\w'\u2019-]*)")
_GOES_ON = frozenset(",;)'\u2019-_")  # a sentence goes on after these, as after a letter or a digit


class _Spans(dict[str, tuple[str, ...]]):
    """A capitalized span -> its names, filled as spans are met."""

    def __missing__(self, span: str) -> tuple[str, ...]:
        if len(self) >= _CACHE:
            self.clear()
        name = " ".join(span.lower().replace("\u2019", "'").split()).removesuffix("'s")
        found = [name] if len(name) > 2 and name not in ENGLISH else []
        if " " in name:
            found += [w for w in name.split() if len(w) > 3 and w not in ENGLISH]
        self[span] = tuple(found)
        return self[span]


_SPANS = _Spans()
_CACHE = 1_000_000  # spans remembered; beyond it the table starts afresh


def names(text: str) -> set[str]:
    """The names in a text, lower case: whole spans, and their words of four letters or more."""
    return set(chain.from_iterable(map(_SPANS.__getitem__, _NAME.findall(text))))


def ends(piece: str) -> bool:
    """Whether a sentence may end with this piece of text, so that the next word may be its first."""
    return not (piece[-1].isalnum() or piece[-1] in _GOES_ON)


def word(piece: str) -> str:
    """The word a piece of text begins with, as it stands; empty when it begins with none."""
    match = _WORD.match(piece)
    return match[1].replace("\u2019", "'").removesuffix("'s") if match else ""


def capitalize(name: str) -> str:
    """A name with capitals, where somebody wrote it without any: "ann lee" is "Ann Lee"."""
    return name.title() if name.islower() else name
