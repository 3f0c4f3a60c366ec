"""LoopedCalls: requests whose tool call looped after a part of it was out.

Such a call cannot be mended in place, so the client's connection is broken and the client asks again by itself. Its
retry is the same conversation, perhaps with other fields: some clients do not stream their retry. It is told by that,
and its calls are held until they are complete.
"""

import time
from collections.abc import Callable
from hashlib import blake2b

import orjson

from headgate.service.proxy.request import ProxyRequest

KEPT_S = 3600.0  # clients retry within minutes; later the same question may be streamed again
MOST = 1_000  # conversations that are remembered at a time, the oldest forgotten first


class LoopedCalls:
    """Which conversations of whom looped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def note(self, owner: str, request: ProxyRequest) -> None:
        """Remember a request of this owner."""
        key = _key(owner, request)
        self._until.pop(key, None)  # the order is that of the last loop
        while len(self._until) >= MOST:
            del self._until[next(iter(self._until))]
        self._until[key] = self._clock() + KEPT_S

    def has(self, owner: str, request: ProxyRequest) -> bool:
        """Whether this conversation looped before. Costs nothing while none did."""
        return bool(self._until) and self._until.get(_key(owner, request), 0.0) > self._clock()


def _key(owner: str, request: ProxyRequest) -> bytes:
    conversation = orjson.dumps((owner, request.model, request.messages), default=dict)
    return blake2b(conversation, digest_size=16).digest()
