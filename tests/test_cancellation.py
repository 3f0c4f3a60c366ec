"""Every public async call, cancelled at its first await, its second, and on: nothing leaks, nothing is half-written."""

import asyncio
import inspect
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from millgate.errors import InputError, StoreError
from millgate.gateway import Millgate
from millgate.gateway.compactions import LostMessages
from millgate.knowledge.facts import Facts
from millgate.knowledge.review import ReviewQueue
from millgate.operations.check import check
from millgate.sessions.compaction.account import Account
from millgate.sessions.conversation import Conversations

ROWS = [{"id": f"p{n}", "text": f"Refund {n} of the ferry is paid by card."} for n in range(30)]
LONG = {"id": "long", "text": "\n\n".join(f"Paragraph {n}. " + "word " * 150 for n in range(12))}
QUERY = "how is the refund of the ferry paid?"


class CancelAt:
    """Awaits a coroutine and cancels the running task when it is suspended for the n-th time."""

    def __init__(self, work, n):
        self._work, self._n = work, n
        self.suspended = 0

    def __await__(self):
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        inner = self._work.__await__()
        send, value = inner.send, None
        while True:
            try:
                waits_for = send(value)
            except StopIteration as done:
                return done.value
            if self.suspended == self._n:
                loop.call_soon(task.cancel)
            self.suspended += 1
            try:
                value = yield waits_for
                send = inner.send
            except BaseException as error:  # noqa: BLE001  handed on
                value, send = error, inner.throw


QUESTION = {"role": "user", "content": "which port?"}
CALLS = {
    "acontext": lambda gate: gate.acontext(QUERY, window=["The ferry is late."]),
    "acontext_for": lambda gate: gate.acontext_for(gate.trace(gate.known).request),
    "awhy": lambda gate: gate.awhy(gate.known, "p29"),
    "areplay": lambda gate: gate.areplay(gate.known, {"budget": 40}),
    "aadd": lambda gate: gate.aadd([LONG, *ROWS]),
    "aadd_files": lambda gate: gate.aadd_files(gate.folder / "page.md"),
    "aadd_stream": lambda gate: gate.aadd_stream(LONG["text"].encode(), id="stream"),
    "aadd_turns": lambda gate: gate.aadd_turns("s", ["How are refunds paid?", "By card."]),
    "aremove": lambda gate: gate.aremove(documents=["p1", "p2"]),
    "acollections": lambda gate: gate.acollections(),
    "adocument": lambda gate: gate.adocument("p5"),
    "aremember": lambda gate: gate.aremember("Grace repairs the engine."),
    "arecall": lambda gate: gate.arecall("who maintains the ferry?"),
    "afeedback": lambda gate: gate.afeedback(gate.fact, helpful=True),
    "atrace": lambda gate: gate.atrace(gate.known),
    "atraces": lambda gate: gate.atraces(),
    "acompactions": lambda gate: gate.acompactions("s"),
    "lost_messages.akeep": lambda gate: gate.lost_messages.akeep([], "s"),
    "lost_messages.acompose_instructions": lambda gate: gate.lost_messages.acompose_instructions(
        Account("summary", 0), budget=100
    ),
    "lost_messages.acontext_for": lambda gate: gate.lost_messages.acontext_for(
        gate.trace(gate.known).request
    ),
    "lost_messages.aobserve": lambda gate: gate.lost_messages.aobserve(
        Conversations(), "s", [QUESTION]
    ),
    "arecall_session": lambda gate: gate.arecall_session("which port?", "s"),
    "areindex": lambda gate: gate.areindex(),
    "acheck": lambda gate: gate.acheck("index"),
    "facts.aadd": lambda gate: gate.facts.aadd("Linus sells the tickets."),
    "facts.aupdate": lambda gate: gate.facts.aupdate(gate.fact, content="Ada runs the ferry."),
    "facts.aforget": lambda gate: gate.facts.aforget(gate.fact),
    "facts.aget": lambda gate: gate.facts.aget(gate.fact),
    "facts.asearch": lambda gate: gate.facts.asearch("ferry"),
    "facts.afeedback": lambda gate: gate.facts.afeedback(gate.fact, helpful=False),
    "reviews.adraft": lambda gate: gate.reviews.adraft(gate.review, "Michelangelo did."),
    "reviews.aanswer": lambda gate: gate.reviews.aanswer(gate.review, "Michelangelo did."),
    "reviews.aapprove": lambda gate: gate.reviews.aapprove(gate.review),
    "reviews.areject": lambda gate: gate.reviews.areject(gate.review),
    "reviews.areview": lambda gate: gate.reviews.areview(gate.review),
    "reviews.areviews": lambda gate: gate.reviews.areviews(),
    "aclose": lambda gate: gate.aclose(),
}


