"""Segment: the postings of a run of chunks, immutable.

Chunks are numbered by ordinals in the order they came. Everything a ranking asks for is an array: terms
by field, names, capitals, lengths, reading order, and the raw chunk ids. A segment in memory and one
mapped from a file are the same thing. Removing a chunk never changes a segment: LiveSegment
carries the ordinals that are dead, and merging leaves them out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millgate.calls.lazy import lazy_property
from millgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets
from millgate.index.collection_kind import CERTAIN, DECLARED, SHORT
from millgate.index.posting_list import Counts, PostingList
from millgate.index.tokenized_batch import TokenizedBatch
from millgate.ranking.fields import BODY, DATE, SPEAKER, TITLE, pack
from millgate.text.languages import LANGUAGES
from millgate.text.terms import numbers
from millgate.types import Chunk


@dataclass(frozen=True, slots=True)
class Totals:
    """What some chunks add up to: terms by field, chunks by language, by what they show of being turns, by speaker."""

    fields: Ints
    languages: Ints
    declared: int
    certain: int
    short: int
    speakers: Keys
    lines: Ints

    def join(self, other: "Totals", sign: int = 1) -> "Totals":
        """The totals of both; with -1, without those of the other."""
        speakers, at = np.unique(
            np.concatenate([self.speakers, other.speakers]), return_inverse=True
        )
        lines = np.zeros(len(speakers), np.int64)
        np.add.at(lines, at, np.concatenate([self.lines, sign * other.lines]))
        return Totals(
            self.fields + sign * other.fields,
            self.languages + sign * other.languages,
            self.declared + sign * other.declared,
            self.certain + sign * other.certain,
            self.short + sign * other.short,
            speakers[lines > 0],
            lines[lines > 0],
        )


@dataclass(frozen=True)
class Segment:
    """The postings of a run of chunks. What they add up to is computed once, and kept as long as the segment is."""

    ids: Bytes
    id_starts: Ints
    id_keys: Keys
    id_ords: Ints
    place: Ints
    position: Ints
    fields: Ints
    chars: Ints
    speaker: Keys
    evidence: Bytes
    language: Bytes
    terms: PostingList
    names: PostingList
    labels: Bytes
    label_starts: Ints
    case: Counts

    def __len__(self) -> int:
        return len(self.place)

    def add_up(self, some: Ints | slice) -> Totals:
        """What some of the chunks add up to."""
        speaker, evidence = self.speaker[some], self.evidence[some]
        speakers, lines = np.unique(speaker[speaker > 0], return_counts=True)
        return Totals(
            self.fields[some].sum(0),
            np.bincount(self.language[some], minlength=len(LANGUAGES)),
            int((evidence & DECLARED > 0).sum()),
            int((evidence & CERTAIN > 0).sum()),
            int((self.chars[some] < SHORT).sum()),
            speakers,
            lines,
        )

    @lazy_property
    def totals(self) -> Totals:
        """What all chunks add up to."""
        return self.add_up(slice(None))

    @lazy_property
    def _lengths(self) -> dict[tuple[float, bool], npt.NDArray[np.float64]]:
        return {}

    def lengths(self, title: float, *, head: bool) -> npt.NDArray[np.float64]:
        """The length of each chunk in terms, its title weighed."""
        if (title, head) not in self._lengths:
            self._lengths[title, head] = weigh_fields(self.fields, title, head=head)
        return self._lengths[title, head]


def weigh_fields(fields: Ints, title: float, *, head: bool) -> npt.NDArray[np.float64]:
    """The length of texts of so many terms in each field; a title's count `title` times."""
    length: npt.NDArray[np.float64] = fields[..., BODY] + title * fields[..., TITLE]
    return np.asarray(length + fields[..., DATE] + fields[..., SPEAKER] if head else length)


def build(chunks: Iterable[Chunk], places: Sequence[int]) -> Segment:
    """A segment of these chunks, in this order."""
    chunks = list(chunks)
    batch = TokenizedBatch(chunks)
    ids, id_starts = join_texts([chunk.id for chunk in chunks])
    id_keys = np.array(numbers(chunk.id for chunk in chunks), np.uint64)
    order = np.argsort(id_keys, kind="stable")
    keys, own, fields = batch.terms()
    names, labels, label_starts = batch.names()
    return Segment(
        ids=ids,
        id_starts=id_starts,
        id_keys=id_keys[order],
        id_ords=order,
        place=np.array(places, np.int64),
        position=np.array([chunk.position for chunk in chunks], np.int64),
        fields=fields,
        chars=batch.chars,
        speaker=batch.speaker,
        evidence=batch.evidence,
        language=batch.language,
        terms=_index_terms(keys, own, fields),
        names=names,
        labels=labels,
        label_starts=label_starts,
        case=batch.case(),
    )


def _index_terms(keys: Keys, own: npt.NDArray[np.uint32], fields: Ints) -> PostingList:
    """The posting list of terms, given as ids in the vocabulary in reading order, chunk by chunk.

    `fields` has how many of them stand in each field.
    """
    lengths = fields.sum(1)
    bits = len(fields).bit_length()
    # word, chunk and field as one number: sorting numbers is several times faster than ranking them
    pairs = own.astype(np.int64)
    pairs <<= bits + 2
    pairs |= np.repeat(np.arange(4 * len(fields), dtype=np.int32), fields.ravel())
    pairs.sort()
    field = pairs.astype(np.uint8)
    field &= 3
    pairs >>= 2
    fresh = np.ones(len(pairs), bool)
    np.not_equal(pairs[1:], pairs[:-1], out=fresh[1:])
    begins = np.flatnonzero(fresh)
    pairs = pairs[begins]
    ords = (pairs & ((1 << bits) - 1)).astype(np.uint32)
    pairs >>= bits
    return PostingList(
        keys,
        offsets(np.bincount(pairs, minlength=len(keys))),
        ords,
        _pack_fields(field, begins),
        offsets(lengths),
        own,
    )


def _pack_fields(field: Bytes, begins: Ints) -> npt.NDArray[np.uint16]:
    """How often each field occurs in each run: in the title, the date, the speaker, and all the rest in the body."""
    counts = np.diff(begins, append=len(field))
    heads = np.flatnonzero(field != BODY)
    runs, at = np.unique(np.searchsorted(begins, heads, "right") - 1, return_inverse=True)
    title, date, speaker = (
        np.bincount(at[field[heads] == which], minlength=len(runs))
        for which in (TITLE, DATE, SPEAKER)
    )
    packed = np.minimum(counts, 255).astype(np.uint16)  # most words stand in bodies alone
    packed[runs] = pack(title, date, speaker, counts[runs] - title - date - speaker)
    return packed
