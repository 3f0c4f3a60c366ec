"""A posting store: a store that also keeps postings, for collections too large for a process to hold."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from millgate.protocols.store import Store

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BLOCK_BITS = 16  # a block has fewer chunks than 2 to this; a chunk's doc id is block << BLOCK_BITS | its own number


class Totals(NamedTuple):
    """What is known of a collection whose postings the store keeps: the last change seen, and sums over its chunks.

    `declared_turns` are chunks whose metadata says that they are turns of a conversation, `with_speaker` those that
    open with a speaker (`lines` by each of the `speakers`), `certain_heads` those of them whose head can hardly be a
    label, and `short_texts` those short enough for a turn. `vectors`
    is the kind of embedding that the store searches as well, empty if it searches none. `blocks` is how many blocks
    are full, and `parts` how many chunks each part of the next one has. `saves` counts how often they were saved.
    """

    seen: int = 0
    chunks: int = 0
    declared_turns: int = 0
    with_speaker: int = 0
    certain_heads: int = 0
    short_texts: int = 0
    fields: tuple[int, ...] = (0, 0, 0, 0)
    languages: tuple[int, ...] = ()
    speakers: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    vectors: str = ""
    blocks: int = 0
    parts: tuple[int, ...] = ()
    saves: int = 0


class Placement(NamedTuple):
    """Where a batch of chunks goes: the block, its first number in it, and the part that its lists are.

    Part 0 is a whole block; the others ascend with their chunks. Parts above `join_above`, this one included, become
    the part `join_into`, which is none of them; nothing is joined if that is None.
    """

    block: int = 0
    first: int = 0
    part: int = 0
    join_above: int | None = None
    join_into: int = 0


class PostingBlock(NamedTuple):
    """The postings of a batch of changes: an index record a chunk, the chunks that go, a list a key, and the totals
    after it.

    A list is pairs of 16-bit numbers: the chunk's number in the block, and a packed value. `vectors` has one embedding
    a record, in half floats, if the store searches them.
    """

    records: Sequence[tuple[str, bytes]]
    gone: Sequence[str]
    lists: Sequence[tuple[int, bytes]]
    keys: Mapping[int, int]
    totals: Totals
    vectors: "npt.NDArray[np.float16] | None" = None
    placement: Placement = Placement()


class KeyLists(NamedTuple):
    """All lists of one key: in how many chunks it stands, the blocks' numbers and lists' sizes as big-endian 32 bits,
    the lists.

    The last three are None if the lists were not asked for.
    """

    key: int
    chunks: int
    blocks: bytes | None
    sizes: bytes | None
    lists: bytes | None


class RecordRows(NamedTuple):
    """Index records in the order of their doc ids: these as big-endian 64 bits, the chunks' ids, the records' sizes as
    big-endian 32 bits, the records.
    """

    doc_ids: bytes = b""
    ids: Sequence[str] = ()
    sizes: bytes = b""
    records: bytes = b""


@runtime_checkable
class PostingStore(Store, Protocol):
    """A store that also keeps postings, for collections too large to be held as segments by a process.

    `posting_state` gives the totals and the last change of the feed. `key_lists` gives the lists of the rarest keys, as
    many as have `budget` postings together, and those of one key at least; none of keys in fewer than `least` or more
    than `most` chunks. `save_block` writes a block that follows the totals `after`, and deletes the lists of full
    blocks of which every chunk has gone. `sparse_records` gives ids and records of some chunks left in a block,
    numbered below `below`, of which half or more have gone; none if there is no such block. `nearest_doc_ids` gives doc
    ids and cosines of the chunks nearest to a vector, best first, None if looking would take too long. `may_lag` says
    whether lists, records and counts may be older than the totals.
    """

    @property
    def may_lag(self) -> bool: ...
    def posting_state(self, tenant: str, collection: str) -> tuple[Totals, int]: ...
    def lease_postings(self, tenant: str, collection: str, after: Totals) -> bool: ...
    def release_postings(self, tenant: str, collection: str) -> None: ...
    def save_block(
        self, tenant: str, collection: str, block: PostingBlock, *, after: Totals
    ) -> bool: ...
    def sparse_records(
        self, tenant: str, collection: str, *, below: int, most: int
    ) -> Sequence[tuple[str, bytes]]: ...
    def count_keys(
        self, tenant: str, collection: str, keys: Sequence[int]
    ) -> Mapping[int, int]: ...
    def key_lists(
        self,
        tenant: str,
        collection: str,
        keys: Sequence[int],
        *,
        budget: int,
        least: int = 1,
        most: int | None = None,
    ) -> Sequence[KeyLists]: ...
    def records_at(self, tenant: str, collection: str, doc_ids: Collection[int]) -> RecordRows: ...
    def records_of(self, tenant: str, collection: str, ids: Sequence[str]) -> Sequence[bytes]: ...
    def clear_postings(self, tenant: str, collection: str) -> None: ...
    def can_search_vectors(self) -> bool: ...
    def nearest_doc_ids(
        self,
        tenant: str,
        collection: str,
        kind: str,
        vector: "npt.NDArray[np.float16]",
        k: int,
        *,
        chunks: int,
    ) -> Sequence[tuple[int, float]] | None: ...


@runtime_checkable
class VectorGraphStore(PostingStore, Protocol):
    """A posting store that can make the neighbor graph of a collection's vectors; it answers whether it did so now."""

    def build_graph(self, tenant: str, collection: str, kind: str) -> bool: ...
