"""Name postings: which chunks hold which proper names, and how many do.

Names are found by their capitals in the seeds, or in whichever case where a given edge leads to them. A name in many
chunks leads nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millgate.protocols import Snapshot
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

    @property
    def counts(self) -> Ints:
        """In how many texts each name stands."""
        return np.bincount(self.which[self.inside], minlength=len(self.keys))

    @property
    def title_counts(self) -> Ints:
        """In how many titles each name stands."""
        return np.bincount(self.which[self.titled], minlength=len(self.keys))


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
    return NamePostings(keys, owned, hits.ords, which, inside, titled)


def find_written_names(
    view: Snapshot, names: Sequence[str], *, limit: int
) -> tuple[list[str], NamePostings]:
    """Those of some names that chunks write, in whichever case, and where: a chunk holds every word of the name.

    A name in more than `limit` chunks leads nowhere, as among names with capitals. No seed owns one.
    """
    found: list[str] = []
    parts: list[tuple[Ints, npt.NDArray[np.uint16]]] = []
    for name in select_rare(view, names, limit=limit):
        hits = view.postings(np.array(sorted(set(terms(name, view.language))), np.uint64))
        here, *others = np.split(np.arange(len(hits.ords)), np.cumsum(hits.counts)[:-1])
        for span in others:
            here = span[within(hits.ords[here], hits.ords[span])]
        if len(here):
            found.append(name)
            parts.append((hits.ords[here], hits.values[here]))
    held = unpack(np.concatenate([NO_VALUES, *(values for _, values in parts)]))
    return found, NamePostings(
        keys=np.array(numbers(found), np.uint64),
        owned=np.zeros((0, len(found)), bool),
        ords=np.concatenate([NO_ORDS, *(ords for ords, _ in parts)]),
        which=np.repeat(np.arange(len(parts)), [len(ords) for ords, _ in parts]),
        inside=held[BODY] > 0,
        titled=held[TITLE] > 0,
    )


def select_rare(view: Snapshot, names: Sequence[str], *, limit: int) -> list[str]:
    """Those of some names of which one word stands in at most `limit` chunks."""
    found = []
    for name in names:
        own = np.array([*set(terms(name, view.language))], np.uint64)
        if len(own) and view.frequencies(own).min() <= limit:
            found.append(name)
    return found


def strongest_names(names: NamePostings, posting_flow: Floats, ords: Ints) -> dict[int, int]:
    """The name (index into keys) through which most reached each of a few chunks."""
    here = np.flatnonzero(within(np.sort(ords), names.ords))
    order = here[np.argsort(posting_flow[here], kind="stable")]
    return dict(zip(names.ords[order].tolist(), names.which[order].tolist(), strict=True))
