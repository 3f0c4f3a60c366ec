"""Snapshot: what ranking reads of the derived index of one collection.

Chunks go by ordinals, 0 .. size - 1, and terms and names by 64-bit keys, so that all of it is arrays.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from millgate.types import Chunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Postings(NamedTuple):
    """Postings of several keys, one list after the other: ordinals (ascending), packed values, each list's length."""

    ords: "npt.NDArray[np.int64]"
    values: "npt.NDArray[np.uint16]"
    counts: "npt.NDArray[np.int64]"


class TokenStreams(NamedTuple):
    """Several chunks' terms in reading order: the terms, and for each its chunk (index asked) and its field."""

    terms: "npt.NDArray[np.uint64]"
    owner: "npt.NDArray[np.int64]"
    field: "npt.NDArray[np.int64]"


class TermPositions(NamedTuple):
    """Where some terms stand in several chunks: the term, its chunk (index asked), its field, its position in the
    chunk, and whether the chunk has a title.
    """

    terms: "npt.NDArray[np.uint64]"
    owner: "npt.NDArray[np.int64]"
    field: "npt.NDArray[np.int64]"
    position: "npt.NDArray[np.int64]"
    titled: "npt.NDArray[np.bool_]"


class Snapshot(Protocol):
    """One collection at one moment: its chunks are numbered 0 .. size - 1, and `count` of them are alive.

    Dead ones never show up in an answer. `degraded` says what went wrong with the index on the way here, empty if
    nothing did.
    """

    @property
    def degraded(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def count(self) -> int: ...

    # -- what kind of collection it is -----------------------------------------------------------

    @property
    def conversational(self) -> bool: ...
    @property
    def language(self) -> str:
        """The languages of the collection, the commonest first, joined by "+"; those of a few chunks are left out."""
        ...

    @property
    def all_languages(self) -> str:
        """The same with the language of every chunk."""
        ...

    def speakers(self) -> "npt.NDArray[np.uint64]":
        """The terms of all speakers' names, sorted."""

    # -- terms -----------------------------------------------------------------------------------

    @property
    def unseen_rate(self) -> float:
        """The chance that a term of a text that belongs here has never been seen here."""

    def frequencies(self, terms: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]":
        """In how many chunks each term occurs."""

    def postings(self, terms: "npt.NDArray[np.uint64]") -> Postings: ...
    def token_streams(self, ords: "npt.NDArray[np.int64]") -> TokenStreams: ...
    def term_positions(
        self, ords: "npt.NDArray[np.int64]", terms: "npt.NDArray[np.uint64]"
    ) -> TermPositions: ...
    def locate_terms(
        self, chunks: Sequence[Chunk], terms: "npt.NDArray[np.uint64]"
    ) -> Sequence[Mapping[int, int] | None]:
        """Which terms stand where in each chunk, with a gap behind its title; None for a chunk that must be read."""

    def norms(self, *, b: float, title: float, head: bool) -> "npt.NDArray[np.float32]":
        """The length norm of each chunk, 1 - b + b * length / mean length."""

    # -- proper names ----------------------------------------------------------------------------

    def names(self, ords: "npt.NDArray[np.int64]") -> "list[npt.NDArray[np.uint64]]": ...
    def count_names(self, keys: "npt.NDArray[np.uint64]", *, limit: int) -> "npt.NDArray[np.int64]":
        """How many chunks each name would find, 0 for one that stands in more than `limit`."""

    def find_names(self, keys: "npt.NDArray[np.uint64]") -> Postings: ...
    def is_proper(
        self, keys: "npt.NDArray[np.uint64]", *, share: float
    ) -> "npt.NDArray[np.bool_]": ...
    def labels(self, keys: "npt.NDArray[np.uint64]") -> list[str]: ...

    # -- reading order, vectors and chunks -------------------------------------------------------

    def reading_order_key(self, ords: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """A number per chunk that grows in reading order."""

    def reading_order(self) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]":
        """The rank of each chunk in reading order (-1 if dead), and the chunk at each rank."""

    def nearest(
        self, vector: "npt.ArrayLike", k: int
    ) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]":
        """The chunks nearest to a unit vector, best first, with their cosines; empty without embeddings."""

    def ids(self, ords: "npt.NDArray[np.int64]") -> list[str]: ...
    def read(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks themselves; unknown ids are left out."""

    def find(self, ids: Sequence[str]) -> "npt.NDArray[np.int64]":
        """The ordinals of chunks by id; -1 for an unknown id."""
