"""The fuse: held before, booked after; warns, pauses, and goes on when a person says so."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import ConfigError
from millgate.spending.limits import (
    HOLD_S,
    Cap,
    CapStatus,
    cap_status,
    hold_rows,
    lets_through,
    resume_rows,
    settle_rows,
)
from millgate.spending.prices import Price, Prices
from millgate.spending.spending import CapPolicy, FusePolicy, amount_of
from millgate.types import Amount, Spend

CAP = Cap("session", "s", tokens=1000)
ROW = Spend("session", "s")


def call(row, size, cap=CAP, now=1.0):
    """One whole call; None where it was refused."""
    (row,), statuses = hold_rows([row], [cap], Amount(size), now)
    return (
        settle_rows([row], Amount(size), Amount(size), now)[0] if lets_through(statuses) else None
    )


def test_a_session_runs_to_its_cap_and_one_call_beyond():
    row = ROW
    while (after := call(row, 300)) is not None:
        row = after
    assert row.tokens == 1200
    (paused,), statuses = hold_rows([row], [CAP], Amount(1), 2.0)
    assert not lets_through(statuses)
    assert paused.paused == 2.0
    assert (
        cap_status(paused, CAP).describe()
        == "session s has spent 1,200 of 1,000 tokens and is paused"
    )


def test_calls_at_the_same_time_do_not_pass_the_cap_together():
    row, admitted = ROW, 0
    for _ in range(10):
        (row,), statuses = hold_rows([row], [CAP], Amount(400), 1.0)
        admitted += lets_through(statuses)
    assert admitted == 3
    assert row.paused is None, "what is only held may still be released"
    assert cap_status(row, CAP).state == "busy"


def test_any_spender_at_its_cap_stops_the_call_and_the_others_are_not_charged():
    rows = [ROW, Spend("tenant", tokens=50)]
    caps = [CAP, Cap("tenant", "", tokens=50)]
    after, statuses = hold_rows(rows, caps, Amount(10), 3.0)
    assert not lets_through(statuses)
    assert after[0].held_tokens == 0
    assert after[1].paused == 3.0


def test_a_person_gives_the_whole_cap_again():
    row = call(call(ROW, 600), 600)
    (paused,), _ = hold_rows([row], [CAP], Amount(1), 2.0)
    (again,) = resume_rows([paused], 5.0)
    assert call(again, 600, now=6.0).tokens == 600
    assert again.total_tokens == 1200


def test_a_period_that_is_over_starts_again():
    cap = replace(CAP, scope="tenant", period_s=100.0)
    row = call(call(ROW, 600, cap, now=10.0), 600, cap, now=20.0)
    assert call(row, 1, cap, now=50.0) is None
    assert call(row, 1, cap, now=110.0).tokens == 1


def test_a_hold_that_nobody_settles_counts_as_spent():
    (row,), _ = hold_rows([ROW], [CAP], Amount(990), 1.0)
    assert call(row, 20, now=2.0).tokens == 20
    (later,), statuses = hold_rows([row], [CAP], Amount(20), 2.0 + HOLD_S)
    assert lets_through(statuses)
    assert (later.tokens, later.held_tokens) == (990, 20)
    (settled,) = settle_rows([replace(later, held_tokens=0)], Amount(990), Amount(1000), 3.0)
    assert settled.tokens == 1000, "a call that was only slow is not booked twice"


def test_the_status_warns_and_forecasts():
    row = call(call(ROW, 400), 450)
    found = cap_status(row, CAP, warn_at=0.8)
    assert found.state == "warn"
    assert found.calls_left == 1
    assert "full in 1 call at this rate" in found.describe()
    assert cap_status(call(ROW, 100), CAP, warn_at=0.8).calls_left == 9


@pytest.mark.parametrize(
    ("state", "calls_left", "forecast"),
    [("paused", 0, "full"), ("warn", 0, "full with the next call"), ("warn", 2, "full in 2 calls"), ("open", None, "")],
)  # fmt: skip
def test_the_forecast_counts_the_calls_until_the_cap_is_full(state, calls_left, forecast):
    status = CapStatus("session", "s", state, 950, 1_000, "tokens", calls_left)
    assert status.forecast == forecast


def test_money_is_capped_as_well():
    (cap,) = FusePolicy(caps={"session": CapPolicy(cost=0.01)}).caps_of("s", "")
    prices = Prices({"gpt": Price(input=1.0, output=10.0)})
    amount = amount_of(prices.find("gpt"), input_tokens=5_000, output_tokens=600)
    assert amount == Amount(5_600, 11_000)
    (row,), statuses = hold_rows([ROW], [cap], amount, 1.0)
    assert lets_through(statuses)
    (row,) = settle_rows([row], amount, amount, 1.0)
    assert cap_status(row, cap).state == "paused"
    assert "0.011 of 0.01" in cap_status(row, cap).describe()


def test_without_a_cap_nothing_is_counted():
    assert FusePolicy().caps_of("s", "k") == ()
    assert FusePolicy(caps={"session": CapPolicy()}).caps_of("s", "k") == ()
    caps = {"session": CapPolicy(tokens=1), "key": CapPolicy(tokens=2), "tenant": CapPolicy(cost=3)}
    assert [cap.scope for cap in FusePolicy(caps=caps).caps_of("s", "")] == ["session", "tenant"]
    with pytest.raises(ConfigError):
        CapPolicy(tokens=0)


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.sampled_from(["hold", "settle"]), st.integers(1, 200)), max_size=60),
)
def test_no_order_of_calls_spends_more_than_the_cap_plus_one(most, steps):
    cap, row = Cap("session", "s", tokens=most), ROW
    under_way, largest = [], 0
    for what, size in steps:
        if what == "hold":
            (row,), statuses = hold_rows([row], [cap], Amount(size), 1.0)
            under_way += [size] * lets_through(statuses)
            largest = max(largest, size)
        elif under_way:
            spent = Amount(under_way.pop())
            (row,) = settle_rows([row], spent, spent, 1.0)
    for size in under_way:
        (row,) = settle_rows([row], Amount(size), Amount(size), 1.0)
    assert row.tokens < most + max(largest, 1)
    assert row.held_tokens == 0


def test_of_two_limits_the_nearer_one_is_read_with_what_is_held():
    cap = Cap("session", "s", tokens=1000, micros=2_000_000)
    tokens = replace(ROW, tokens=500, micros=400_000)
    assert (cap_status(tokens, cap).unit, cap_status(tokens, cap).used) == ("tokens", 500)
    money = replace(ROW, tokens=500, micros=1_200_000)
    assert (cap_status(money, cap).unit, cap_status(money, cap).used) == ("money", 1.2)
    held = replace(money, held_tokens=300)
    assert (cap_status(held, cap).unit, cap_status(held, cap).used) == ("tokens", 500)


@pytest.mark.parametrize(
    ("used", "held", "state"),
    [(799, 0, "open"), (800, 0, "warn"), (999, 0, "warn"), (1000, 0, "paused"), (600, 399, "open"), (600, 400, "busy")],
)  # fmt: skip
def test_each_state_begins_at_its_bound(used, held, state):
    assert cap_status(replace(ROW, tokens=used, held_tokens=held), CAP, warn_at=0.8).state == state


def test_a_lost_hold_is_booked_in_time_though_other_calls_come_all_the_while():
    """Each call is over after ten seconds; the lost one never is."""
    now, cap = 1.0, Cap("session", "s", tokens=1_000_000)
    (row,), _ = hold_rows([replace(ROW, since=1.0)], [cap], Amount(1_000), now)
    while row.tokens < 1_000 and now < 10 * HOLD_S:
        began, now = now, now + 10
        (row,), _ = hold_rows([row], [cap], Amount(1_000), began)
        (row,) = settle_rows([row], Amount(1_000), Amount(1), now, since=began)
    assert now < 2.2 * HOLD_S


def test_calls_that_are_settled_are_never_booked_as_lost_however_many_overlap():
    now, cap, under_way, row = 1.0, Cap("session", "s", tokens=10**9), [], replace(ROW, since=1.0)
    for _ in range(1_000):
        now += 10
        (row,), _ = hold_rows([row], [cap], Amount(1_000), now)
        under_way.append(now)
        if len(under_way) > 30:
            (row,) = settle_rows([row], Amount(1_000), Amount(1), now, since=under_way.pop(0))
    assert row.tokens == 1_000 - 30
    assert row.held_tokens == 30_000
