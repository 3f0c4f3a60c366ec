"""Keys that are not valid: so many may come from one address at once, then one a second."""

import pytest

from headgate.errors import BusyError
from headgate.service import auth
from headgate.service.auth import FAILURES_ALLOWED, FailedKeys, address_of
from headgate.testing import FixedClock


def fail(keys, address, times):
    for _ in range(times):
        keys.check(address)
        keys.count(address)


def test_an_address_may_fail_so_often_and_then_once_a_second():
    clock = FixedClock(0.0)
    keys = FailedKeys(clock)
    fail(keys, "a", FAILURES_ALLOWED)
    with pytest.raises(BusyError) as raised:
        keys.check("a")
    assert raised.value.retry_after == 1.0
    clock.advance(0.25)
    with pytest.raises(BusyError) as raised:
        keys.check("a")
    assert raised.value.retry_after == 0.75
    clock.advance(0.75)
    fail(keys, "a", 1)
    with pytest.raises(BusyError):
        keys.check("a")
    keys.check("b")


def test_what_an_address_may_does_not_grow_beyond_its_start():
    clock = FixedClock(0.0)
    keys = FailedKeys(clock)
    fail(keys, "a", 1)
    clock.advance(1000.0)
    fail(keys, "a", FAILURES_ALLOWED)
    with pytest.raises(BusyError):
        keys.check("a")


def test_so_many_addresses_are_remembered_and_the_oldest_is_forgotten(monkeypatch):
    monkeypatch.setattr(auth, "MAX_ADDRESSES", 2)
    keys = FailedKeys(FixedClock(0.0))
    for address in ("a", "b", "c"):
        fail(keys, address, FAILURES_ALLOWED)
    keys.check("a")
    for address in ("b", "c"):
        with pytest.raises(BusyError):
            keys.check(address)


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (("2001:db8:1:2:3::9", 1), "2001:0db8:0001:0002"),
        (("::ffff:192.0.2.7", 1), "::ffff:192.0.2.7"),
        (("testclient", 1), "testclient"),
        (None, ""),
    ],
)
def test_an_address_of_ipv6_counts_by_its_network(client, address):
    assert address_of({"client": client}) == address
