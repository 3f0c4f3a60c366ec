"""Limits: how many requests one key may send.

The rate is a token bucket: it fills at `rate` a minute up to `burst`, and each request takes one. Each process has its
own buckets. Gateways over a store that they share take from its buckets first; if the store does not answer, their
own still hold. Concurrency counts the requests in flight in this process. A refusal names its limit and says how long
to wait.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from millgate.errors import BusyError, StoreError
from millgate.protocols import SharedState
from millgate.service.observe.request_state import Caller
from millgate.types.policy import ServicePolicy

MAX_BUCKETS = 10_000  # buckets kept in memory; a forgotten one starts full

CallerId = tuple[str, str]
"""A tenant, and the id of its key ("" for callers without one)."""


class Bucket(NamedTuple):
    """How many requests are left, and when that was counted (on the machine's own clock)."""

    left: float
    when: float


@dataclass(eq=False)
class CallerLimits:
    """Rate and concurrency of every caller."""

    policy: ServicePolicy
    shared: SharedState | None = None
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[CallerId, Bucket] = field(default_factory=OrderedDict)
    _under_way: dict[tuple[str, str, bool], int] = field(default_factory=dict)

    async def take_shared(self, caller: Caller) -> None:
        """Take a request out of the bucket that all gateways share. BusyError if it is empty."""
        if self.shared is None or not caller.key:
            return
        policy = self.policy
        try:
            wait_s = await asyncio.to_thread(
                self.shared.take_request,
                caller.tenant,
                caller.key,
                per_second=policy.rate / 60,
                burst=policy.burst,
            )
        except StoreError:
            return
        if wait_s:
            raise _too_many(policy, wait_s)

    @contextmanager
    def hold(self, caller: Caller, *, proxied: bool = False) -> Iterator[None]:
        """Count a request while it is served. BusyError if it is one too many.

        Calls to models are counted apart: long streams must not shut the service's own routes.
        """
        id = (caller.tenant, caller.key)
        count = (*id, proxied)
        in_flight, limit = self._under_way.get(count, 0), self.policy.concurrency
        if in_flight >= limit:
            raise BusyError(
                f"{in_flight} requests are under way; service.concurrency allows {limit}",
                retry_after=1.0,
                hint="wait for one to end",
            )
        if caller.key:
            self._take(id)
        self._under_way[count] = in_flight + 1
        try:
            yield
        finally:
            self._under_way[count] -= 1
            if not self._under_way[count]:
                del self._under_way[count]

    def _take(self, id: CallerId) -> None:
        policy, now = self.policy, self.clock()
        per_second = policy.rate / 60
        left, when = self._buckets.pop(id, Bucket(policy.burst, now))
        left = min(policy.burst, left + max(0.0, now - when) * per_second)
        self._buckets[id] = Bucket(left - 1 if left >= 1 else left, now)
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise _too_many(policy, (1 - left) / per_second)


def _too_many(policy: ServicePolicy, wait_s: float) -> BusyError:
    return BusyError(
        f"this key may send {policy.rate:g} requests a minute (service.rate)",
        retry_after=wait_s,
        hint="slow down, or wait as Retry-After says",
    )
