"""Reading: the texts of a batch of chunks as arrays.

A text is split at spaces, and its pieces become slots of the lexicon, which knows the terms of each and how it is
written. Everything else is done for the whole batch at once, in arrays.
"""

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.casing import count_case
from headgate.index.lexicon import current_lexicon
from headgate.index.posting_list import Counts, PostingList, to_slots
from headgate.rank.fields import BODY, IN_BODY, IN_HEAD, IN_TITLE
from headgate.text.languages import LANGUAGES
from headgate.text.names import capitalize, names
from headgate.text.terms import NUMBERS, language_of, number
from headgate.text.turns import Turn, part
from headgate.types import Chunk

_LANGUAGE = {language: n for n, language in enumerate(LANGUAGES)}


class _Names(dict[str, int]):
    """A name -> its slot, in the order in which names are met."""

    def __missing__(self, name: str) -> int:
        self[name] = slot = len(self)
        return slot


class Reading:
    """What the texts of some chunks say, chunk by chunk."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.chars = array("q")
        self.speaker = array("Q")
        self.told = array("B")
        self.language = array("B")
        self._lexicon = current_lexicon()
        self._pieces = array("i")
        self._counts = array("q")
        self._names = _Names()
        self._name_slots = array("i")
        self._flags = array("H")
        self._name_counts = array("q")
        for chunk in chunks:
            self._read(chunk)
        # the few pieces that occur here, out of all that are known
        pieces = np.asarray(self._pieces)
        used = np.flatnonzero(np.bincount(pieces))
        rank = np.zeros(len(self._lexicon), np.int32)
        rank[used] = np.arange(len(used))
        self._slots = rank[pieces]
        self._term_counts, self._terms, self._cases = self._lexicon.read(used)

    def _read(self, chunk: Chunk) -> None:
        line = part(chunk.text, chunk.metadata)
        body = line.body.split()
        language = language_of(line.body, body)
        self.chars.append(len(chunk.text))
        self.speaker.append(number(line.speaker) if line.speaker else 0)
        self.told.append(line.told)
        self.language.append(_LANGUAGE[language])
        slots = self._lexicon.slots(language)
        for text in (chunk.title.split(), line.date.split(), line.speaker.split(), body):
            self._pieces.extend(map(slots.__getitem__, text))
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
        keys, places = to_slots(self._terms)
        counts = self._term_counts[self._slots]
        own = places[ranges(offsets(self._term_counts)[self._slots], counts)]
        ends = offsets(counts)[offsets(np.asarray(self._counts))]
        return keys, own, np.diff(ends).reshape(-1, 4)

    def case(self) -> Counts:
        """How the words of the bodies are written."""
        counts = np.asarray(self._counts)
        begins, lengths = offsets(counts)[BODY:-1:4], counts[BODY::4]
        return count_case(self._cases, self._slots[ranges(begins, lengths)], lengths)

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
