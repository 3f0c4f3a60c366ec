"""KnownPostings: what was read of a narrowed collection, remembered while its postings stay as they are.

Questions on one matter read the same lists and drafts. Those of the last questions are kept, for all collections of a
process together; with a change of its postings a collection begins anew. Where replicas answer, what was read may be
older than the totals, and nothing is kept.
"""

import math
from collections.abc import Collection, Sequence
from hashlib import blake2b
from time import monotonic

import numpy as np

from headgate.index.arrays import Ints, Keys
from headgate.index.blocks import to_signed
from headgate.protocols import KeyLists, PostingStore, Totals
from headgate.text.cache import Recent

_MOST_COUNTS = 200_000
_BYTES = 32_000_000  # of lists, and of drafts: those of some fifty questions
_OVERHEAD = 200  # bytes of a list or a draft beside its data
_ENTRIES = 50_000

Draft = tuple[int, str, bytes]


class RecentReads:
    """Lists and drafts that were read last, each by the version of its collection's postings."""

    def __init__(self) -> None:
        self.lists: Recent[tuple[object, ...], Sequence[KeyLists]] = Recent(
            _ENTRIES,
            math.inf,
            monotonic,
            size=_BYTES,
            measure=lambda lists: sum(len(one.lists or b"") + _OVERHEAD for one in lists),
        )
        self.drafts: Recent[tuple[object, int], Draft] = Recent(
            _ENTRIES, math.inf, monotonic, size=_BYTES, measure=lambda it: len(it[2]) + _OVERHEAD
        )


class KnownPostings:
    """The postings of one collection under these totals."""

    def __init__(
        self, store: PostingStore, tenant: str, name: str, totals: Totals, recent: RecentReads
    ) -> None:
        self._store, self._here, self.totals = store, (tenant, name), totals
        self._recent, self._version = recent, object()
        self._counts: dict[int, int] = {}

    def holds_for(self, totals: Totals) -> bool:
        """Whether what is remembered is true under these totals."""
        return self.totals == totals and not self._store.may_lag

    def lists(
        self, keys: Keys, *, budget: int, least: int = 1, most: int | None = None
    ) -> Sequence[KeyLists]:
        """The lists of the rarest of some keys; how common each of them is is known afterwards."""
        asked = to_signed(keys)
        question = (self._version, blake2b(keys.tobytes()).digest(), budget, least, most)
        (found,) = self._recent.lists.find([question])
        if found is None:
            found = self._store.key_lists(*self._here, asked, budget=budget, least=least, most=most)
            self._recent.lists.keep({question: found})
        self._counts |= dict.fromkeys(asked, 0) | {one.key: one.chunks for one in found}
        return found

    def drafts(self, places: Collection[int]) -> list[Draft]:
        """Place, id and draft of the chunks at these places, in order; those that went meanwhile are left out."""
        asked = [(self._version, place) for place in sorted(places)]
        known = dict(zip(asked, self._recent.drafts.find(asked), strict=True))
        lacking = [place for (_, place), draft in known.items() if draft is None]
        read = self._store.drafts_at(*self._here, lacking)
        fresh = {(self._version, draft[0]): draft for draft in read}
        self._recent.drafts.keep(fresh)
        return [draft for draft in (known | fresh).values() if draft is not None]

    def count(self, keys: Keys) -> Ints:
        """In how many chunks of the collection each of some keys of the database stands."""
        asked = to_signed(keys)
        if len(self._counts) > _MOST_COUNTS:
            self._counts = {}
        known = self._counts
        if new := [key for key in asked if key not in known]:
            known |= {**dict.fromkeys(new, 0), **self._store.count_keys(*self._here, new)}
        return np.array([known[key] for key in asked], np.int64)
