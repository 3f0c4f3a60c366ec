"""Small array kernels that the index is made of: ranges, joined strings, and merging vocabularies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from millgate.ranking.arrays import distinct

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


def offsets(counts: npt.NDArray[np.integer]) -> Ints:
    """Where each list begins in the flat array of all, and one more for the end."""
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def ranges(starts: Ints, counts: Ints) -> Ints:
    """The indices starts[0].. +counts[0], starts[1].. +counts[1], and so on, as one array."""
    begin = offsets(counts)
    found = np.repeat(starts - begin[:-1], counts)
    found += np.arange(begin[-1])
    return found


def join_texts(texts: Sequence[str]) -> tuple[Bytes, Ints]:
    """Strings as one run of UTF-8 bytes and the offsets into it."""
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(raw), np.uint8), offsets(np.array([len(r) for r in raw], int))


def split_texts(data: Bytes, starts: Ints, which: npt.NDArray[np.integer]) -> list[str]:
    """Some of the strings of a blob."""
    raw = np.ascontiguousarray(data).data
    spans = zip(starts[which].tolist(), starts[which + 1].tolist(), strict=True)
    return [str(raw[begin:end], "utf-8", "surrogatepass") for begin, end in spans]


def find(
    keys: npt.NDArray[np.unsignedinteger], wanted: npt.NDArray[np.unsignedinteger]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Where the wanted keys are in the sorted keys, and which of them are there."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    at = keys.searchsorted(wanted)
    np.minimum(at, len(keys) - 1, out=at)
    return at, keys.take(at) == wanted


def union(vocabularies: Sequence[Keys]) -> Keys:
    """All keys, sorted, each once."""
    return distinct(np.concatenate(vocabularies)) if vocabularies else np.zeros(0, np.uint64)
