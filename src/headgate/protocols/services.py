"""Services: what stands around a store: models, search, memory, tokens and time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from headgate.types import Candidate, Chunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class TokenCounter(Protocol):
    """Counts tokens; additive enough that a budget held piece by piece holds for the whole."""

    def __call__(self, text: str, /) -> int: ...


class Embedder(Protocol):
    """Texts to unit vectors; `name` goes into the index so that vectors of two models never meet."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]": ...


class Grader(Protocol):
    """A confidence in 0..1 for each candidate: does it help to answer the query?"""

    async def grade(self, query: str, candidates: Sequence[Candidate]) -> Sequence[float]: ...


class WebSearch(Protocol):
    """Looks a query up outside; the chunks it returns are untrusted and carry their address."""

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]: ...


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory that can be asked. Older providers may lack `limit` and `min_trust`."""

    name: str

    def is_available(self) -> bool: ...
    def prefetch(
        self, query: str, *, session_id: str, limit: int | None, min_trust: float | None
    ) -> str: ...


class Clock(Protocol):
    """Seconds since the epoch."""

    def __call__(self) -> float: ...


@runtime_checkable
class SharedState(Protocol):
    """What gateways on several machines share beside a store's records; a store that they all reach may have it.

    `take_request` takes one request out of a bucket that fills at `per_second` up to `burst`, and answers how many
    seconds to wait where there was none. `remember` keeps a value under a key unless there is one, and answers the one
    that stays; values go after some weeks. `recall` gives the values of those keys that have one.
    """

    def take_request(self, tenant: str, key: str, *, per_second: float, burst: float) -> float: ...
    def remember(self, tenant: str, key: bytes, value: bytes) -> bytes: ...
    def recall(self, tenant: str, keys: Sequence[bytes]) -> dict[bytes, bytes]: ...
