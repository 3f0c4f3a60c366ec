"""Traces over time: small, bounded, pruned by themselves, and never in the way of an answer."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.settings import Settings
from millgate.stores.sql import traces as traces_module
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.stores.stored_trace import TEXT_CHARS, pack_trace, unpack_trace
from millgate.testing import FixedClock
from millgate.testing.samples import document, trace
from millgate.types import Candidate, Chunk

DAY = 86_400
WORDS = [
    "ferry",
    "tide",
    "harbor",
    "refund",
    "ledger",
    "signal",
    "winter",
    "engine",
    "market",
    "river",
]


def rows(count):
    """Texts of some 700 characters that share words, so that one question finds many."""
    for n in range(count):
        text = " ".join(f"{WORDS[(n * i) % 10]}{(n * 7 + i) % 97}" for i in range(90))
        yield {"id": f"page{n}", "text": f"The refund of the ferry {n}. {text}"}


def test_a_trace_of_a_hundred_candidates_takes_less_than_15_000_bytes(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add(rows(400))
        made = gate.context("how is the refund of the ferry paid?", budget=2000)
        assert len(made.trace.candidates) >= 90
        stored = gate.trace(made.trace.id)
        with closing(sqlite3.connect(tmp_path / FILE)) as raw:
            (size,) = raw.execute("SELECT size FROM traces").fetchone()
        assert size < 15_000
        assert [c.chunk for c in stored.candidates] == [c.chunk for c in made.trace.candidates]
        lost = made.trace.candidates[-1].chunk.id
        assert gate.why(made.trace.id, lost).stage == made.trace.candidates[-1].notes[-1].stage
        assert gate.replay(made.trace.id, {}).drift == ()


def test_the_text_of_a_chunk_that_changed_since_is_not_shown_as_it_is_now(tmp_path):
    store = SqliteStore(tmp_path)
    page = document("a", "as it was")
    store.put("t", [page])
    one = trace("1")
    store.save_trace(replace(one, candidates=(replace(one.candidates[0], chunk=page.chunks[0]),)))
    store.put("t", [document("a", "as it is now")])
    (candidate,) = store.trace("t", "1").candidates
    assert (candidate.chunk.id, candidate.chunk.text) == ("a", "")
    store.close()


def test_an_answer_does_not_wait_for_a_writer_that_holds_the_store(tmp_path):
    with Millgate.open(tmp_path, review={"on_refusal": True}) as gate:
        gate.add(rows(20))
        gate.traces()
        holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        try:
            # each would wait 30 s for the lock if its trace, its review or its tenant's secret were written first
            answers = [gate.context("how is the refund of the ferry paid?") for _ in range(3)]
            unknown = gate.context("who painted the ceiling of the chapel?")
            fresh = gate.for_tenant("somebody new").context("anything?")
        finally:
            holder.execute("ROLLBACK")
            holder.close()
        assert all(answer.chunks for answer in answers)
        assert not fresh.degraded
        assert gate.trace(answers[-1].trace.id)
        assert gate.reviews.review(unknown.review).query == "who painted the ceiling of the chapel?"


@pytest.mark.parametrize(
    ("keeping", "left"), [({"age_s": 1000.0}, 0), ({"keep": 2}, 2), ({"keep": 0}, 0), ({}, 5)]
)
def test_what_the_settings_no_longer_allow_goes_when_the_store_is_opened(tmp_path, keeping, left):
    clock = FixedClock()
    with Millgate.open(tmp_path, clock=clock) as gate:
        gate.add(rows(2))
        for _ in range(5):
            gate.context("refund")
    clock.advance(2000)
    settings = Settings(store=str(tmp_path), trace=keeping)
    with Millgate.open(settings=settings, clock=clock) as gate:
        assert len(gate.traces()) == left


def test_a_clock_that_is_far_ahead_deletes_little(tmp_path):
    clock = FixedClock()
    store = SqliteStore(tmp_path, clock=clock)
    for day in range(30):
        store.save_trace(trace(str(day), created=clock() - day * DAY))
    store.prune_traces(keep=100, age_s=30 * DAY)
    clock.advance(400 * DAY)
    store.prune_traces(keep=100, age_s=30 * DAY)
    assert len(store.traces("t")) >= 29
    clock.advance(-400 * DAY)
    store.prune_traces(keep=100, age_s=30 * DAY)
    assert len(store.traces("t")) >= 29
    store.close()


def test_several_traces_at_once_are_kept_like_one_after_the_other(tmp_path):
    store = SqliteStore(tmp_path)
    named = [("1", "t"), ("a", "u"), ("2", "t"), ("1", "t"), ("3", "t")]
    store.save_traces([trace(id, tenant=tenant) for id, tenant in named], keep=2)
    assert [one.id for one in store.traces("t")] == ["3", "1"]
    assert [one.id for one in store.traces("u")] == ["a"]
    assert store.trace("t", "2") is None
    store.close()


def test_listing_reads_no_bodies(tmp_path):
    store = SqliteStore(tmp_path)
    store.save_trace(trace("1"))
    raw = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    raw.execute("UPDATE traces SET body = x'00'")
    raw.close()
    assert [one.id for one in store.traces("t")] == ["1"]
    store.close()


def test_a_request_whose_window_was_too_large_to_keep_cannot_be_replayed(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add(rows(3))
        made = gate.context("refund", window="tide " * 100_000)
        with pytest.raises(InputError, match="too large to be stored"):
            gate.replay(made.trace.id, {"budget": 10})


def test_a_text_that_the_store_does_not_hold_is_kept_up_to_its_limit():
    def kept(length):
        found = Chunk("web", "x" * length, source="web")
        made = replace(trace("1"), candidates=(Candidate(found, 0.5),))
        packed = pack_trace(made, lambda collection, ids: ())
        (candidate,) = unpack_trace(packed, lambda collection, ids: ()).candidates
        return len(candidate.chunk.text)

    assert kept(TEXT_CHARS - 1) == TEXT_CHARS - 1
    assert kept(TEXT_CHARS) == TEXT_CHARS
    assert kept(TEXT_CHARS + 1) == TEXT_CHARS


@pytest.mark.parametrize("count", [4, 5, 6])
def test_traces_that_go_in_several_batches_all_go(tmp_path, monkeypatch, count):
    monkeypatch.setattr(traces_module, "_BATCH", 2)
    store = SqliteStore(tmp_path)
    for n in range(count):
        store.save_trace(trace(str(n)))
    assert store.prune_traces(keep=1) == count - 1
    assert len(store.traces("t")) == 1
    store.close()
