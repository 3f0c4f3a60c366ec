"""Postings: what ranking reads of the derived index of one collection.

Chunks go by ordinals, 0 .. size - 1, and terms and names by 64-bit keys, so that all of it is arrays.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.types import Chunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Hits(NamedTuple):
    """Postings of several keys, one list after the other: ordinals (ascending), packed values, each list's length."""

    ords: "npt.NDArray[np.int64]"
    values: "npt.NDArray[np.uint16]"
    counts: "npt.NDArray[np.int64]"


class Sequences(NamedTuple):
    """Several chunks' terms in reading order: the terms, whose each is (index asked), and its field."""

    terms: "npt.NDArray[np.uint64]"
    owner: "npt.NDArray[np.int64]"
    field: "npt.NDArray[np.int64]"


class Spots(NamedTuple):
    """Where some terms stand in several chunks: the term, whose it is (index asked), its field, how far in, and
    whether its chunk has a title.
    """

    terms: "npt.NDArray[np.uint64]"
    owner: "npt.NDArray[np.int64]"
    field: "npt.NDArray[np.int64]"
    position: "npt.NDArray[np.int64]"
    titled: "npt.NDArray[np.bool_]"


class Vocabulary(Protocol):
    """What a collection knows of words: in how many of its chunks they stand, in which languages, and who speaks.

    `unseen_rate` is the chance that a term of a text that belongs here has never been seen here. `locate_terms` says
    which terms stand where in each chunk, with a gap behind its title; None for a chunk that must be read.
    """

    @property
    def count(self) -> int: ...
    @property
    def conversational(self) -> bool: ...
    @property
    def language(self) -> str: ...
    @property
    def unseen_rate(self) -> float: ...
    def frequencies(self, terms: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]": ...
    def locate_terms(
        self, chunks: Sequence[Chunk], terms: "npt.NDArray[np.uint64]"
    ) -> Sequence[Mapping[int, int] | None]: ...
    def speakers(self) -> "npt.NDArray[np.uint64]": ...


class TermIndex(Protocol):
    """Terms of a collection: who has them, what a chunk is made of, and how long chunks are.

    `repetition` is the share of the terms of chunks that stand further up in the same chunk too.
    """

    @property
    def repetition(self) -> float: ...
    def postings(self, terms: "npt.NDArray[np.uint64]") -> Hits: ...
    def sequences(self, ords: "npt.NDArray[np.int64]") -> Sequences: ...
    def spots(self, ords: "npt.NDArray[np.int64]", terms: "npt.NDArray[np.uint64]") -> Spots: ...
    def norms(self, *, b: float, title: float, head: bool) -> "npt.NDArray[np.float32]": ...


class NameIndex(Protocol):
    """Proper names of a collection: those of a chunk, who has them, which are names at all, how they read.

    `count_names` says how many chunks each name would find, 0 for one that stands in more than `limit`.
    """

    def names(self, ords: "npt.NDArray[np.int64]") -> "list[npt.NDArray[np.uint64]]": ...
    def count_names(
        self, keys: "npt.NDArray[np.uint64]", *, limit: int
    ) -> "npt.NDArray[np.int64]": ...
    def find_names(self, keys: "npt.NDArray[np.uint64]") -> Hits: ...
    def name_frequencies(self, keys: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]": ...
    def is_proper(
        self, keys: "npt.NDArray[np.uint64]", *, share: float
    ) -> "npt.NDArray[np.bool_]": ...
    def labels(self, keys: "npt.NDArray[np.uint64]") -> list[str]: ...


class ReadingOrder(Protocol):
    """Reading order: the key that sorts by it, and who stands where."""

    def reading(self, ords: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]": ...
    def order(self) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]": ...


class VectorIndex(Protocol):
    """The chunks nearest to a unit vector, best first, with their cosines; empty without embeddings."""

    def nearest(
        self, vector: "npt.ArrayLike", k: int
    ) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]": ...


class ChunkReader(Protocol):
    """From ordinals to ids, to chunks (unknown ones left out), and back (unknown ones -1)."""

    def ids(self, ords: "npt.NDArray[np.int64]") -> list[str]: ...
    def read(self, ids: Sequence[str]) -> list[Chunk]: ...
    def find(self, ids: Sequence[str]) -> "npt.NDArray[np.int64]": ...


class Postings(Vocabulary, TermIndex, NameIndex, ReadingOrder, VectorIndex, ChunkReader, Protocol):
    """What ranking reads of one collection: a snapshot whose chunks are numbered 0 .. size - 1.

    `count` of them are alive; dead ones never show up in an answer. `degraded` says what went wrong with
    the index on the way here, empty when nothing did. `narrowed_to` says which part of a large collection it is, empty
    when it is all of it; `count`, `frequencies` and `name_frequencies` are then those of the whole.
    """

    @property
    def degraded(self) -> str: ...
    @property
    def narrowed_to(self) -> str: ...
    @property
    def size(self) -> int: ...
