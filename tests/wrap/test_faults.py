"""Faults of the gateway in the middle of real SDK sessions: the small version of bench/wrap.py."""

import random

import pytest
from bench import wrap as bench_wrap


@pytest.fixture(scope="module")
def bench():
    bench = bench_wrap.Bench()
    yield bench
    bench.close()


@pytest.mark.slow
def test_no_turn_fails_whatever_happens_to_the_gateway(bench, monkeypatch):
    monkeypatch.setattr(bench_wrap, "PIECE_S", 0.01)
    kinds = (
        "chat, streamed",
        "messages, a loop",
        "chat, whole",
        "chat, a tool call",
        "responses, streamed",
    )
    outcomes, _, _ = bench_wrap.run_moments(
        bench, 6, random.Random(5), kinds=kinds, clean_runs=1, say=lambda _: None
    )
    assert [outcome.failed for outcome in outcomes] == [""] * 6
    assert {outcome.fault for outcome in outcomes} == set(bench_wrap.FAULTS)


def test_without_any_gateway_calls_go_straight_to_the_upstream(bench, monkeypatch):
    monkeypatch.setattr(bench_wrap, "PIECE_S", 0.0)
    before = bench.supervisor.summary.routes["straight"]

    async def no_gateway():
        return None

    monkeypatch.setattr(bench.supervisor.gateways, "find", no_gateway)
    assert bench.turn("chat, streamed")[0] == bench_wrap.PROSE
    assert bench.supervisor.summary.routes["straight"] > before
