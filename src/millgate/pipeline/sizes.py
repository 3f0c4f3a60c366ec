"""Sizes: how many tokens a collection takes if it is loaded whole, counted as a context shows it.

Chunks are counted in reading order until they are more than the request takes; what is left is taken to be as dense as
what was counted. So whether a collection fits is known exactly, and a large one costs no more than what would fit. A
count holds until the collection changes.
"""

from dataclasses import dataclass

from millgate.protocols import Store, TokenCounter
from millgate.text.cache import Cache
from millgate.text.fence import fence_cost, piece
from millgate.types import Size

_COUNT_BYTES = 200  # of a count with the names of its collection
# Characters for each token of the budget beyond which a collection surely does not fit, so that a rough count serves:
# prose has 4 to 6, and no text that was measured 16.
_MOST_CHARS = 16


@dataclass(frozen=True, slots=True)
class _Count:
    """Tokens of the first characters of a collection, which had so many at that point of its feed."""

    tokens: int
    chars: int
    size: int
    head: int

    @property
    def is_whole(self) -> bool:
        return self.chars == self.size


class CollectionTokens:
    """The tokens of collections, each remembered. Any number of threads may ask."""

    def __init__(self, store: Store, count: TokenCounter, notice: str) -> None:
        self._store, self._count, self._notice = store, count, notice
        # without it every request that may load a collection whole would read its chunks from the store to count them
        self._known = Cache[tuple[str, str], _Count](450_000, lambda *_: _COUNT_BYTES)

    def tokens(self, tenant: str, collection: str, size: Size, *, most: int) -> int:
        """The tokens of a collection of that size: exact up to `most`, and an estimate beyond."""
        known = self._known.get((tenant, collection))
        if known is None or not self._holds(known, tenant, collection, size, most):
            known = self._measure(tenant, collection, size, most)
            self._known.put((tenant, collection), known)
        if known.is_whole or not known.chars:
            return known.tokens
        return max(most + 1, known.tokens * size.chars // known.chars)

    def _holds(self, known: _Count, tenant: str, collection: str, size: Size, most: int) -> bool:
        if size.chars > _MOST_CHARS * most:
            # too large for certain: how dense its text is changes slowly
            return not known.is_whole and known.size.bit_length() == size.chars.bit_length()
        if known.size != size.chars or known.head != self._store.head(tenant, collection):
            return False
        return known.is_whole or known.tokens > most

    def _measure(self, tenant: str, collection: str, size: Size, most: int) -> _Count:
        head = self._store.head(tenant, collection)
        tokens, chars = fence_cost(self._count, self._notice), 0
        for number, chunk in enumerate(self._store.scan(tenant, collection), 1):
            tokens += self._count(piece(number, chunk.title, chunk.text.strip()) + "\n")
            chars += len(chunk.text)
            if tokens > most:
                break
        return _Count(tokens, chars, size.chars, head)
