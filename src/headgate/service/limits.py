"""Limits: how much one key may ask for.

Rate is a token bucket: it fills at `rate` a minute up to `burst`, each request takes one. The processes of a service
share the buckets through files in a folder, each locked while it is drawn from; one process keeps them in memory.
Concurrency counts what is under way in this process. A refusal names its limit and says how long to wait.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Protocol

from headgate.errors import BusyError
from headgate.policy import ServicePolicy
from headgate.service.request_state import Caller

REMEMBERED = 10_000  # keys whose buckets are remembered; a forgotten one starts full

Key = tuple[str, str]


class Bucket(NamedTuple):
    """How many requests are left, and when that was counted (on the machine's own clock)."""

    left: float
    when: float


class Buckets(Protocol):
    """Where buckets are kept."""

    def draw(self, key: Key, change: Callable[[Bucket | None], Bucket]) -> None:
        """Change one bucket, as a single step."""


class Limits:
    """The limits of every caller; in a folder, together with the other processes of the service."""

    def __init__(
        self,
        policy: ServicePolicy,
        folder: str | None = None,
        *,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._tick = tick
        self._buckets: Buckets = FileBuckets(Path(folder)) if folder else MemoryBuckets()
        self._busy: dict[Key, int] = {}

    @contextmanager
    def hold(self, caller: Caller) -> Iterator[None]:
        """Count a request while it is under way; refuse it where it is one too many."""
        key = (caller.tenant, caller.key)
        under_way, most = self._busy.get(key, 0), self._policy.concurrency
        if under_way >= most:
            raise BusyError(
                f"{under_way} requests are under way; service.concurrency allows {most}",
                retry_after=1.0,
                hint="wait for one to end",
            )
        if caller.key:
            self._take(key)
        self._busy[key] = under_way + 1
        try:
            yield
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]

    def _take(self, key: Key) -> None:
        policy, now = self._policy, self._tick()
        per_second = policy.rate / 60
        wait = 0.0

        def drawn(bucket: Bucket | None) -> Bucket:
            nonlocal wait
            left, when = bucket or Bucket(policy.burst, now)
            left = min(policy.burst, left + max(0.0, now - when) * per_second)
            if left < 1:
                wait = (1 - left) / per_second
                return Bucket(left, now)
            return Bucket(left - 1, now)

        self._buckets.draw(key, drawn)
        if wait:
            raise BusyError(
                f"this key may send {policy.rate:g} requests a minute (service.rate)",
                retry_after=wait,
                hint="slow down, or wait as Retry-After says",
            )


class MemoryBuckets:
    """The buckets of a service of one process, used on its event loop alone."""

    def __init__(self) -> None:
        self._held: OrderedDict[Key, Bucket] = OrderedDict()

    def draw(self, key: Key, change: Callable[[Bucket | None], Bucket]) -> None:
        """Change one bucket."""
        self._held[key] = change(self._held.pop(key, None))
        while len(self._held) > REMEMBERED:
            self._held.popitem(last=False)


class FileBuckets:
    """The buckets of a service of several processes: a file each, locked for the few microseconds of a draw."""

    _FORM = Struct("<dd")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def draw(self, key: Key, change: Callable[[Bucket | None], Bucket]) -> None:
        """Change one bucket."""
        import fcntl  # noqa: PLC0415  (workers share a socket, which Windows cannot do either)

        name = blake2b("\0".join(key).encode(), digest_size=16).hexdigest()
        with (self._folder / f"{name}.bucket").open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            raw = file.read(self._FORM.size)
            held = Bucket(*self._FORM.unpack(raw)) if len(raw) == self._FORM.size else None
            file.truncate(0)
            file.write(self._FORM.pack(*change(held)))
