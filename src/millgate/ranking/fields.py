"""Fields: how often a term stands in each part of a chunk, packed into 16 bits of a posting.

    bits 0-7 body (up to 255) | 8-11 title (15) | 12-13 speaker (3) | 14-15 date (3)

A table of 65 536 weights turns a posting into a weighted count in one gather, so the same postings serve
every weighting: plain BM25, BM25F, and conversations, where speaker and date stand apart.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

TITLE, DATE, SPEAKER, BODY = 0, 1, 2, 3
IN_BODY, IN_TITLE, IN_HEAD = 1, 2, 4  # flags of a name: where in the chunk it stands

_PACKED = np.arange(1 << 16, dtype=np.uint32)


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


def field_flags(
    values: npt.NDArray[np.uint16],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Of packed postings, whether each stands in the body, and whether in the title."""
    return (values & 255) > 0, ((values >> 8) & 15) > 0


@cache
def table(
    *, title: float, body: float = 1.0, speaker: float = 0.0, date: float = 0.0
) -> npt.NDArray[np.float32]:
    """From a packed posting to title·n(title) + body·n(body) + speaker·n(speaker) + date·n(date)."""
    return np.asarray(
        body * (_PACKED & 255)
        + title * ((_PACKED >> 8) & 15)
        + speaker * ((_PACKED >> 12) & 3)
        + date * (_PACKED >> 14),
        np.float32,
    )


@cache
def presence_weights(*, speaker: float, date: float) -> npt.NDArray[np.float64]:
    """From a packed posting to speaker where the term is in the speaker's name, plus date where in the date."""
    in_speaker = ((_PACKED >> 12) & 3) > 0
    return speaker * in_speaker + date * ((_PACKED >> 14) > 0)
