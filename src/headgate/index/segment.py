"""Segment: the postings of a run of chunks, immutable.

Chunks are numbered by ordinals in the order they came. Everything a ranking asks for is an array: terms
by field, names, capitals, lengths, reading order, and the raw chunk ids. A segment in memory and one
mapped from a file are the same thing. Removing a chunk never changes a segment: LiveSegment
carries the ordinals that are dead, and merging leaves them out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.posting_list import (
    Alive,
    Counts,
    PostingList,
    count_keys,
    merge,
    merge_counts,
    to_slots,
)
from headgate.rank.fields import BODY, DATE, IN_BODY, IN_HEAD, IN_TITLE, SPEAKER, TITLE, pack
from headgate.text.languages import LANGUAGES
from headgate.text.names import capitalize, ends, names, word
from headgate.text.stopwords import ENGLISH
from headgate.text.terms import NUMBERS, number, read, terms
from headgate.text.turns import Turn, part
from headgate.types import Chunk

INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER = 0, 1, 2
_KIND = 7  # the low bits of a case key hold how the word stood ...
_ENDS = 4  # ... and, while reading, whether a sentence may end after it


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of a run of chunks."""

    ids: Bytes
    id_starts: Ints
    id_keys: Keys
    id_ords: Ints
    place: Ints
    position: Ints
    fields: Ints
    chars: Ints
    speaker: Keys
    told: Bytes
    language: Bytes
    terms: PostingList
    names: PostingList
    labels: Bytes
    label_starts: Ints
    case: Counts

    def __len__(self) -> int:
        return len(self.place)


@dataclass(slots=True)
class _Drafts:
    """What is read from the chunks of a batch, before it becomes arrays."""

    terms: list[int]
    fields: list[tuple[int, int, int, int]]
    names: list[str]
    flags: list[int]
    name_counts: list[int]
    case: list[int]
    case_counts: list[int]
    chars: list[int]
    speaker: list[int]
    told: list[bool]
    language: list[int]


def case_key(word: str) -> int:
    """The key under which a word is counted, its low bits free for how it stands."""
    return NUMBERS[word.lower()] & ~_KIND


