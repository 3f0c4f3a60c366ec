"""Near: an approximate index over a large segment's embeddings (usearch, half floats), beside its file.

Multiplying every vector costs 17 ms at 100 000 chunks; a graph of neighbors answers in half a millisecond with the
same top. It is built when a large segment is saved and the extra `vectors` is installed; without it, and for small
segments, every vector is multiplied. Its answers are scored again exactly.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.index.files import Damaged

LARGE = 25_000  # chunks; below this multiplying all takes about 4 ms


def available() -> bool:
    """Whether the extra is installed."""
    try:
        import_module("usearch.index")
    except ImportError:
        return False
    return True


def build(vectors: npt.NDArray[np.float16], path: Path) -> None:
    """Write the neighbor graph of some vectors to a file."""
    usearch: Any = import_module("usearch.index")
    graph = usearch.Index(ndim=vectors.shape[1], metric="ip", dtype="f16")
    graph.add(np.arange(len(vectors)), np.ascontiguousarray(vectors), threads=1)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    graph.save(str(aside))
    aside.replace(path)


class Near:
    """A neighbor graph mapped from its file."""

    def __init__(self, path: Path) -> None:
        usearch: Any = import_module("usearch.index")
        try:
            self._graph = usearch.Index.restore(str(path), view=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise Damaged(f"{path.name} cannot be read: {error}") from error
        if self._graph is None:
            raise Damaged(f"{path.name} is not an index of vectors")

    def search(self, query: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
        """The rows that lie nearest, best first."""
        found = self._graph.search(query.astype(np.float16), min(k, len(self._graph)), threads=1)
        return np.asarray(found.keys, np.int64)