class Gate(Millgate):
    """A filled gate that knows a trace, a fact and a review to ask about."""

    known = fact = review = ""
    folder = Path()


def filled(folder):
    gate = Gate.open(folder / "kb", review={"on_refusal": True})
    gate.folder = folder
    (folder / "page.md").write_text(LONG["text"])
    gate.add(ROWS)
    gate.fact = gate.remember("Ada maintains the ferry.").fact.id
    gate.known = gate.context(QUERY, budget=120).trace.id
    gate.review = gate.context("who painted the ceiling of the chapel?").review
    gate.traces()
    return gate


OWNERS = {Millgate: "", LostMessages: "lost_messages.", Facts: "facts.", ReviewQueue: "reviews."}


def public_async_calls():
    for owner, prefix in OWNERS.items():
        for name, _ in inspect.getmembers(owner, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                yield prefix + name


def test_the_harness_knows_every_public_async_call():
    assert set(CALLS) == set(public_async_calls())


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


def other_threads():
    """How many threads there are beside those of requests, which are shared by all and stay."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(not name.startswith("millgate-request") for name in names)


async def settled():
    """Wait until the threads that a cancelled call left behind have ended their work."""
    while any(  # noqa: ASYNC110  a thread sets no event
        thread.name.startswith(("asyncio_", "millgate-request")) and busy(thread)
        for thread in threading.enumerate()
    ):
        await asyncio.sleep(0.001)


def busy(thread):
    """Whether a thread of the executor is at work, and not waiting for some."""
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and frame.f_code.co_name != "_worker"


async def cancel_everywhere(gate, call):
    """How often the call was suspended after the last cancellation."""
    for n in range(500):
        work = CancelAt(call(gate), n)
        task = asyncio.ensure_future(_run(work))
        # our own errors: a second answer, a fact that is gone, for it was done before
        with suppress(asyncio.CancelledError, InputError, StoreError):
            await task
        await settled()
        if work.suspended <= n:
            return n
    raise AssertionError("it never came to its end")


async def _run(work):
    return await work


SLOW = {"awhy"}  # suspended so often that to cancel it everywhere takes six seconds


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in sorted(CALLS)],
)
def test_a_call_can_be_cancelled_at_every_await(tmp_path, name):
    gate = filled(tmp_path)
    asyncio.run(cancel_everywhere(gate, CALLS["acollections"]))  # so that lazy parts are there
    before = descriptors(), other_threads()
    points = asyncio.run(cancel_everywhere(gate, CALLS[name]))
    assert points >= 1
    if name == "aclose":
        gate = Millgate.open(tmp_path / "kb")
    else:
        assert descriptors() <= before[0] + 4
        assert other_threads() <= before[1] + 1
    answer = gate.context(QUERY)
    assert answer.chunks
    assert not answer.degraded
    for id in ("long", "stream", "page.md"):
        parts = list(gate.store.scan("default", "main", document=id))
        assert [part.position for part in parts] == list(range(len(parts)))
        assert not parts or len(parts) >= 2
    decided = gate.reviews.reviews("answered")
    said = [fact for fact in gate.facts.all() if "Michelangelo" in fact.content]
    assert len(decided) == len(said)
    gate.close()
    assert check(tmp_path / "kb") == []
