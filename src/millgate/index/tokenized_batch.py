"""Reading a batch of chunks: their terms, their names, and how their words are written, as one segment.

A text is split at spaces. A token is read when it is first met in a language: which terms it has, and how its word is
written. A full lexicon of such tokens gives way to an empty one.
A name is written with capitals, and so is the first word of a sentence. So words are counted by how they stand: small
or capitalized inside a sentence, and small at its start.
"""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from threading import Lock
from typing import NamedTuple

import numpy as np

from millgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from millgate.index.collection_kind import CERTAIN, DECLARED
from millgate.index.posting_list import PostingList
from millgate.index.segment import INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER, Segment
from millgate.ranking.arrays import number_keys
from millgate.ranking.fields import BODY, SPEAKER, TITLE
from millgate.text.languages import LANGUAGES, detect_all
from millgate.text.names import capitalize, ends_sentence, first_words, name_spans, names_of
from millgate.text.stopwords import ENGLISH
from millgate.text.terms import number, numbers, read_new
from millgate.text.turns import TurnParts, part
from millgate.types import Chunk

_MOST = 800_000  # tokens and terms that a lexicon knows: some 30 MB
_UPPER, _ENDS = 1, 2  # how a token looks: it begins with a capital, a sentence may end after it
_SAMPLE = 48  # tokens at the beginning of a body that may prove it English
_ENGLISH_ALONE = frozenset({"the", "of", "and", "with", "that", "this", "from", "was", "were", "for", "The"})  # fmt: skip


class Tokens(NamedTuple):
    """The tokens of some texts, end to end, and what is known of each distinct one."""

    which: Ints
    counts: Ints  # how many terms each distinct one has
    terms: Keys  # all of these
    words: Keys  # the number of its word; 0 if that cannot be a name
    looks: Bytes


class _Ids(dict[str, int]):
    """Tokens of one language -> their ids; one that is new gets the next."""

    def __init__(self, ids: Iterator[int]) -> None:
        self._next = ids
        self.new: list[str] = []

    def __missing__(self, token: str) -> int:
        self.new.append(token)
        return self.setdefault(token, next(self._next))


class Lexicon:
    """Tokens that were met before, each under an id that is given out for good. For any number of threads."""

    def __init__(self) -> None:
        self._next = count()
        self._ids: dict[str, _Ids] = {}
        self._terms, self._ends = array("Q"), array("q", [0])
        self._words, self._looks = array("Q"), array("B")
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._words)

    @property
    def is_full(self) -> bool:
        """Whether a new one should be begun."""
        return len(self._words) + len(self._terms) >= _MOST

    def read(self, texts: Sequence[Sequence[str]], languages: Sequence[str]) -> Tokens:
        """The tokens of texts, each in its language; those that were not met before are read together."""
        ids: list[list[int]] = [[]] * len(texts)
        with self._lock:
            for language in dict.fromkeys(languages):
                known = self._ids.setdefault(language, _Ids(self._next))
                for at, tokens in enumerate(texts):
                    if tokens and languages[at] == language:
                        ids[at] = list(map(known.__getitem__, tokens))
                self._add(known.new, language)
                known.new = []
            flat = np.fromiter(chain.from_iterable(ids), np.int64)
            used, which = number_keys(flat)
            # no array outlives its line: as long as it does, what it shows cannot grow
            begins = np.asarray(self._ends)[used]
            counts = np.asarray(self._ends)[used + 1] - begins
            return Tokens(
                which,
                counts,
                np.asarray(self._terms)[ranges(begins, counts)],
                np.asarray(self._words)[used],
                np.asarray(self._looks)[used],
            )

    def _add(self, tokens: Sequence[str], language: str) -> None:
        flat, sizes = read_new(tokens, language)
        terms = np.array(flat, np.uint64)
        owner = np.repeat(np.arange(len(tokens)), sizes)[terms > 0]  # stopwords have no term
        ends = len(self._terms) + np.bincount(owner, minlength=len(tokens)).cumsum()
        self._terms.frombytes(terms[terms > 0].tobytes())
        self._ends.frombytes(ends.tobytes())
        words = first_words(tokens)
        low = [word.lower() if len(word) > 2 else "" for word in words]
        names = set(low).difference(ENGLISH, ("",))
        numbered = dict(zip(names, numbers(names), strict=True))
        self._words.extend([numbered.get(word, 0) for word in low])
        upper = [_UPPER if word[:1].isupper() else 0 for word in words]
        self._looks.extend(
            [
                look + _ENDS if ends_sentence(token) else look
                for token, look in zip(tokens, upper, strict=True)
            ]
        )


_current = Lexicon()


def _begin_anew() -> None:
    global _current  # noqa: PLW0603  (a cache)
    _current = Lexicon()


if hasattr(os, "register_at_fork"):
    # a child must not wait for a lock of its parent; Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)


