"""Injected: memory never learns from what Millgate itself has said."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.knowledge.injected import MAX_CHARS, TENANTS_HELD, Injected, shown_texts
from millgate.settings import Settings
from millgate.stores.temporary import TemporaryStore

TOPICS = ["refunds", "parcels", "invoices", "passwords", "deploys", "backups", "licenses", "alerts"]
ROWS = [
    {
        "id": topic,
        "text": f"The team that looks after {topic} answers within {n + 2} days. "
        f"Questions about {topic} go to desk {n + 40} in the north wing.",
    }
    for n, topic in enumerate(TOPICS)
]


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        gate.add(ROWS)
        yield gate


def test_what_a_context_gave_is_not_remembered_as_new(gate):
    context = gate.context("who looks after refunds?")
    text = context.chunks[0].text
    first, second = text.split(". ")
    for echo in (
        text,
        text.upper(),
        f"{second} {first}.",
        f"  {first.replace(' ', '  ')}!",
        f"According to the notes, {first[0].lower()}{first[1:]}.",
        f"The user said: {second}",
        f"{first} [1]. {second} [2]",
        context.text,
        f"I was told: {context.text}",
    ):
        added = gate.remember(echo)
        assert (added.new, added.repeats_injected_text, added.fact.id) == (False, True, ""), echo
    assert gate.facts.all() == []


def test_what_says_something_else_is_remembered(gate):
    gate.context("who looks after refunds?")
    for new in (
        "The team that looks after refunds answers within 9 days.",
        "The team that looks after refunds does not answer within 2 days.",
        "Questions about refunds go to desk 77 in the north wing.",
        "Questions about refunds go to Ada.",
        "The team that looks after parcels is small.",
        "Refunds matter.",
        "Questions about refunds go to desk 41 in the north wing.",
        "Desk 40",
    ):
        assert gate.remember(new).new, new


def test_before_it_was_injected_the_same_text_is_new(gate):
    assert gate.remember(ROWS[0]["text"]).new


def test_a_known_fact_that_comes_back_is_the_known_one_and_gains_nothing(gate):
    fact = gate.remember("The staging server is called Heron.").fact
    assert "Heron" in gate.context("what is the staging server called?").text
    again = gate.remember("the staging server is called Heron", trust=0.9)
    assert (again.new, again.repeats_injected_text, again.fact) == (False, False, fact)
    assert gate.remember("Note: the staging server is called Heron").repeats_injected_text
    assert gate.facts.all() == [fact]


def test_new_text_around_a_block_is_remembered_without_it(gate):
    block = gate.context("who looks after refunds?").text
    added = gate.remember(f"{block}\n\nThe refunds team moved to Lisbon.")
    assert added.fact.content == "The refunds team moved to Lisbon."


def test_another_tenant_may_remember_it(gate):
    text = gate.context("who looks after refunds?").chunks[0].text
    with gate.for_tenant("other") as other:
        assert other.remember(text).new


def test_what_another_process_injected_is_read_from_its_traces(tmp_path):
    settings = Settings(store=str(tmp_path))
    with Millgate.open(settings=settings) as one, Millgate.open(settings=settings) as two:
        one.add(ROWS)
        assert two.remember("Something else entirely.").new
        text = one.context("who looks after refunds?").chunks[0].text
        assert one.traces()  # which waits until the trace is written
        assert two.remember(text).repeats_injected_text
    with Millgate.open(settings=settings) as later:
        assert later.remember(text).repeats_injected_text


def test_turns_are_kept_without_the_blocks_that_were_injected(gate):
    block = gate.context("who looks after refunds?").text
    message = {"role": "user", "content": f"{block}\n\nAnd who looks after parcels?"}
    assert gate.add_turns("s", [message, {"role": "user", "content": block}]).new == 1
    (size,) = [size for name, size in gate.collections().items() if name == "turns"]
    assert size.chunks == 1
    (turn,) = gate.document(gate.add_turns("s", [message]).ids[0], collection="turns")
    assert turn.text.endswith("User: And who looks after parcels?")


@pytest.mark.slow
def test_a_thousand_turns_leave_no_echo(gate):
    """The agent remembers what it reads, in several wordings, and what its user tells it."""
    known = gate.remember("The desk in the north wing closes at noon.").fact
    told = 0
    for turn in range(1000):
        topic = TOPICS[turn % len(TOPICS)]
        context = gate.context(f"who looks after {topic} in the north wing?", session="s")
        texts = [chunk.text for chunk in context.chunks]
        assert texts
        text = texts[turn % len(texts)]
        echo = (text, context.text, f"According to the context, {text}", text.split(". ")[0])
        gate.remember(echo[turn % len(echo)])
        gate.add_turns("s", [{"role": "user", "content": f"{context.text}\n\nQuestion {turn}?"}])
        if turn % 10 == 0:
            told += gate.remember(f"Ticket {turn} is with Ada until Friday.").new
    assert told == 100
    facts = {fact.id: fact for fact in gate.facts.all()}
    assert len(facts) == 101
    assert facts[known.id] == known
    assert all(fact.content.startswith(("Ticket", "The desk")) for fact in facts.values())
    assert not any("<ref" in c.text for c in gate.store.scan("default", "turns"))


def test_what_is_held_stays_small(gate):
    injected = Injected(TemporaryStore())
    trace = gate.context("who looks after refunds?").trace
    texts = list(shown_texts(trace))
    for n in range(2 * TENANTS_HELD):
        injected.add(_of(trace, tenant=f"t{n}"))
    assert not injected.contains("t0", texts[0])
    assert injected.contains(f"t{2 * TENANTS_HELD - 1}", texts[0])
    for n in range(300):
        injected.add(_of(trace, tenant="big", text=f"{texts[0]} {n} " + f"word{n} " * 300))
    assert sum(map(len, injected._held["big"])) <= MAX_CHARS


def _of(trace, *, tenant, text=None):
    from dataclasses import replace

    candidates = trace.candidates
    if text:
        shown = [c for c in candidates if c.chunk.text in set(shown_texts(trace))]
        candidates = tuple(replace(c, chunk=replace(c.chunk, text=text)) for c in shown)
    request = replace(trace.request, tenant=tenant)
    return replace(trace, id=f"{tenant}{text}", request=request, candidates=candidates)


class SlowStore(TemporaryStore):
    """A store in which the traces of one tenant are not read before it is told to."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()

    def traces(self, tenant, *, limit=100):
        if tenant == "slow":
            self.asked.set()
            assert self.go.wait(MOST_S)
        return super().traces(tenant, limit=limit)


def test_a_tenant_whose_memory_is_slow_holds_up_neither_others_nor_the_event_loop():
    store = SlowStore()

    async def others():
        fast = gate.for_tenant("fast")
        added = asyncio.ensure_future(fast.aremember("The ferry leaves at nine."))
        # on the event loop, which must go on: what a request showed is noted there
        shown = await fast.acontext("who looks after refunds?")
        return await added, shown

    with Millgate.open(store=store) as gate, ThreadPoolExecutor(2) as pool:
        gate.for_tenant("fast").add(ROWS)
        slow = pool.submit(gate.for_tenant("slow").remember, "The harbor is closed.")
        try:
            assert store.asked.wait(MOST_S)
            added, shown = pool.submit(asyncio.run, others()).result(timeout=MOST_S)
            assert added.new
            assert shown.chunks
            assert not slow.done()
        finally:
            store.go.set()
        assert slow.result().new
