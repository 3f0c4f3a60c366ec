"""Refusals: fields that an upstream would not take, remembered for a while.

An upstream refuses a whole request for one field that it does not know. Asking it again each time would cost a call; to
believe it until the restart would cost more, since one bad answer, or an older version of it, decides then for ever.
"""

import time
from collections.abc import Callable, Iterable

from headgate.errors import UpstreamError
from headgate.service.proxy.transport import Response

REFUSED = (400, 422)  # what upstreams say to fields they do not know
FORGET_S = 600.0  # one refused call in ten minutes is little beside those that it saves
MOST = 1_000  # what is remembered together: clients choose the names of models
# of an error that are read; those of the known providers have under two thousand
ERROR_BYTES = 65_536


class ExpiringSet:
    """What is known of upstreams and models, each fact for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, ...], float] = {}

    def add(self, *what: str) -> None:
        """Remember a fact."""
        if len(self._until) >= MOST:
            self._until.clear()
        self._until[what] = self._clock() + FORGET_S

    def __contains__(self, what: tuple[str, ...]) -> bool:
        return self._until.get(what, 0.0) > self._clock()


async def read_refusal(response: Response) -> bytes:
    """What the upstream said with a refusal, as far as it can be read; the response is closed."""
    said = b""
    try:
        while len(said) < ERROR_BYTES and (data := await response.read()):
            said += data
    except UpstreamError:
        pass  # the status alone says that it refused
    finally:
        await response.close()
    return said


def names_any(said: bytes, fields: Iterable[str]) -> bool:
    """Whether an error names one of these fields."""
    return any(name.encode() in said for name in fields)