def build(chunks: Iterable[Chunk], places: Sequence[int]) -> Segment:
    """A segment of these chunks, in this order."""
    chunks = list(chunks)
    lines = [part(chunk.text, chunk.metadata) for chunk in chunks]
    texts = [
        text.split()
        for chunk, line in zip(chunks, lines, strict=True)
        for text in (chunk.title, line.date, line.speaker, line.body)
    ]
    languages = read_languages([line.body for line in lines], texts[BODY::4])
    if _current.is_full:
        _begin_anew()  # what two threads make at once is equal
    tokens = _current.read(texts, [language for language in languages for _ in range(4)])
    cells = np.repeat(np.arange(len(texts)), [*map(len, texts)])
    counts = tokens.counts[tokens.which]
    own = ranges(offsets(tokens.counts)[tokens.which], counts)
    terms = PostingList.of(tokens.terms, own, np.repeat(cells, counts), len(chunks))
    fields = np.bincount(cells, counts, 4 * len(chunks)).astype(np.int64).reshape(-1, 4)
    names, labels, label_starts = _read_names(chunks, lines)
    ids, id_starts = join_texts([chunk.id for chunk in chunks])
    id_keys = np.array(numbers(chunk.id for chunk in chunks), np.uint64)
    order = np.argsort(id_keys, kind="stable")
    speakers = [number(line.speaker) if line.speaker else 0 for line in lines]
    evidence = [DECLARED * line.declared | CERTAIN * line.certain for line in lines]
    return Segment(
        ids=ids,
        id_starts=id_starts,
        id_keys=id_keys[order],
        id_ords=order,
        place=np.array(places, np.int64),
        position=np.array([chunk.position for chunk in chunks], np.int64),
        fields=fields,
        chars=np.array([len(chunk.text) for chunk in chunks], np.int64),
        speaker=np.array(speakers, np.uint64),
        evidence=np.array(evidence, np.uint8),
        language=np.array([LANGUAGES.index(language) for language in languages], np.uint8),
        terms=terms,
        names=names,
        labels=labels,
        label_starts=label_starts,
        case=_count_cases(tokens, cells, len(chunks)),
    )


def read_languages(bodies: Sequence[str], tokens: Sequence[Sequence[str]]) -> list[str]:
    """The languages of bodies; one that opens with many words that only English has needs no vote."""
    samples = [own[:_SAMPLE] for own in tokens]
    english = [8 * sum(map(_ENGLISH_ALONE.__contains__, own)) >= len(own) for own in samples]
    rest = [body for body, known in zip(bodies, english, strict=True) if not known]
    voted = iter(detect_all(rest))
    return ["english" if known else next(voted) for known in english]


def _read_names(
    chunks: Sequence[Chunk], lines: Sequence[TurnParts]
) -> tuple[PostingList, Bytes, Ints]:
    """The names in the texts of chunks, and how each reads: one run of bytes and the offsets into it."""
    names_in: dict[str, tuple[str, ...]] = {}  # by the span of capitalized words
    met, cells = list[str](), list[int]()
    for at, (chunk, line) in enumerate(zip(chunks, lines, strict=True)):
        head = f"{line.date}. {capitalize(line.speaker)}" if line.date or line.speaker else ""
        for field, text in ((BODY, line.body), (TITLE, chunk.title), (SPEAKER, head)):
            spans = dict.fromkeys(name_spans(text)) if text else {}
            names_in |= {span: names_of(span) for span in spans if span not in names_in}
            found = dict.fromkeys(chain.from_iterable(map(names_in.__getitem__, spans)))
            met += found
            cells += [4 * at + field] * len(found)
    names = list(dict.fromkeys(met))
    keys, place = np.array(numbers(names), np.uint64), dict(zip(names, count()))
    which = np.array([place[name] for name in met], np.int64)
    labels, starts = join_texts([names[at] for at in keys.argsort().tolist()])
    return PostingList.of(keys, which, np.array(cells, np.int64), len(chunks)), labels, starts


def _count_cases(tokens: Tokens, cells: Ints, chunks: int) -> PostingList:
    """The words of bodies by how they stand; a capital at the start of a sentence says nothing and is left out."""
    body = np.flatnonzero(cells & 3 == BODY)
    which, cells = tokens.which[body], cells[body]
    upper = (tokens.looks & _UPPER > 0)[which]
    starts = np.ones(len(body), bool)
    starts[1:] = (tokens.looks & _ENDS > 0)[which[:-1]] | (cells[1:] != cells[:-1])
    stays = (tokens.words > 0)[which] & ~(starts & upper)
    kind = np.where(starts, STARTING_LOWER, np.where(upper, INSIDE_UPPER, INSIDE_LOWER))
    return PostingList.of(tokens.words, which[stays], (cells - BODY + kind)[stays], chunks)
