"""A posting store: a store that also keeps postings, for collections too large for a process to hold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.protocols.store import Store

BLOCK_BITS = 16  # a block has fewer chunks than 2 to this; a chunk's place is block << BLOCK_BITS | its own number


class Totals(NamedTuple):
    """What is known of a collection whose postings the store keeps: the last change seen, and sums over its chunks."""

    seen: int = 0
    chunks: int = 0
    told: int = 0
    speaking: int = 0
    short: int = 0
    fields: tuple[int, ...] = (0, 0, 0, 0)
    languages: tuple[int, ...] = ()
    speakers: tuple[int, ...] = ()


class Block(NamedTuple):
    """The postings of a batch of changes: drafts by chunk, who goes, a list a term, and what becomes of the totals."""

    drafts: Sequence[tuple[str, bytes]]
    gone: Sequence[str]
    lists: Sequence[tuple[int, bytes]]
    terms: Mapping[int, int]
    totals: Totals


class PostingStore(Store, Protocol):
    """A store that also keeps postings, for collections too large to be held as segments by a process."""

    def posting_totals(self, tenant: str, collection: str) -> Totals: ...
    def lease_postings(self, tenant: str, collection: str) -> bool: ...
    def save_block(self, tenant: str, collection: str, block: Block, *, after: int) -> bool: ...
    def term_totals(
        self, tenant: str, collection: str, terms: Sequence[int]
    ) -> Mapping[int, int]: ...
    def term_lists(
        self, tenant: str, collection: str, terms: Sequence[int]
    ) -> Sequence[tuple[int, int, bytes]]: ...
    def drafts_at(
        self, tenant: str, collection: str, places: Sequence[int]
    ) -> Sequence[tuple[str, bytes]]: ...
    def drafts_of(self, tenant: str, collection: str, ids: Sequence[str]) -> Sequence[bytes]: ...
    def clear_postings(self, tenant: str, collection: str) -> None: ...
