"""AskRate: how many questions one caller may bring before a person in an hour.

The review queue is short and a reviewer's time shorter: one key that asks nonsense must not crowd out the others. The
count is of this process and of the last hour; callers that were not heard of for longest are forgotten first.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable

from headgate.errors import BusyError
from headgate.forks import ForkSafeLock

HOUR_S = 3600.0
CALLERS = 10_000  # remembered


class AskRate:
    """Counts new questions by tenant and caller. Safe to share between threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._lock = ForkSafeLock()

    def count(self, tenant: str, asker: str, most: int) -> None:
        """Count a new question; BusyError, and no count, where there were `most` of this caller in the last hour."""
        now = self._clock()
        with self._lock:
            asked = self._asked.pop((tenant, asker), None) or deque()
            self._asked[tenant, asker] = asked
            while len(self._asked) > CALLERS:
                self._asked.popitem(last=False)
            while asked and asked[0] <= now - HOUR_S:
                asked.popleft()
            if len(asked) >= most:
                raise BusyError(
                    f"this caller has put {most} questions before a person within the hour",
                    retry_after=asked[0] + HOUR_S - now,
                    hint="ask again later, or decide some: headgate review list",
                )
            asked.append(now)
