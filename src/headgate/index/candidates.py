"""Candidates: which chunks of a large collection are worth ranking for a query.

The database hands over lists of postings, one run a term or name, with the numbers of the blocks they come from. A
chunk's place is its block's number and its own in it. All lists are joined, each posting has a value, and the values of
one place are added up. Runs come sorted, so one stable sort merges them.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from headgate.protocols import BLOCK_BITS, KeyLists
from headgate.rank.fields import table
from headgate.rank.lexical import idf

_PAIR = 4  # bytes of a posting: its number in the block and its value, 16 bits each

Floats = npt.NDArray[np.float64]


def best_by_words(lists: Sequence[KeyLists], chunks: int, most: int) -> list[int]:
    """The places with the highest sums of idf · n / (n + 1), where a term stands n times; best first."""
    worth = [idf(chunks, found.chunks) for found in lists]
    return _best_places(lists, worth, _saturation(), most)


@cache
def _saturation() -> Floats:
    """The share n / (n + 1) of each packed posting."""
    times = table(title=1.0, speaker=1.0, date=1.0).astype(np.float64)
    return times / (times + 1)


def best_by_names(lists: Sequence[KeyLists], chunks: int, most: int, *, spread: float) -> list[int]:
    """The places with the highest sums of idf / df ** spread over the names that stand there; best first."""
    worth = [idf(chunks, found.chunks) / max(found.chunks, 1) ** spread for found in lists]
    return _best_places(lists, worth, np.ones(1 << 16), most)


def _best_places(
    lists: Sequence[KeyLists], worth: Sequence[float], values: Floats, most: int
) -> list[int]:
    """The places with the highest sums: a posting counts its key's worth times the value of its packed counts."""
    pairs = np.frombuffer(b"".join(found.lists or b"" for found in lists), "<u2").reshape(-1, 2)
    blocks = np.frombuffer(b"".join(found.blocks or b"" for found in lists), ">i4")
    sizes = np.frombuffer(b"".join(found.sizes or b"" for found in lists), ">i4") // _PAIR
    lengths = [len(found.lists or b"") // _PAIR for found in lists]
    places = np.repeat(blocks.astype(np.int64) << BLOCK_BITS, sizes) + pairs[:, 0]
    order = np.argsort(places, kind="stable")
    places = places[order]
    if not len(places):
        return []
    begins = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    counted = values.take(pairs[:, 1]) * np.repeat(worth, lengths)
    scores = np.add.reduceat(counted[order], begins)
    if len(scores) > most:
        stays = np.sort(np.argpartition(-scores, most - 1)[:most])
        begins, scores = begins[stays], scores[stays]
    best: list[int] = places[begins[np.argsort(-scores, kind="stable")]].tolist()
    return best
