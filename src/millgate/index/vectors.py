"""Vectors: embeddings of chunks, and those nearest to a query by cosine.

The store keeps each embedding beside its chunk (attachment "embedding/NAME/DIMENSION", half floats), so a
rebuilt index embeds nothing twice. `embedded_text` is the title before the text, and of a chat
line the speaker and the words without the date.

Of a large segment (6 ms to multiply 100 000 vectors) a graph of neighbors (usearch, half floats) takes a sixth of the
time. It is built beside the segment's file when that is saved and the extra `vectors` is installed. What it finds is
scored again exactly.
"""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from millgate.calls.bugs import LOGGER, describe
from millgate.errors import ConfigError, UpstreamError
from millgate.index.arrays import Ints
from millgate.index.files import DamagedIndex
from millgate.protocols import Embedder, Store
from millgate.text.turns import part
from millgate.types import Chunk

Halves = npt.NDArray[np.float16]
BATCH = 256  # chunks embedded and kept at a time, so that stopping loses little
LARGE = 25_000  # chunks; below this multiplying all takes 3 ms at most
SEARCH_WIDTH = 450  # nodes a search considers: it finds .96 of the 20 nearest; 300 find .94, 600 .97 at a quarter more

_ROWS = 4096  # half floats made floats at a time, 4 MB of them: all of 100 000 would take 100


def embedded_text(chunk: Chunk) -> str:
    """The text of a chunk that is embedded."""
    if chunk.title:
        return f"{chunk.title}. {chunk.text}"
    line = part(chunk.text, chunk.metadata)
    return f"{line.speaker}: {line.body}" if line.date and line.speaker else chunk.text


class EmbedderFailed(UpstreamError):
    """The embedder gave no vectors; words find without them."""


def embed(embedder: Embedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The vectors of some texts, a row each: of the size that the embedder says, or an error."""
    try:
        made = np.asarray(embedder.embed(texts), np.float32)
    except (UpstreamError, OSError) as error:
        raise EmbedderFailed(describe(error)) from error
    if made.shape != (len(texts), embedder.dimension):
        raise ConfigError(
            f"the embedder {embedder.name} gave {' × '.join(map(str, made.shape))} numbers for"
            f" {len(texts)} texts; it says that it has {embedder.dimension} dimensions",
            hint="let its `dimension` be what it makes",
        )
    return made


class EmbeddingCache:
    """The embeddings of one collection's chunks: read from the store, or computed and kept there."""

    def __init__(self, store: Store, tenant: str, collection: str, embedder: Embedder) -> None:
        self._store, self._tenant, self._collection = store, tenant, collection
        self._embedder = embedder
        self.kind = f"embedding/{embedder.name}/{embedder.dimension}"
        self.made = 0
        """How many were computed so far."""

    def rows_of(self, chunks: Sequence[Chunk], seen: int) -> Halves:
        """One row a chunk; `seen` is the point of the feed that the chunks were read at.

        A text for which the embedder gives no numbers has zeros, and nothing of it is stored.
        """
        rows = np.zeros((len(chunks), self._embedder.dimension), np.float16)
        for begin in range(0, len(chunks), BATCH):
            some = chunks[begin : begin + BATCH]
            known = self._known_rows(some)
            new = [chunk for chunk in some if chunk.id not in known]
            known |= self._compute(new, seen) if new else {}
            for at, chunk in enumerate(some, begin):
                if chunk.id in known:
                    rows[at] = known[chunk.id]
        return rows

    def _known_rows(self, chunks: Sequence[Chunk]) -> dict[str, Halves]:
        """The embeddings that some chunks have already, by id; one that is damaged is left out."""
        ids = [chunk.id for chunk in chunks]
        known = self._store.attachments(self._tenant, self._collection, self.kind, ids)
        size = 2 * self._embedder.dimension
        rows = {id: np.frombuffer(v, np.float16) for id, v in known.items() if len(v) == size}
        return {id: row for id, row in rows.items() if np.isfinite(row).all()}

    def _compute(self, chunks: Sequence[Chunk], seen: int) -> dict[str, Halves]:
        """The embeddings of some chunks by id, which are stored too."""
        made = embed(self._embedder, [embedded_text(chunk) for chunk in chunks])
        # a number beyond half floats becomes infinite, and is refused
        with np.errstate(over="ignore"):
            halves = made.astype(np.float16)
        sound = [bool(row.all()) for row in np.isfinite(halves)]
        lacking = [chunk.id for chunk, ok in zip(chunks, sound, strict=True) if not ok]
        if len(lacking) == len(chunks):
            name = self._embedder.name
            raise EmbedderFailed(f"the embedder {name} gave no numbers for {len(chunks):,} texts")
        if lacking:
            LOGGER.warning(
                "the embedder %s gave no numbers for %d chunks of %r, which words alone find: %r ...",
                self._embedder.name, len(lacking), self._collection, lacking[0],
            )  # fmt: skip
        fresh = {c.id: row for c, row, ok in zip(chunks, halves, sound, strict=True) if ok}
        stored = {id: row.tobytes() for id, row in fresh.items()}
        self._store.attach(self._tenant, self._collection, self.kind, stored, seen=seen)
        self.made += len(fresh)
        return fresh


def nearest(
    matrix: npt.NDArray[np.float32] | Halves, dead: Ints, query: npt.NDArray[np.float32], k: int
) -> tuple[Ints, npt.NDArray[np.float64]]:
    """The k living rows with the highest cosine, with all that equal the last of them, and their cosines."""
    cosines = np.empty(len(matrix), np.float32)
    for begin in range(0, len(matrix), _ROWS):
        rows = matrix[begin : begin + _ROWS].astype(np.float32, copy=False)
        # row by row: a threaded product spins longer than it works, and rounds by the shape of the matrix
        np.vecdot(rows, query, out=cosines[begin : begin + _ROWS])
    cosines[dead] = -np.inf
    least = np.partition(cosines, -k)[-k] if k < len(cosines) else -np.inf
    best = np.flatnonzero((cosines >= least) & np.isfinite(cosines))
    return best, cosines[best].astype(np.float64)


def has_usearch() -> bool:
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
    """Write the neighbor graph of some vectors to a file, extending the graph in the file `first_rows` if there is
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
    """A graph to extend; None if its file is damaged or was deleted by another process."""
    try:
        return _open_graph(path, view=False)
    except DamagedIndex:
        return None


class NearestNeighbors:
    """A neighbor graph mapped from its file."""

    def __init__(self, path: Path) -> None:
        self._graph = _open_graph(path, view=True)
        self._graph.expansion_search = SEARCH_WIDTH

    def search(self, query: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
        """The rows that lie nearest, best first."""
        found = self._graph.search(query.astype(np.float16), min(k, len(self._graph)), threads=1)
        return np.asarray(found.keys, np.int64)
