"""NearestNeighbors: an approximate index over a large segment's embeddings (usearch, half floats), beside its file.

Multiplying every vector grows with the collection (6 ms of CPU or more for 100 000 chunks of 256 dimensions); a graph
of neighbors takes a sixth of that. It is built when a large segment is saved and the extra `vectors` is installed;
without it, and for small segments, every vector is multiplied. What it finds is scored again exactly.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headgate.index.files import DamagedIndex

LARGE = 25_000  # chunks; below this multiplying all takes 3 ms at most
_SEARCH_WIDTH = 450  # nodes a search considers: it finds .96 of the 20 nearest; 300 find .94, 600 .97 at a quarter more


def is_available() -> bool:
    """Whether the extra is installed."""
    try:
        import_module("usearch.index")
    except ImportError:
        return False
    return True


class _Matches(Protocol):
    keys: npt.NDArray[np.uint64]


class _UsearchIndex(Protocol):
    """The part of usearch's index that is used here."""

    expansion_search: int

    def __len__(self) -> int: ...
    def add(self, keys: npt.ArrayLike, vectors: npt.ArrayLike, *, threads: int) -> object: ...
    def search(self, vectors: npt.ArrayLike, count: int, *, threads: int) -> _Matches: ...
    def save(self, path: str) -> None: ...


def build_graph(
    vectors: npt.NDArray[np.float16], path: Path, *, first_rows: Path | None = None
) -> None:
    """Write the neighbor graph of some vectors to a file, extending the graph in the file `first_rows` where there is
    one.
    """
    graph = _open_to_extend(first_rows) if first_rows else None
    if graph is None or len(graph) > len(vectors):
        graph = _new_graph(vectors.shape[1])
    rest = np.arange(len(graph), len(vectors))
    graph.add(rest, np.ascontiguousarray(vectors[rest]), threads=1)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    graph.save(str(temporary))
    temporary.replace(path)


def _new_graph(dimension: int) -> _UsearchIndex:
    usearch: Any = import_module("usearch.index")
    graph: _UsearchIndex = usearch.Index(ndim=dimension, metric="ip", dtype="f16")
    return graph


def _open_graph(path: Path, *, view: bool) -> _UsearchIndex:
    usearch: Any = import_module("usearch.index")
    try:
        graph = usearch.Index.restore(str(path), view=view)
    except (OSError, RuntimeError, ValueError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error
    if graph is None:
        raise DamagedIndex(f"{path.name} is not an index of vectors")
    found: _UsearchIndex = graph
    return found


def _open_to_extend(path: Path) -> _UsearchIndex | None:
    """A graph to extend; None where its file is damaged or was deleted by another process."""
    try:
        return _open_graph(path, view=False)
    except DamagedIndex:
        return None


class NearestNeighbors:
    """A neighbor graph mapped from its file."""

    def __init__(self, path: Path) -> None:
        self._graph = _open_graph(path, view=True)
        self._graph.expansion_search = _SEARCH_WIDTH

    def search(self, query: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
        """The rows that lie nearest, best first."""
        found = self._graph.search(query.astype(np.float16), min(k, len(self._graph)), threads=1)
        return np.asarray(found.keys, np.int64)
