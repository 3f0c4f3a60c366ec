"""Fields: how often a term stands in each part of a chunk, packed into 16 bits of a posting.

    bits 0-7 body (up to 255) | 8-11 title (15) | 12-13 speaker (3) | 14-15 date (3)

A table of 65 536 weights turns a posting into a weighted count in one gather, so the same postings serve
every weighting: plain BM25, BM25F, and conversations, where speaker and date stand apart.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

TITLE, DATE, SPEAKER, BODY = 0, 1, 2, 3

_PACKED = np.arange(1 << 16, dtype=np.uint16)


def pack(
    title: npt.NDArray[np.int64],
    date: npt.NDArray[np.int64],
    speaker: npt.NDArray[np.int64],
    body: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint16]:
    """Counts by field as packed postings; each count stops at what its bits hold."""
    packed = np.minimum(body, 255) | np.minimum(title, 15) << 8
    packed |= np.minimum(speaker, 3) << 12 | np.minimum(date, 3) << 14
    return np.asarray(packed, np.uint16)


def unpack(values: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.integer], ...]:
    """The counts of packed postings in the title, the date, the speaker and the body."""
    return (values >> 8) & 15, values >> 14, (values >> 12) & 3, values & 255


@cache
def table(
    *, title: float, body: float = 1.0, speaker: float = 0.0, date: float = 0.0
) -> npt.NDArray[np.float32]:
    """From a packed posting to title·n(title) + body·n(body) + speaker·n(speaker) + date·n(date)."""
    counts = unpack(_PACKED)
    weighed = zip((title, date, speaker, body), counts, strict=True)
    return np.asarray(sum(weight * count for weight, count in weighed), np.float32)


@cache
def presence_weights(*, speaker: float, date: float) -> npt.NDArray[np.float64]:
    """From a packed posting to speaker where the term is in the speaker's name, plus date where in the date."""
    _, in_date, in_speaker, _ = unpack(_PACKED)
    return speaker * (in_speaker > 0) + date * (in_date > 0)
