"""Limits: how much one key may ask for.

Rate is a token bucket: it fills at `rate` a minute up to `burst`, each request takes one. Concurrency counts what is
under way. A refusal says which limit it was and after how many seconds the next request would pass.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.errors import BusyError
from headgate.policy import ServicePolicy

REMEMBERED = 10_000  # keys whose buckets are remembered; a forgotten one starts full


@dataclass(slots=True)
class _Bucket:
    tokens: float
    when: float


class Limits:
    """The limits of every key, in one process."""

    def __init__(
        self, policy: ServicePolicy, *, tick: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy = policy
        self._tick = tick
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._busy: dict[str, int] = {}

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Count a request of a key while it is under way; refuse it where it is one too many."""
        under_way = self._busy.get(key, 0)
        if under_way >= self._policy.concurrency:
            raise BusyError(
                f"{under_way} requests are under way; service.concurrency allows "
                f"{self._policy.concurrency}",
                retry_after=1.0,
                hint="wait for one to end",
            )
        if key:
            self._take(key)
        self._busy[key] = under_way + 1
        try:
            yield
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]

    def _take(self, key: str) -> None:
        now, per_second = self._tick(), self._policy.rate / 60
        bucket = self._buckets.setdefault(key, _Bucket(self._policy.burst, now))
        self._buckets.move_to_end(key)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        gained = (now - bucket.when) * per_second
        bucket.tokens, bucket.when = min(self._policy.burst, bucket.tokens + gained), now
        if bucket.tokens < 1:
            raise BusyError(
                f"this key may send {self._policy.rate:g} requests a minute (service.rate)",
                retry_after=(1 - bucket.tokens) / per_second,
                hint="slow down, or wait as Retry-After says",
            )
        bucket.tokens -= 1
