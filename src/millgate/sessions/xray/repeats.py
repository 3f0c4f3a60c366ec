"""Repeats: how much of a text stood in the window before, word for word.

The measure is the project's own (`text.coverage`): a token is known when it lies inside a run of 5 tokens that an
earlier part of the window has. Parts are measured many at a time: one sort tells for every run in which part it first
stood.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from millgate.text.coverage import SHINGLE, covered_shares
from millgate.text.hashes import U64, Tokens, shingle_hashes, within
from millgate.text.words import Bools

NOTHING = np.zeros(0, np.uint64)
MAX_KNOWN = 2_000_000  # runs remembered of one window; 16 MB, more than most models' windows hold


class KnownText:
    """What a window holds so far."""

    def __init__(self) -> None:
        self._known = NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing yet."""
        return self._known is NOTHING

    def measure(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """For each text the share, 0..1, that stood in the window or in a text before it; then they stand there too."""
        tokens = Tokens.of(texts)
        hashes = shingle_hashes(tokens.values, SHINGLE)
        if not hashes.size:
            return np.zeros(len(texts))
        owner = np.repeat(np.arange(len(texts)), tokens.counts)
        whole = np.flatnonzero(owner[: hashes.size] == owner[SHINGLE - 1 :])  # runs inside one text
        order = whole[np.argsort(hashes[whole], kind="stable")]
        distinct, earlier = self._look_up(hashes[order], owner[order])
        self._keep(distinct)
        at = np.sort(order[earlier])
        return covered_shares(at, owner[at], tokens.counts)

    def _look_up(self, ordered: U64, owners: NDArray[np.int64]) -> tuple[U64, Bools]:
        """The distinct runs, and for each run whether the window or an earlier text has it."""
        starts = np.ones(ordered.size, dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
        group = np.cumsum(starts) - 1
        distinct = ordered[starts]
        first = owners[starts]
        return distinct, within(self._known, distinct)[group] | (owners > first[group])

    def _keep(self, distinct: U64) -> None:
        full = self._known.size + distinct.size > MAX_KNOWN
        self._known = distinct if full else np.union1d(self._known, distinct)
