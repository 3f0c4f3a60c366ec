"""Names: what a text names, found by its looks, and how its words are capitalized.

`names` are for linking: spans of capitalized words in lower case ("bank of england") and their longer words.
`entities` are for showing, as they are written: such spans, what stands in backticks or quotes, identifiers,
handles, addresses and paths. A capital that opens a sentence proves little: there a common word is not an entity,
and the index counts how a word is written elsewhere (`ends_sentence` tells where a sentence may end).
"""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import chain

from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import capitals, fold
from millgate.text.stopwords import ENGLISH, stopwords

ENTITY_CHARS = 80  # longer matches are sentences
TEXT_CHARS = 20_000  # entities of a longer text are those of its beginning
LINKS = ("of", "the", "de", "von", "van", "and")
"""Words that may stand between two words of a name."""


def _span(upper: str) -> str:
    # a look-behind after the capital lets the scan run to the next capital instead of the next word
    return (
        rf"[{upper}](?<!\w\w)[\w'\u2019-]++"
        rf"(?:\s++(?:(?:{'|'.join(LINKS)})\s++)?+[{upper}][\w'\u2019-]++)*+"
    )


_SPAN, _ASCII_SPAN = lazy_compile(lambda: _span(capitals())), lazy_compile(_span("A-Z"))
# four times as fast over ASCII as the class alone
_RARE_CAPITAL = lazy_compile(lambda: f"[^\x00-\x7f](?<=[{capitals()}])")
_FIRST_WORD = re.compile(r"^(?:\(?([^\W\d_][\w'-]*))?", re.MULTILINE)
_GOES_ON = frozenset(",;)'\u2019-_")  # a sentence goes on after these, as after a letter or a digit

_MARKED = re.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”")
_SHAPED = lazy_compile(
    r"https?://[^\s<>()\"']+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]+)+|(?<!\w)@\w[\w-]*"
    r"|(?<![\w/.-])(?:\.{0,2}/)?[\w-]+(?:/[\w.-]+)+|(?<![\w.])\w+(?:\.\w+)*\.[A-Za-z]\w*\b"
    r"|\b[a-z0-9]+(?:_[a-z0-9]+)+\b|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,}\b"
)


def _run(upper: str) -> str:
    title = rf"[{upper}](?<!\w\w)(?:[\w’'&-]|\.(?=\w))*+"
    return rf"{title}(?: (?:of|de|van|von|der|the|and|&) {title}| {title}| \d+\b)*+"


_RUN, _ASCII_RUN = lazy_compile(lambda: _run(capitals())), lazy_compile(_run("A-Z"))
_OPENERS = '.!?:•*-–—])"“('  # after one of these a capital may only open a sentence
_SPELLED = re.compile(r"[^\W_]+(?:['’_.-][^\W_]+)*+")

_COMMON = frozenset(  # words that open sentences and messages without naming anything
    """
    add although always another avoid every first get good great hello hey hi however keep last like make many
    maybe much never new next note ok okay old one please prefer really remember run second see set since
    sometimes sure thank thanks though three today tomorrow two unless use well whether wow yeah yes yesterday
    """.split()  # noqa: SIM905 - a paragraph reads better than sixty quoted words
)


def names_of(span: str) -> tuple[str, ...]:
    """The names of a capitalized span: the whole of it, and its longer words."""
    if span.isalpha():  # most spans are one plain word
        low = span.lower()
        return () if low in ENGLISH or len(low) < 3 else (low,)
    name = " ".join(span.lower().replace("\u2019", "'").split()).removesuffix("'s")
    found = [name] if len(name) > 2 and name not in ENGLISH else []
    if " " in name:
        found += [w for w in name.split() if len(w) > 3 and w not in ENGLISH]
    return tuple(found)


def names(text: str) -> set[str]:
    """The names in a text, lower case: whole spans, and their words of four letters or more."""
    return set(chain.from_iterable(map(names_of, name_spans(text))))


def name_spans(text: str) -> list[str]:
    """The spans of capitalized words in a text, as they stand."""
    # looking for other capitals than A-Z costs three times as much, so only if there are some
    plain = text.isascii() or not _RARE_CAPITAL.search(text)
    return (_ASCII_SPAN if plain else _SPAN).findall(text)


def capitalize(name: str) -> str:
    """A name with capitals, if it is written without any: "ann lee" is "Ann Lee"."""
    return name.title() if name.islower() else name


def ends_sentence(piece: str) -> bool:
    """Whether a sentence may end with this piece of text, so that the next word may be its first."""
    return not (piece[-1].isalnum() or piece[-1] in _GOES_ON)


def first_words(pieces: Sequence[str]) -> list[str]:
    """The words that pieces of text begin with, as they stand; empty for one that begins with none."""
    lines = "\n".join(pieces).replace("\u2019", "'")
    return [word.removesuffix("'s") for word in _FIRST_WORD.findall(lines)] if pieces else []


def spelled_words(text: str) -> Iterator[str]:
    """Lower-case words that are not stopwords, as they are spelled: inner dots, dashes and underscores stay."""
    for match in _SPELLED.finditer(text.lower()):
        if match[0] not in ENGLISH:
            yield match[0]


def entities(text: str, language: str = "english") -> tuple[str, ...]:
    """The entities in a text of that language, in order of appearance, each once (letter case aside)."""
    text = text[:TEXT_CHARS]
    found = [(m.start(), next(g for g in m.groups() if g)) for m in _MARKED.finditer(text)]
    found += [(m.start(), m[0].rstrip(".,;:")) for m in _SHAPED.finditer(text)]
    found += _runs(text, stopwords(language))
    unique: dict[str, str] = {}
    for _, name in sorted(found):
        tidy = name.strip(" .,;:'’-")
        if 1 < len(tidy) <= ENTITY_CHARS:
            unique.setdefault(tidy.lower(), tidy)
    return tuple(unique.values())


def _runs(text: str, stops: Container[str]) -> list[tuple[int, str]]:
    kept = []
    for match in (_ASCII_RUN if text.isascii() else _RUN).finditer(text):
        opens = _opens(text, match.start())
        name = _without_opener(match[0], stops) if opens else match[0]
        if name and fold(name) not in stops:
            kept.append((match.start(), re.sub(r"['’]s$", "", name)))
    return kept


def _opens(text: str, place: int) -> bool:
    before = text[max(0, place - 4) : place]
    return "\n" in before or not before.strip() or before.rstrip()[-1] in _OPENERS


def _without_opener(run: str, stops: Container[str]) -> str:
    """A sentence's first run without a leading function word: "The Alpine Club" is "Alpine Club"."""
    first, _, rest = run.partition(" ")
    common = fold(first) in stops or first.lower() in _COMMON
    return rest if common else run