class _Casing(dict[str, int]):
    """A piece of text -> the case key of its word (0 when it cannot be a name), and whether a sentence ends."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= _CACHE:
            self.clear()
        plain = piece.isalpha()  # most pieces are a word and nothing else
        found = piece if plain else word(piece)
        known = 0
        if len(found) > 2 and found.lower() not in ENGLISH:
            known = case_key(found) | (INSIDE_UPPER if found[0].isupper() else INSIDE_LOWER)
        self[piece] = known = known | (0 if plain or not ends(piece) else _ENDS)
        return known


_CASING = _Casing()
_CACHE = 1_000_000  # pieces remembered; beyond it the table starts afresh


def _draft(chunk: Chunk, out: _Drafts) -> None:
    line = part(chunk.text, chunk.metadata)
    pieces = line.body.split()
    body, language = read(line.body, pieces)
    title = terms(chunk.title, language) if chunk.title else []
    date = terms(line.date, language) if line.date else []
    speaker = terms(line.speaker, language) if line.speaker else []
    out.terms += title
    out.terms += date
    out.terms += speaker
    out.terms += body
    out.fields.append((len(title), len(date), len(speaker), len(body)))
    out.chars.append(len(chunk.text))
    out.speaker.append(number(line.speaker) if line.speaker else 0)
    out.told.append(line.told)
    out.language.append(LANGUAGES.index(language))
    out.case += map(_CASING.__getitem__, pieces)
    out.case_counts.append(len(pieces))
    _draft_names(chunk.title, line, out)


def _draft_names(title: str, line: Turn, out: _Drafts) -> None:
    flags = dict.fromkeys(names(line.body), IN_BODY)
    if title:
        for name in names(title):
            flags[name] = flags.get(name, 0) | IN_TITLE
    if line.date or line.speaker:
        for name in names(f"{line.date}. {capitalize(line.speaker)}"):
            flags[name] = flags.get(name, 0) | IN_HEAD
    out.names += flags
    out.flags += flags.values()
    out.name_counts.append(len(flags))


def _case(found: list[int], counts: list[int]) -> Counts:
    """Words inside sentences by how they are written, and small ones at starts; capitals there prove nothing."""
    keys, lengths = np.array(found, np.uint64), np.array(counts, np.int64)
    ended = np.append(True, (keys & np.uint64(_ENDS)) > 0)[:-1] if len(keys) else keys > 0
    ended[offsets(lengths)[:-1][lengths > 0]] = True
    keys = keys & ~np.uint64(_ENDS)
    upper = (keys & np.uint64(INSIDE_UPPER)) > 0
    keys = np.where(ended, keys | np.uint64(STARTING_LOWER), keys)
    stays = (keys > _KIND) & ~(ended & upper)
    owner = np.repeat(np.arange(len(lengths)), lengths)[stays]
    return count_keys(keys[stays], np.bincount(owner, minlength=len(lengths)))


def build(chunks: Iterable[Chunk], places: Sequence[int]) -> Segment:
    """A segment of these chunks, in this order."""
    chunks = list(chunks)
    out = _Drafts(*([] for _ in fields(_Drafts)))
    for chunk in chunks:
        _draft(chunk, out)
    ids, id_starts = join_texts([chunk.id for chunk in chunks])
    id_keys = np.array([number(chunk.id) for chunk in chunks], np.uint64)
    order = np.argsort(id_keys, kind="stable")
    lengths = np.array(out.fields, np.int64).reshape(len(chunks), 4)
    name_incidence, labels, label_starts = _names(out)
    return Segment(
        ids=ids,
        id_starts=id_starts,
        id_keys=id_keys[order],
        id_ords=order,
        place=np.array(places, np.int64),
        position=np.array([chunk.position for chunk in chunks], np.int64),
        fields=lengths,
        chars=np.array(out.chars, np.int64),
        speaker=np.array(out.speaker, np.uint64),
        told=np.array(out.told, np.uint8),
        language=np.array(out.language, np.uint8),
        terms=index_terms(np.array(out.terms, np.uint64), lengths),
        names=name_incidence,
        labels=labels,
        label_starts=label_starts,
        case=_case(out.case, out.case_counts),
    )


def index_terms(flat: Keys, fields: Ints) -> PostingList:
    """The posting list of terms in reading order, chunk by chunk; `fields` has how many stand in each field."""
    keys, own = to_slots(flat)
    lengths = fields.sum(1)
    count = len(fields)
    chunk = np.repeat(np.arange(count), lengths)
    field = np.repeat(np.tile(np.arange(4), count), fields.ravel())
    # word, chunk and field as one number: sorting numbers is several times faster than ranking them
    sorted_ = np.sort(((own.astype(np.int64) * count + chunk) << 2) | field)
    pairs, field = sorted_ >> 2, sorted_ & 3
    begins = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1])) if len(pairs) else pairs
    counts = [
        np.add.reduceat((field == which).astype(np.int64), begins) if len(begins) else begins
        for which in (TITLE, DATE, SPEAKER, BODY)
    ]
    slot, ords = np.divmod(pairs[begins], max(count, 1))
    return PostingList(
        keys,
        offsets(np.bincount(slot, minlength=len(keys))),
        ords.astype(np.uint32),
        pack(*counts),
        offsets(lengths),
        own,
    )


def _names(out: _Drafts) -> tuple[PostingList, Bytes, Ints]:
    flat = np.array(list(map(NUMBERS.__getitem__, out.names)), np.uint64)
    keys, own = to_slots(flat)
    lengths = np.array(out.name_counts, np.int64)
    chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    order = np.argsort(own, kind="stable")
    first = order[np.searchsorted(own[order], np.arange(len(keys)))]
    data, starts = join_texts([out.names[i] for i in first])
    found = PostingList(
        keys,
        offsets(np.bincount(own, minlength=len(keys))),
        chunk[order],
        np.array(out.flags, np.uint16)[order],
        offsets(lengths),
        own,
    )
    return found, data, starts


def join(parts: Sequence[tuple[Segment, Alive]]) -> Segment:
    """One segment of the living chunks of all, in order."""
    ids, id_starts = _join_text_arrays(
        [(s.ids, s.id_starts, np.flatnonzero(alive)) for s, alive in parts]
    )
    by_ord = [_unsorted(s)[alive] for s, alive in parts]
    id_keys = np.concatenate(by_ord)
    order = np.argsort(id_keys, kind="stable")
    found = merge([(s.names, alive) for s, alive in parts])
    labels, label_starts = _join_labels([s for s, _ in parts], found.keys)

    def column(name: str) -> npt.NDArray[np.generic]:
        return np.concatenate([getattr(s, name)[alive] for s, alive in parts])

    return Segment(
        ids=ids,
        id_starts=id_starts,
        id_keys=id_keys[order],
        id_ords=order,
        place=column("place").astype(np.int64),
        position=column("position").astype(np.int64),
        fields=column("fields").astype(np.int64),
        chars=column("chars").astype(np.int64),
        speaker=column("speaker").astype(np.uint64),
        told=column("told").astype(np.uint8),
        language=column("language").astype(np.uint8),
        terms=merge([(s.terms, alive) for s, alive in parts]),
        names=found,
        labels=labels,
        label_starts=label_starts,
        case=merge_counts([(s.case, alive) for s, alive in parts]),
    )


def _unsorted(segment: Segment) -> Keys:
    keys = np.empty(len(segment), np.uint64)
    keys[segment.id_ords] = segment.id_keys
    return keys


def _join_text_arrays(parts: Sequence[tuple[Bytes, Ints, Ints]]) -> tuple[Bytes, Ints]:
    lengths = [starts[which + 1] - starts[which] for _, starts, which in parts]
    data = [
        raw[ranges(starts[which], n)]
        for (raw, starts, which), n in zip(parts, lengths, strict=True)
    ]
    return np.concatenate(data), offsets(np.concatenate(lengths))


def _join_labels(segments: Sequence[Segment], keys: Keys) -> tuple[Bytes, Ints]:
    """The label of each key, from the first segment that has it; one blob, in the order of the keys."""
    source = np.concatenate([s.names.keys for s in segments])
    first = np.zeros(len(source), bool)
    order = np.argsort(source, kind="stable")
    ordered = source[order]
    first[order] = np.append(True, ordered[1:] != ordered[:-1]) if len(ordered) else True
    raw = np.concatenate([s.labels for s in segments])
    shifts = offsets(np.array([len(s.labels) for s in segments], np.int64))
    starts = np.concatenate(
        [s.label_starts[:-1] + shift for s, shift in zip(segments, shifts, strict=False)]
    )
    lengths = np.concatenate([np.diff(s.label_starts) for s in segments])
    everyone = source[first]
    rank = np.argsort(everyone)
    where = rank[np.searchsorted(everyone[rank], keys)]
    starts, lengths = starts[first][where], lengths[first][where]
    return raw[ranges(starts, lengths)], offsets(lengths)
