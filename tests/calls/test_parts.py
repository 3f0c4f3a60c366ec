"""Parts of the user's own that exit, hang, block or answer nonsense: the gate goes on and says so."""

import asyncio
import signal
import threading
import time

import numpy as np
import pytest
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.calls.parts import ThreadCalls, await_part, contain, is_failure
from millgate.errors import ConfigError, StoreError, UpstreamError, UpstreamTimeout
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock, strict

ROWS = [
    {"id": f"ferry-{n}", "text": f"Ferry {n} leaves the quay at {n} o'clock."} for n in range(4)
]
QUESTION = "when does ferry 2 leave the quay?"
EXITS = [SystemExit(2), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]


class Failing:
    """Every part in one: it raises what it is told, or does it after `go` is set."""

    name, dimension = "failing", 4

    def __init__(self, error=None):
        self.error = error

    def _fail(self):
        if self.error is not None:
            raise self.error

    async def grade(self, query, candidates):
        self._fail()
        return [1.0] * len(candidates)

    async def search(self, query, *, limit):
        self._fail()
        return []

    def embed(self, texts):
        self._fail()
        return np.full((len(texts), 4), 0.5, np.float32)

    def is_available(self):
        return True

    def prefetch(self, query, **_):
        self._fail()
        return "- Ferry 2 is late."

    def __call__(self, text=""):
        self._fail()
        return len(text) // 4


class AsyncProvider(Failing):
    async def prefetch(self, query, **_):
        self._fail()
        return "- Ferry 2 is late."


class FailingStore(TemporaryStore):
    error = None

    def chunks(self, *args):
        if self.error is not None:
            raise self.error
        return super().chunks(*args)


def in_thread(call, *args):
    """The result of a call in a thread that is not the main one; the error that it raised is raised here."""
    found = []

    def run():
        try:
            found.append((call(*args), None))
        except BaseException as error:  # noqa: BLE001  (it is raised in the main thread)
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(MOST_S)
    assert found, "the call hangs"
    result, error = found[0]
    if error is not None:
        raise error
    return result


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("grader", Failing),
        ("search", Failing),
        ("embedder", Failing),
        ("providers", Failing),
        ("providers", AsyncProvider),
        ("store", FailingStore),
    ],
)
def test_a_part_that_exits_fails_alone_and_later_calls_and_close_go_on(name, kind, error):
    part = kind()
    with Millgate.open(":memory:", **{name: [part] if name == "providers" else part}) as gate:
        gate.add(ROWS)
        part.error = error
        context = in_thread(
            gate.context, "what is the price of tea?" if name == "search" else QUESTION
        )
        assert type(error).__name__ in " ".join(context.degraded)
        part.error = None
        assert in_thread(gate.context, QUESTION).chunks


@pytest.mark.parametrize("error", EXITS[:1], ids=lambda error: type(error).__name__)
async def test_a_part_that_exits_does_not_end_the_callers_own_loop(error):
    with Millgate.open(":memory:", grader=Failing(error), clock=Failing()) as gate:
        gate.add(ROWS)
        context = await gate.acontext(QUESTION)
        assert "the grader failed: SystemExit: 2" in " ".join(context.degraded)


@pytest.mark.parametrize("error", [SystemExit(2), StopIteration()], ids=["exit", "stop"])
async def test_an_async_call_whose_store_exits_raises_an_error_that_can_be_handled(error):
    store = FailingStore()
    with Millgate.open(store=store) as gate:
        gate.add(ROWS)

        def fail(*_, **__):
            raise error

        store.put = fail
        with pytest.raises(UpstreamError, match="the call of add failed"):
            await gate.aadd(ROWS)


