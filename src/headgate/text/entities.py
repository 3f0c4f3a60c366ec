"""Entities: the names in a text, found by their looks alone.

A name is a run of capitalized words, something in backticks or double quotes, a dotted, snake_case or CamelCase
identifier, a handle (@someone), an address or a file path. A capital that opens a sentence proves little,
so there a common word is not taken for a name.
"""

import re
from collections.abc import Iterator

from headgate.text.stopwords import ENGLISH

ENTITY_CHARS = 80  # longer matches are sentences
TEXT_CHARS = 20_000  # names of a longer text are those of its beginning

_WORD = re.compile(r"[^\W_]+(?:['’_.-][^\W_]+)*")
_MARKED = re.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”")
_SHAPED = re.compile(
    r"https?://[^\s<>()\"']+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]+)+|(?<!\w)@\w[\w-]*"
    r"|(?<![\w/.-])(?:\.{0,2}/)?[\w-]+(?:/[\w.-]+)+|(?<![\w.])\w+(?:\.\w+)*\.[A-Za-z]\w*\b"
    r"|\b[a-z0-9]+(?:_[a-z0-9]+)+\b|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,}\b"
)
_CAPITAL = r"[A-ZÀ-ÖØ-ÞĀ-ŽА-ЯΑ-Ω](?:[\w’'&-]|\.(?=\w))*"
_RUN = re.compile(
    rf"(?<!\w){_CAPITAL}(?: (?:of|de|van|von|der|the|and|&) {_CAPITAL}| {_CAPITAL}| \d+\b)*"
)
_OPENERS = '.!?:•*-–—])"“('  # after one of these a capital may only open a sentence

_COMMON = frozenset(  # words that open sentences and messages without naming anything
    {"yesterday", "today", "tomorrow", "please", "yes", "yeah", "ok", "okay", "hey", "hi", "hello"}
    | {"thanks", "thank", "great", "good", "well", "maybe", "never", "always", "sometimes", "every"}
    | {
        "use",
        "run",
        "add",
        "set",
        "make",
        "see",
        "note",
        "remember",
        "prefer",
        "keep",
        "avoid",
        "get",
    }
    | {
        "one",
        "two",
        "three",
        "first",
        "second",
        "last",
        "next",
        "new",
        "old",
        "many",
        "much",
        "another",
    }
    | {
        "however",
        "although",
        "since",
        "though",
        "unless",
        "whether",
        "like",
        "sure",
        "really",
        "wow",
    }
)


def words(text: str) -> Iterator[str]:
    """Lower-cased words of a text that are not stopwords, inner dots, dashes and underscores kept."""
    for match in _WORD.finditer(text.lower()):
        if match[0] not in ENGLISH:
            yield match[0]


def entities(text: str) -> tuple[str, ...]:
    """The names in a text, in order of appearance, each once (letter case aside)."""
    text = text[:TEXT_CHARS]
    found = [(m.start(), next(g for g in m.groups() if g)) for m in _MARKED.finditer(text)]
    found += [(m.start(), m[0].rstrip(".,;:")) for m in _SHAPED.finditer(text)]
    found += _capitalized(text)
    unique: dict[str, str] = {}
    for _, name in sorted(found):
        tidy = name.strip(" .,;:'’-")
        if 1 < len(tidy) <= ENTITY_CHARS:
            unique.setdefault(tidy.lower(), tidy)
    return tuple(unique.values())


def _capitalized(text: str) -> list[tuple[int, str]]:
    kept = []
    for match in _RUN.finditer(text):
        name = _without_opener(match[0]) if _opens(text, match.start()) else match[0]
        if name and name.lower() not in ENGLISH:
            kept.append((match.start(), re.sub(r"['’]s$", "", name)))
    return kept


def _opens(text: str, place: int) -> bool:
    before = text[max(0, place - 4) : place]
    return "\n" in before or not before.strip() or before.rstrip()[-1] in _OPENERS


def _without_opener(run: str) -> str:
    """A sentence's first run without a leading function word: "The Alpine Club" is "Alpine Club"."""
    first, _, rest = run.partition(" ")
    common = first.lower() in ENGLISH or first.lower() in _COMMON
    return rest if common else run
