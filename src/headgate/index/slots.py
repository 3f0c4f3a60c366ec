"""Slots: where keys stand in the sorted vocabularies of several segments.

A request asks for the same keys several times: how common they are, which chunks have them, where they stand in a
chunk. Finding a key among a million costs a dozen cache misses, so the last answers are remembered.
"""

from collections.abc import Sequence

import numpy as np

from headgate.index.arrays import Ints, Keys, find

_KEPT = 3  # the terms of a query, those of its best chunks, and one more for a request beside it


class Slots:
    """Looks keys up in several vocabularies. Threads may share it: what is remembered is replaced as a whole."""

    def __init__(self, vocabularies: Sequence[Keys]) -> None:
        self._vocabularies = vocabularies
        self._recent: tuple[tuple[Keys, Ints], ...] = ()

    def __call__(self, keys: Keys) -> Ints:
        """The slot of each key in each vocabulary (vocabulary × key), -1 where it has none."""
        if not len(keys):
            return np.zeros((len(self._vocabularies), 0), np.int64)
        for known, slots in self._recent:
            at, there = find(known, keys)
            if there.all():
                return slots[:, at]
        order = np.argsort(keys)
        asked = keys[order]
        found = np.full((len(self._vocabularies), len(keys)), -1, np.int64)
        for row, vocabulary in zip(found, self._vocabularies, strict=True):
            slots, there = find(vocabulary, asked)
            row[there] = slots[there]
        self._recent = ((asked, found), *self._recent[: _KEPT - 1])
        return found[:, find(asked, keys)[0]]