def test_an_exit_of_the_part_is_a_failure_and_that_of_a_person_or_a_signal_is_not():
    assert is_failure(SystemExit())
    assert not is_failure(KeyboardInterrupt())

    def leave(number, frame):
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit):
            contain("counter", signal.raise_signal, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    with pytest.raises(UpstreamError, match="the counter failed: SystemExit: 3"):
        contain("counter", Failing(SystemExit(3)))


WRONG = [ValueError("broken"), SystemExit(3), StopIteration(), None, "five", float("nan"), -1e400]


@pytest.mark.parametrize("answer", WRONG, ids=str)
@pytest.mark.parametrize("part", ["counter", "clock"])
def test_for_a_counter_and_a_clock_that_fail_ours_answer_and_the_log_says_so_once(part, answer, caplog):  # fmt: skip
    def fail(*_):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with Millgate.open(":memory:", **{part: fail}) as gate, strict():
        gate.add(ROWS)
        context = gate.context(QUESTION)
        assert "ferry-2" in [chunk.id for chunk in context.chunks]
        assert context.degraded == ()
        assert gate.remember("The quay is 300 m long.").fact.created > 1e9
        assert gate.count_tokens("five words are counted here") > 1
    said = [line.message for line in caplog.records]
    assert len(said) == 1
    assert said[0].startswith(f"your own {part} failed, and ours answers: ")


def test_a_counter_may_count_in_fractions():
    with Millgate.open(":memory:", counter=lambda text: len(text) / 4) as gate:
        assert gate.count_tokens("tides") == 2


class Hanging:
    """A grader, a search and an embedder that wait until the test ends."""

    name, dimension = "hanging", 4

    def __init__(self):
        self.ended = threading.Event()
        self.began, self.asked = asyncio.Event(), 0

    async def grade(self, query, candidates):
        self.began.set()
        self.asked += 1
        if not self.ended.is_set():
            await asyncio.Event().wait()
        return [1.0] * len(candidates)

    async def search(self, query, *, limit):
        await asyncio.Event().wait()

    def embed(self, texts):
        self.ended.wait()
        return np.ones((len(texts), 4), np.float32)


class Blocking(Hanging):
    """A grader that is async by name alone, and holds its event loop."""

    async def grade(self, query, candidates):
        self.ended.wait()
        return [1.0] * len(candidates)


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.ended.set()


def test_a_grader_that_hangs_is_left_out_after_its_time(hanging):
    with Millgate.open(":memory:", grader=hanging, grade={"deadline_s": 0.1}) as gate:
        gate.add(ROWS)
        context = gate.context(QUESTION)
        assert context.chunks
        assert "the grader gave no answer in 0.1 s" in " ".join(context.degraded)


def test_a_grader_that_keeps_hanging_rests_and_is_asked_again(hanging):
    clock = FixedClock()
    with Millgate.open(":memory:", grader=hanging, grade={"deadline_s": 0.05}) as gate:
        gate.add(ROWS)
        rest = gate._opened.engine.resources.grader_rest
        rest._clock = clock
        for _ in range(3):
            assert "gave no answer" in " ".join(gate.context(QUESTION).degraded)
        asked = hanging.asked
        context = gate.context(QUESTION)
        assert context.chunks
        reason = "the grader is resting after 3 failures: the grader gave no answer in 0.05 s"
        assert reason in " ".join(context.degraded)
        assert hanging.asked == asked
        clock.advance(30)
        assert "gave no answer" in " ".join(gate.context(QUESTION).degraded)
        assert "is resting" in " ".join(gate.context(QUESTION).degraded)
        clock.advance(30)
        hanging.ended.set()
        for _ in range(2):
            assert not gate.context(QUESTION).degraded
        assert rest.failures_in_a_row == 0


def test_a_search_that_keeps_hanging_rests(hanging):
    with Millgate.open(":memory:", search=hanging, grade={"deadline_s": 0.05}) as gate:
        told = [" ".join(gate.context("what is the price of tea?").degraded) for _ in range(4)]
    assert ["the search is resting" in one for one in told] == [False, False, False, True]


async def test_a_request_that_is_cancelled_says_nothing_of_the_grader(hanging):
    with Millgate.open(":memory:", grader=hanging) as gate:
        rest = gate._opened.engine.resources.grader_rest
        gate.add(ROWS)
        for _ in range(4):
            hanging.began.clear()
            waiting = asyncio.create_task(gate.acontext(QUESTION))
            await hanging.began.wait()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
    assert rest.failures_in_a_row == 0


def test_a_search_that_hangs_is_left_out_after_its_time(hanging):
    with Millgate.open(":memory:", search=hanging, grade={"deadline_s": 0.1}) as gate:
        context = gate.context("what is the price of tea?")
        assert "the search gave no answer in 0.1 s" in " ".join(context.degraded)


def test_a_grader_that_blocks_its_loop_costs_later_calls_and_close_no_more_than_its_time():
    grader = Blocking()
    gate = Millgate.open(":memory:", grader=grader, grade={"deadline_s": 0.1})
    try:
        gate.add(ROWS)
        for _ in range(2):
            context = gate.context(QUESTION)
            assert context.chunks
            assert "the grader gave no answer" in " ".join(context.degraded)
        grader.ended.set()
        assert not gate.context(QUESTION).degraded
    finally:
        grader.ended.set()
        gate.close()


def test_an_embedder_that_hangs_leaves_the_search_to_words(hanging):
    with Millgate.open(":memory:", embedder=hanging, embed={"timeout_s": 0.1}) as gate:
        gate.add(ROWS)
        context = gate.context(QUESTION)
        assert [chunk.id for chunk in context.chunks][:1] == ["ferry-2"]
        assert "the embedder gave no answer in 0.1 s" in " ".join(context.degraded)


def test_close_does_not_wait_for_an_embedder_that_hangs(hanging):
    gate = Millgate.open(":memory:", embedder=hanging)
    gate.add(ROWS)
    asked = threading.Event()
    failed = []
    hanging.embed = lambda texts: (asked.set(), hanging.ended.wait())

    def ask():
        try:
            gate.context(QUESTION)
        except StoreError as error:
            failed.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert asked.wait(MOST_S)
    gate.close()
    thread.join(MOST_S)
    assert "closed" in failed[0]


def test_while_a_call_is_late_no_other_is_begun(hanging):
    calls = ThreadCalls("embedder")
    with pytest.raises(UpstreamTimeout, match="gave no answer"):
        calls.call(0.01, hanging.embed, ["one"])
    with pytest.raises(UpstreamTimeout, match="not come back"):
        calls.call(60, hanging.embed, ["two"])
    hanging.ended.set()
    until = time.monotonic() + MOST_S
    while time.monotonic() < until:
        try:
            assert len(calls.call(60, hanging.embed, ["three"])) == 1
            break
        except UpstreamTimeout:
            continue
    else:
        pytest.fail("the call that was late is still counted")


async def test_a_part_that_cancels_itself_fails_and_a_request_that_is_cancelled_is_cancelled():
    async def cancel():
        raise asyncio.CancelledError

    with pytest.raises(UpstreamError, match="the grader failed: CancelledError"):
        await await_part("grader", None, cancel)
    waiting = asyncio.ensure_future(await_part("grader", 60, asyncio.Event().wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class NamelessEmbedder:
    def embed(self, texts):
        return np.ones((len(texts), 2))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"grader": lambda query, candidates: [1.0]}, "grader: function has no grade"),
        ({"grader": Failing}, r"give an object: Failing\(...\)"),
        ({"search": object()}, "search: object has no search"),
        ({"embedder": NamelessEmbedder()}, "embedder: NamelessEmbedder has no name"),
        ({"providers": object()}, "providers is no list"),
        ({"providers": [object()]}, "providers: object has no prefetch"),
        ({"counter": 5}, "counter: int cannot be called"),
        ({"clock": 5}, "clock: int cannot be called"),
        ({"store": object()}, "store: object has no"),
    ],
)
def test_what_is_no_part_is_refused_at_once(parts, message):
    with pytest.raises(ConfigError, match=message):
        Millgate.open(":memory:" if "store" not in parts else None, **parts)


def test_what_a_grader_or_search_raises_is_one_line_and_no_bug_of_ours(caplog):
    class Raising:
        async def grade(self, query, candidates):
            raise ValueError("my own")

        async def search(self, query, *, limit):
            raise KeyError("my key")

    with Millgate.open(":memory:", grader=Raising(), search=Raising()) as gate:
        gate.add(ROWS)
        graded = gate.context(QUESTION, budget=100)
    assert "grade: the grader failed: ValueError: my own" in graded.trace.degraded
    assert not caplog.records
