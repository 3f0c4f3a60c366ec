"""Reading: the texts of a batch of chunks as arrays.

A text is split at spaces, and its pieces become slots of the lexicon, which knows the terms of each and how it is
written. Everything else is done for the whole batch at once, in arrays.
"""

from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from headgate.forks import ForkSafeLock
from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.casing import count_case
from headgate.index.lexicon import Pieces, Slots, current_lexicon
from headgate.index.posting_list import Counts, PostingList, to_slots
from headgate.rank.fields import BODY, IN_BODY, IN_HEAD, IN_TITLE
from headgate.text.languages import LANGUAGES, detect_all
from headgate.text.names import capitalize, names_of, spans
from headgate.text.terms import number, numbers
from headgate.text.turns import Turn, part
from headgate.types import Chunk

_AT_ONCE = 1_000  # chunks whose pieces are held in memory together: some 10 MB
_PIECES = 1 << 18  # pieces whose terms are looked up together, at 40 bytes each
_NAME_BYTES = 8_000_000  # of names that are remembered from batch to batch, some 18 000
_SAMPLE = 48  # pieces at the beginning of a body that may prove it English
_LANGUAGE = {language: n for n, language in enumerate(LANGUAGES)}


class _NameSlots(dict[str, tuple[int, ...]]):
    """A capitalized span -> the slots of its names. Slots are given out for good, to any number of threads."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: dict[str, int] = {}
        self._keys = array("Q")
        self._size = 0
        self._lock = ForkSafeLock()

    @property
    def is_full(self) -> bool:
        """Whether no more spans are remembered."""
        return self._size >= _NAME_BYTES

    def __missing__(self, span: str) -> tuple[int, ...]:
        known, found = self._slots, names_of(span)
        with self._lock:
            slots = tuple([known.setdefault(name, len(known)) for name in found])
            self._size += 400 + 4 * len(span)
        if not self.is_full:
            self[span] = slots
        return slots

    def of(self, text: str) -> Iterator[int]:
        """The slots of the names in a text."""
        return chain.from_iterable(map(self.__getitem__, spans(text)))

    def read(self) -> tuple[list[str], Keys]:
        """All names by slot, and their numbers."""
        with self._lock:
            labels = list(self._slots)
            self._keys.extend(numbers(labels[len(self._keys) :]))
            return labels, np.array(self._keys, np.uint64)


_current = _NameSlots()


def _forget_many_names() -> None:
    """Begin anew where no more names can be remembered."""
    global _current  # noqa: PLW0603  (a cache)
    if _current.is_full:
        _current = _NameSlots()


@cache
def _telling_keys() -> Keys:
    """Of words that English has alone."""
    return Pieces.of(["the of and with that this from was were for The"]).keys


def read_languages(bodies: Sequence[str], pieces: Pieces) -> list[str]:
    """The languages of bodies; one that opens with many words that only English has needs no vote."""
    telling = offsets(np.isin(pieces.keys, _telling_keys()).view(np.uint8))
    begins, sample = offsets(pieces.counts)[BODY:-1:4], np.minimum(pieces.counts[BODY::4], _SAMPLE)
    english = (8 * (telling[begins + sample] - telling[begins]) >= sample).tolist()
    rest = detect_all([body for body, known in zip(bodies, english, strict=True) if not known])
    others = iter(rest)
    return ["english" if known else next(others) for known in english]


class Reading:
    """What the texts of some chunks say, chunk by chunk."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chars = array("q")
        self.speaker = array("Q")
        self.declared = array("B")
        self.language = array("B")
        self._lexicon = current_lexicon()
        self._counts = array("q")
        self._slots_of_names = _current
        self._name_slots = array("i")
        self._flags = array("H")
        self._name_counts = array("q")
        read = [self._read(chunks[at : at + _AT_ONCE]) for at in range(0, len(chunks), _AT_ONCE)]
        _forget_many_names()
        pieces = np.concatenate(read) if read else np.zeros(0, np.int32)
        # the few pieces that occur here, out of all that are known
        used = np.flatnonzero(np.bincount(pieces))
        rank = np.zeros(len(self._lexicon), np.int32)
        rank[used] = np.arange(len(used))
        self._slots = rank[pieces]
        self._term_counts, self._terms, self._cases = self._lexicon.read(used)

    def _read(self, chunks: Sequence[Chunk]) -> Slots:
        lines = [part(chunk.text, chunk.metadata) for chunk in chunks]
        self.chars.extend([len(chunk.text) for chunk in chunks])
        self.speaker.extend([number(line.speaker) if line.speaker else 0 for line in lines])
        self.declared.extend([line.declared for line in lines])
        texts = [
            (chunk.title, line.date, line.speaker, line.body)
            for chunk, line in zip(chunks, lines, strict=True)
        ]
        pieces = Pieces.of(list(chain.from_iterable(texts)))
        languages = read_languages([line.body for line in lines], pieces)
        self.language.extend(map(_LANGUAGE.__getitem__, languages))
        self._counts.frombytes(pieces.counts.tobytes())
        for chunk, line in zip(chunks, lines, strict=True):
            self._read_names(chunk.title, line)
        return self._lexicon.slots(pieces, languages, pieces.counts.reshape(-1, 4).sum(1))

    def _read_names(self, title: str, line: Turn) -> None:
        slots = self._slots_of_names.of
        flags = dict.fromkeys(slots(line.body), IN_BODY)
        if title:
            for slot in slots(title):
                flags[slot] = flags.get(slot, 0) | IN_TITLE
        if line.date or line.speaker:
            for slot in slots(f"{line.date}. {capitalize(line.speaker)}"):
                flags[slot] = flags.get(slot, 0) | IN_HEAD
        self._name_slots.extend(flags)
        self._flags.extend(flags.values())
        self._name_counts.append(len(flags))

    def terms(self) -> tuple[Keys, npt.NDArray[np.uint32], Ints]:
        """The vocabulary, the terms of all chunks as slots into it, and how many stand in each field of each chunk."""
        keys, places = to_slots(self._terms)
        begins = offsets(self._term_counts)
        parts = [
            places[ranges(begins[some], self._term_counts[some])]
            for at in range(0, len(self._slots), _PIECES)
            for some in (self._slots[at : at + _PIECES],)
        ]
        own = np.concatenate(parts) if parts else places
        ends = offsets(self._term_counts[self._slots])[offsets(np.asarray(self._counts))]
        return keys, own, np.diff(ends).reshape(-1, 4)

    def case(self) -> Counts:
        """How the words of the bodies are written."""
        counts = np.asarray(self._counts)
        begins, lengths = offsets(counts)[BODY:-1:4], counts[BODY::4]
        return count_case(self._cases, self._slots[ranges(begins, lengths)], lengths)

    def names(self) -> tuple[PostingList, Bytes, Ints]:
        """The posting list of names, and how each reads: one run of bytes and the offsets into it."""
        labels, known = self._slots_of_names.read()
        met = np.asarray(self._name_slots, np.int32)
        used = np.flatnonzero(np.bincount(met, minlength=len(known)))
        keys, first, places = np.unique(known[used], return_index=True, return_inverse=True)
        rank = np.zeros(len(known), np.uint32)
        rank[used] = places
        own = rank[met]
        lengths = np.asarray(self._name_counts)
        chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
        order = np.argsort(own, kind="stable")
        data, starts = join_texts([labels[slot] for slot in used[first].tolist()])
        listed = PostingList(
            keys,
            offsets(np.bincount(own, minlength=len(keys))),
            chunk[order],
            np.asarray(self._flags)[order],
            offsets(lengths),
            own,
        )
        return listed, data, starts
