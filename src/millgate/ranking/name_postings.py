"""Name postings: which chunks hold which proper names, and how many do.

Names are found by their capitals in the seeds, or in whichever case where a given edge leads to them. A name in many
chunks leads nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millgate.protocols import Postings, Snapshot
from millgate.ranking.arrays import Floats, Ints, Keys, distinct
from millgate.ranking.fields import BODY, TITLE, unpack
from millgate.text.hashes import within
from millgate.text.terms import numbers, terms

NONE = np.zeros(0, np.uint64)
NO_ORDS, NO_VALUES = np.zeros(0, np.int64), np.zeros(0, np.uint16)


@dataclass(frozen=True, slots=True)
class NamePostings:
    """The rare proper names of some seeds: which chunks hold each, and how many do."""

    keys: Keys
    owned: npt.NDArray[np.bool_]  # seed × name
    ords: Ints
    which: Ints  # index into keys, per posting
    inside: npt.NDArray[np.bool_]
    titled: npt.NDArray[np.bool_]
    counts: Ints
    title_counts: Ints


def find_name_postings(
    view: Snapshot,
    seeds: Ints,
    *,
    limit: int,
    share: float,
    query: Keys = NONE,
) -> NamePostings:
    """The proper names of the seeds that lead on (2 to `limit` chunks) or that the query names."""
    mine = view.names(seeds)
    keys = distinct(np.concatenate(mine)) if mine else np.zeros(0, np.uint64)
    held = view.count_names(keys, limit=limit)
    fits = (held > 1) | ((held > 0) & within(query, keys))
    fits[fits] = view.is_proper(keys[fits], share=share)
    keys = keys[fits]
    hits = view.find_names(keys)
    which = np.repeat(np.arange(len(keys)), hits.counts)
    counts = unpack(hits.values)
    inside = (counts[BODY] if view.conversational else hits.values) > 0
    titled = counts[TITLE] > 0
    owned = np.zeros((len(mine), len(keys)), bool)
    for row, names in zip(owned, mine, strict=True):
        row[np.searchsorted(keys, names[within(keys, names)])] = True
    sizes = [np.bincount(which[found], minlength=len(keys)) for found in (inside, titled)]
    return NamePostings(keys, owned, hits.ords, which, inside, titled, *sizes)


def find_written_names(
    view: Snapshot, names: Sequence[str], *, limit: int
) -> tuple[list[str], NamePostings]:
    """Those of some names that chunks write, in whichever case, and where: a chunk holds every word of the name.

    A name in more than `limit` chunks leads nowhere, as among names with capitals. No seed owns one.
    """
    words = [sorted(set(terms(name, view.language))) for name in names]
    rare = [0 < count <= limit for count in _rarest(view, words)]
    asked = np.array(sorted({key for own, fits in zip(words, rare, strict=True) if fits for key in own}), np.uint64)  # fmt: skip
    hits = view.postings(asked)
    ends = np.cumsum(hits.counts)
    spans = {
        key: slice(end - count, end)
        for key, end, count in zip(asked.tolist(), ends.tolist(), hits.counts.tolist(), strict=True)
    }
    found: list[str] = []
    parts: list[tuple[Ints, npt.NDArray[np.uint16]]] = []
    for name, own, fits in zip(names, words, rare, strict=True):
        ords, values = (
            _holding_all(hits, [spans[key] for key in own]) if fits else (NO_ORDS, NO_VALUES)
        )
        if len(ords):
            found.append(name)
            parts.append((ords, values))
    which = np.repeat(np.arange(len(parts)), [len(ords) for ords, _ in parts])
    held = unpack(np.concatenate([NO_VALUES, *(values for _, values in parts)]))
    inside, titled = held[BODY] > 0, held[TITLE] > 0
    return found, NamePostings(
        keys=np.array(numbers(found), np.uint64),
        owned=np.zeros((0, len(found)), bool),
        ords=np.concatenate([NO_ORDS, *(ords for ords, _ in parts)]),
        which=which,
        inside=inside,
        titled=titled,
        counts=np.bincount(which[inside], minlength=len(found)),
        title_counts=np.bincount(which[titled], minlength=len(found)),
    )


def select_rare(view: Snapshot, names: Sequence[str], *, limit: int) -> list[str]:
    """Those of some names of which one word stands in at most `limit` chunks."""
    counts = _rarest(view, [sorted(set(terms(name, view.language))) for name in names])
    return [name for name, count in zip(names, counts, strict=True) if count <= limit]


def _rarest(view: Snapshot, words: Sequence[Sequence[int]]) -> list[int]:
    """In how many chunks the rarest word of each name stands; 0 for a name without words."""
    keys = np.array(sorted({key for own in words for key in own}), np.uint64)
    known = dict(zip(keys.tolist(), view.frequencies(keys).tolist(), strict=True))
    return [min((known[key] for key in own), default=0) for own in words]


def _holding_all(hits: Postings, spans: Sequence[slice]) -> tuple[Ints, npt.NDArray[np.uint16]]:
    """The chunks that all of some terms stand in, and where the last of these terms stands there."""
    ords, values = hits.ords[spans[0]], hits.values[spans[0]]
    for span in spans[1:]:
        here = within(ords, hits.ords[span])
        ords, values = hits.ords[span][here], hits.values[span][here]
    return ords, values


def shares_name(view: Snapshot, seeds: Ints, query: Keys, *, limit: int, share: float) -> bool:
    """Whether the query has a name that `find_name_postings` would find, without a look at the seeds' other names."""
    keys = distinct(np.concatenate([query[:0], *view.names(seeds)]))
    keys = keys[within(query, keys)]
    rare = keys[view.count_names(keys, limit=limit) > 0] if len(keys) else keys
    return bool(len(rare)) and bool(view.is_proper(rare, share=share).any())


def strongest_names(names: NamePostings, posting_flow: Floats, ords: Ints) -> dict[int, int]:
    """The name (index into keys) through which most reached each of a few chunks."""
    here = np.flatnonzero(within(np.sort(ords), names.ords))
    order = here[np.argsort(posting_flow[here], kind="stable")]
    return dict(zip(names.ords[order].tolist(), names.which[order].tolist(), strict=True))
