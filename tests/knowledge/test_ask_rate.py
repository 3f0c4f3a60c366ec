"""How many questions one caller may bring before a person."""

import pytest

from millgate.errors import BusyError
from millgate.gateway import Millgate
from millgate.knowledge import review
from millgate.knowledge.review import HOUR_S, AskRate
from millgate.testing import FixedClock
from millgate.types import Request


@pytest.fixture
def clock():
    return FixedClock(0.0)


def test_beyond_its_share_of_an_hour_a_caller_waits_and_is_told_how_long(clock):
    rate = AskRate(clock=clock)
    rate.count("t", "key", 2)
    clock.advance(600)
    rate.count("t", "key", 2)
    with pytest.raises(BusyError, match="2 questions") as caught:
        rate.count("t", "key", 2)
    assert caught.value.retry_after == HOUR_S - 600
    clock.advance(HOUR_S - 600)
    rate.count("t", "key", 2)
    with pytest.raises(BusyError):
        rate.count("t", "key", 2)


def test_callers_and_tenants_are_counted_apart(clock):
    rate = AskRate(clock=clock)
    for tenant, asker in (("t", "a"), ("t", "b"), ("u", "a")):
        rate.count(tenant, asker, 1)


def test_callers_are_remembered_up_to_a_number(clock, monkeypatch):
    monkeypatch.setattr(review, "CALLERS", 2)
    rate = AskRate(clock=clock)
    for asker in "abc":
        rate.count("t", asker, 1)
    rate.count("t", "a", 1)
    with pytest.raises(BusyError):
        rate.count("t", "c", 1)


def test_one_key_cannot_fill_the_queue_and_its_answers_say_so():
    with Millgate.open(":memory:", review={"on_refusal": True}) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        built = [
            gate.context_for(Request(f"zebra question number {n} of Zanzibar?", asker="key"))
            for n in range(gate.settings.review.hourly + 5)
        ]
        assert len(gate.reviews.reviews("pending")) == gate.settings.review.hourly
        assert built[0].review
        assert not built[-1].review
        assert any("within the hour" in reason for reason in built[-1].degraded)
        assert gate.context_for(Request("zebra question number 0 of Zanzibar?", asker="key")).review
        assert gate.context_for(Request("yaks of Yakutia?", asker="other")).review
        assert gate.context_for(Request("what do gnus eat?")).review
