"""NearestNeighbors: an approximate index over a large segment's embeddings (usearch, half floats), beside its file.

Multiplying every vector grows with the collection (6 ms of CPU or more for 100 000 chunks of 256 dimensions); a graph
of neighbors answers in a sixth of that. It is built when a large segment is saved and the extra `vectors` is installed;
without it, and for small segments, every vector is multiplied. Its answers are scored again exactly.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headgate.index.files import Damaged

LARGE = 25_000  # chunks; below this multiplying all takes 3 ms at most
_WIDTH = 450  # nodes a search keeps in sight: it finds .96 of the 20 nearest; 300 find .94, 600 .97 at a quarter more


def available() -> bool:
    """Whether the extra is installed."""
    try:
        import_module("usearch.index")
    except ImportError:
        return False
    return True


class _Found(Protocol):
    keys: npt.NDArray[np.uint64]


class _Graph(Protocol):
    """What of usearch's index is used here."""

    expansion_search: int

    def __len__(self) -> int: ...
    def add(self, keys: npt.ArrayLike, vectors: npt.ArrayLike, *, threads: int) -> object: ...
    def search(self, vectors: npt.ArrayLike, count: int, *, threads: int) -> _Found: ...
    def save(self, path: str) -> None: ...


def build(vectors: npt.NDArray[np.float16], path: Path, *, begun: Path | None = None) -> None:
    """Write the neighbor graph of some vectors to a file; `begun` holds that of the first of them, where there is one."""
    graph = _grown(begun) if begun else None
    if graph is None or len(graph) > len(vectors):
        graph = _empty(vectors.shape[1])
    rest = np.arange(len(graph), len(vectors))
    graph.add(rest, np.ascontiguousarray(vectors[rest]), threads=1)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    graph.save(str(aside))
    aside.replace(path)


def _empty(dimension: int) -> _Graph:
    usearch: Any = import_module("usearch.index")
    graph: _Graph = usearch.Index(ndim=dimension, metric="ip", dtype="f16")
    return graph


def _read(path: Path, *, view: bool) -> _Graph:
    usearch: Any = import_module("usearch.index")
    try:
        graph = usearch.Index.restore(str(path), view=view)
    except (OSError, RuntimeError, ValueError) as error:
        raise Damaged(f"{path.name} cannot be read: {error}") from error
    if graph is None:
        raise Damaged(f"{path.name} is not an index of vectors")
    found: _Graph = graph
    return found


def _grown(path: Path) -> _Graph | None:
    """A graph to add to, None where its file is damaged or was swept by another process meanwhile."""
    try:
        return _read(path, view=False)
    except Damaged:
        return None


class NearestNeighbors:
    """A neighbor graph mapped from its file."""

    def __init__(self, path: Path) -> None:
        self._graph = _read(path, view=True)
        self._graph.expansion_search = _WIDTH

    def search(self, query: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
        """The rows that lie nearest, best first."""
        found = self._graph.search(query.astype(np.float16), min(k, len(self._graph)), threads=1)
        return np.asarray(found.keys, np.int64)
