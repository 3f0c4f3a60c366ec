"""Reading: the texts of a batch of chunks as arrays.

A text is split at spaces. A batch has few distinct pieces, so each gets a slot when it is first met, and only then is
looked at: which terms it has in the language of its text, and how its word is written. A text is a run of
slots, and everything that is counted in texts is counted in arrays of them.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.casing import CASING, count_case
from headgate.index.posting_list import Counts, PostingList, to_slots
from headgate.rank.fields import BODY, IN_BODY, IN_HEAD, IN_TITLE
from headgate.text.languages import LANGUAGES
from headgate.text.names import capitalize, names
from headgate.text.terms import NUMBERS, language_of, number, piece_terms
from headgate.text.turns import Turn, part
from headgate.types import Chunk

T = TypeVar("T")
_LANGUAGE = {language: n for n, language in enumerate(LANGUAGES)}


class _Slots(dict[str, int]):
    """A piece of text, or a name -> its slot; what is new gets the next one."""

    def __init__(self, free: Iterator[int]) -> None:
        super().__init__()
        self._free = free

    def __missing__(self, text: str) -> int:
        self[text] = slot = next(self._free)
        return slot


class Reading:
    """What the texts of some chunks say, chunk by chunk."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.chars = array("q")
        self.speaker = array("Q")
        self.told = array("B")
        self.language = array("B")
        self._pieces: dict[str, _Slots] = {}
        self._free = count()
        self._slots = array("i")
        self._counts = array("q")
        self._names = _Slots(count())
        self._name_slots = array("i")
        self._flags = array("H")
        self._name_counts = array("q")
        for chunk in chunks:
            self._read(chunk)

    def _read(self, chunk: Chunk) -> None:
        line = part(chunk.text, chunk.metadata)
        body = line.body.split()
        language = language_of(line.body, body)
        self.chars.append(len(chunk.text))
        self.speaker.append(number(line.speaker) if line.speaker else 0)
        self.told.append(line.told)
        self.language.append(_LANGUAGE[language])
        pieces = self._pieces.get(language)
        if pieces is None:
            pieces = self._pieces[language] = _Slots(self._free)
        for text in (chunk.title.split(), line.date.split(), line.speaker.split(), body):
            self._slots.extend(map(pieces.__getitem__, text))
            self._counts.append(len(text))
        self._read_names(chunk.title, line)

    def _read_names(self, title: str, line: Turn) -> None:
        flags = dict.fromkeys(names(line.body), IN_BODY)
        if title:
            for name in names(title):
                flags[name] = flags.get(name, 0) | IN_TITLE
        if line.date or line.speaker:
            for name in names(f"{line.date}. {capitalize(line.speaker)}"):
                flags[name] = flags.get(name, 0) | IN_HEAD
        self._name_slots.extend(map(self._names.__getitem__, flags))
        self._flags.extend(flags.values())
        self._name_counts.append(len(flags))

    def terms(self) -> tuple[Keys, npt.NDArray[np.uint32], Ints]:
        """The vocabulary, the terms of all chunks as slots into it, and how many stand in each field of each chunk."""
        found = self._of_pieces(
            lambda pieces, language: map(piece_terms(language).__getitem__, pieces)
        )
        counts = np.fromiter(map(len, found), np.int64, len(found))
        flat = np.fromiter(chain.from_iterable(found), np.uint64, int(counts.sum()))
        keys, places = to_slots(flat)
        slots = np.asarray(self._slots, np.int32)
        mine = counts[slots]
        own = places[ranges(offsets(counts)[slots], mine)]
        ends = offsets(mine)[offsets(np.asarray(self._counts))]
        return keys, own, np.diff(ends).reshape(-1, 4)

    def case(self) -> Counts:
        """How the words of the bodies are written."""
        found = self._of_pieces(lambda pieces, _: map(CASING.__getitem__, pieces))
        cases = np.array(found, np.uint64)
        counts = np.asarray(self._counts)
        begins, lengths = offsets(counts)[BODY:-1:4], counts[BODY::4]
        slots = np.asarray(self._slots, np.int32)[ranges(begins, lengths)]
        return count_case(cases, slots, lengths)

    def _of_pieces(self, read: Callable[[Collection[str], str], Iterable[T]]) -> list[T]:
        """What is read of the pieces of each language, in the order of their slots."""
        found: dict[int, T] = {}
        for language, slots in self._pieces.items():
            found.update(zip(slots.values(), read(slots, language), strict=True))
        return list(map(found.__getitem__, range(len(found))))

    def names(self) -> tuple[PostingList, Bytes, Ints]:
        """The posting list of names, and how each reads: one run of bytes and the offsets into it."""
        numbers = np.fromiter(map(NUMBERS.__getitem__, self._names), np.uint64, len(self._names))
        keys, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        own = places.astype(np.uint32)[np.asarray(self._name_slots, np.int32)]
        lengths = np.asarray(self._name_counts)
        chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
        order = np.argsort(own, kind="stable")
        labels = list(self._names)
        data, starts = join_texts([labels[i] for i in first.tolist()])
        found = PostingList(
            keys,
            offsets(np.bincount(own, minlength=len(keys))),
            chunk[order],
            np.asarray(self._flags)[order],
            offsets(lengths),
            own,
        )
        return found, data, starts
