"""Failed keys: an address that keeps sending keys that do not exist must wait.

Each address may fail 20 times at once and then once a second. So guessing costs no reads of the store. An IPv6 network
of 64 bits counts as one address, since one machine has that many.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope

from headgate.errors import BusyError

ALLOWED = 20
PER_S = 1.0
MAX_ADDRESSES = 10_000


class FailedKeys:
    """How many failures each address has left, and when that was counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """BusyError where the address has failed too often."""
        left = self._left_now(address)
        if left < 1:
            raise BusyError(
                "too many keys that are not valid came from this address",
                retry_after=(1 - left) / PER_S,
                hint="wait as Retry-After says, and check the key",
            )

    def count(self, address: str) -> None:
        """Count one failure."""
        self._left[address] = (self._left_now(address) - 1, self._clock())
        self._left.move_to_end(address)
        while len(self._left) > MAX_ADDRESSES:
            self._left.popitem(last=False)

    def _left_now(self, address: str) -> float:
        left, when = self._left.get(address, (float(ALLOWED), self._clock()))
        return min(float(ALLOWED), left + PER_S * (self._clock() - when))


def address_of(scope: Scope) -> str:
    """Where a request comes from, by the network of its address."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return str(host)
    if isinstance(address, IPv6Address) and not address.ipv4_mapped:
        return address.exploded[:19]
    return str(host)
