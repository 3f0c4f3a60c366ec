"""Why: the change it names admits the chunk, and one step less does not."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from millgate.errors import NotFound
from millgate.explain.why import BUDGET_S, why
from millgate.gateway import Millgate
from millgate.gateway.traces import ChangedRun
from millgate.settings import Settings
from millgate.types import ContextBudget

WORDS = ["refund", "card", "parcel", "rail", "days", "support", "invoice", "claim", "harbor"]
texts = st.lists(st.sampled_from(WORDS), min_size=3, max_size=60).map(" ".join)


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        yield gate


def fill(gate, bodies):
    gate.remove(everything=True)
    gate.add({"id": f"c{n}", "text": f"Note {n}. {body}."} for n, body in enumerate(bodies))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), bodies=st.lists(texts, min_size=2, max_size=12, unique=True))
def test_applying_the_suggested_change_admits_the_chunk(gate, data, bodies):
    fill(gate, bodies)
    k = data.draw(st.none() | st.integers(1, 3))
    budget = data.draw(st.integers(0, 300))
    window = data.draw(st.none() | st.sampled_from(bodies))
    made = gate.context("refund of the parcel", budget=budget, k=k, window=window)
    lost = [c.chunk.id for c in made.trace.candidates if c.dropped]
    assume(lost)
    chunk = data.draw(st.sampled_from(lost))
    told = gate.why(made.trace.id, chunk)
    assert not told.entered
    assert told.changes, told
    changes = {change.name: change.now for change in told.changes}
    assert chunk in gate.replay(made.trace.id, changes).after.kept
    if len(changes) == 1 and next(iter(changes)) in ("budget", "k"):
        ((name, value),) = changes.items()
        assert chunk not in gate.replay(made.trace.id, {name: value - 1}).after.kept


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"budget": 30}, {"budget"}),
        ({"budget": 500, "k": 1}, {"k"}),
        ({"budget": 20, "k": 1}, {"budget", "k"}),
    ],
)
def test_the_change_concerns_what_stopped_the_chunk(gate, asked, names):
    fill(gate, ["refund refund refund", "parcel and refund by rail, harbor and lamp"])
    made = gate.context("refund", **asked)
    told = gate.why(made.trace.id, made.trace.candidates[-1].chunk.id)
    assert told.stage == "gate"
    assert {change.name for change in told.changes} == names


def test_boilerplate_names_its_threshold(gate):
    fill(gate, ["refund again and again. " * 60, "refund once"])
    made = gate.context("refund", budget=5000)
    told = gate.why(made.trace.id, "c0")
    assert told.reason.startswith("boilerplate")
    ((name, was, now),) = [(c.name, c.was, c.now) for c in told.changes]
    assert (name, was) == ("gate.min_ratio", 0.08)
    assert now < was


def test_a_repeat_of_the_window_names_the_switch(gate):
    body = "refund by card within fourteen days of the claim"
    fill(gate, [body, "refund by rail"])
    made = gate.context("refund", window=f"Note 0. {body}.")
    told = gate.why(made.trace.id, "c0")
    assert told.stage == "penalize"
    assert [change.name for change in told.changes] == ["penalize"]


def test_a_full_window_names_how_full_it_may_be(gate):
    fill(gate, ["refund by card"])
    full = ContextBudget(context_length=1000, used_tokens=990)
    made = gate.context("refund", context_budget=full)
    told = gate.why(made.trace.id, "c0")
    assert told.stage == "decide"
    assert [change.name for change in told.changes] == ["used_tokens"]
    assert told.changes[0].now <= 950


def test_a_chunk_that_was_shown_needs_no_change(gate):
    fill(gate, ["refund by card"])
    told = gate.why(gate.context("refund").trace.id, "c0")
    assert told.entered
    assert told.changes == ()


def test_what_shares_no_word_with_the_query_is_never_found(gate):
    fill(gate, ["refund by card", "lamp in the harbor"])
    told = gate.why(gate.context("refund").trace.id, "c1")
    assert (told.stage, told.changes) == ("retrieve", ())
    assert "no setting admits it" in told.note


def test_without_text_only_the_stage_is_told():
    with Millgate.open(":memory:", trace={"text": False}) as gate:
        fill(gate, ["refund by card", "refund by rail"])
        made = gate.context("refund", k=1)
        told = gate.why(made.trace.id, made.report.evicted_ids[0])
    assert told.reason == "beyond k"
    assert "without text" in told.note


def test_a_trace_at_hand_needs_no_store(gate):
    fill(gate, ["refund by card", "refund by rail"])
    made = gate.context("refund", k=1)
    (change,) = gate.why(made.trace, made.report.evicted_ids[0]).changes
    assert (change.name, change.now) == ("k", 2)
    assert gate.replay(made.trace, {"k": 2}).entered == made.report.evicted_ids
    with pytest.raises(NotFound):
        gate.for_tenant("other").trace(replace(made.trace, id="x"))


def test_a_trace_of_another_tenant_is_not_there(gate):
    fill(gate, ["refund by card"])
    made = gate.context("refund")
    with pytest.raises(NotFound):
        gate.for_tenant("other").trace(made.trace.id)


@pytest.mark.parametrize("seed", range(6))
def test_the_budget_that_is_named_admits_the_chunk_and_one_token_less_does_not(gate, seed):
    rng = random.Random(seed)
    fill(gate, [" ".join(rng.choices(WORDS, k=rng.randint(3, 40))) for _ in range(10)])
    made = gate.context("refund of the parcel", budget=rng.randint(60, 200))
    lost = [c for c in made.trace.candidates if c.dropped and "no room" in c.notes[-1].reason]
    chunk = rng.choice(lost).chunk.id
    (change,) = gate.why(made.trace.id, chunk).changes
    assert change.name == "budget"
    assert chunk in gate.replay(made.trace.id, {"budget": change.now}).after.kept
    assert chunk not in gate.replay(made.trace.id, {"budget": change.now - 1}).after.kept


class Slow(ChangedRun):
    """Runs that take a second of CPU each."""

    async def __call__(self, request, changes):
        self.cpu_s += 1.0
        return await super().__call__(request, changes)


class Waiting(ChangedRun):
    """Runs that wait four seconds each on a busy machine."""

    async def __call__(self, request, changes):
        self._began -= 4.0
        return await super().__call__(request, changes)


@pytest.mark.parametrize(("run", "said"), [(Slow, "stopped after 5 seconds of CPU"), (Waiting, "stopped after 20 seconds")])  # fmt: skip
async def test_a_search_ends_after_its_time_with_what_it_found_by_then(gate, run, said):
    rng = random.Random(1)
    fill(gate, [" ".join(rng.choices(WORDS, k=rng.randint(3, 40))) for _ in range(10)])
    made = gate.context("refund of the parcel", budget=60)
    fell = [c for c in made.trace.candidates if c.dropped and "no room" in c.notes[-1].reason]
    lost = max(fell, key=lambda c: len(c.chunk.text))
    told = await why(made.trace, lost.chunk.id, run(gate._components), gate.settings)
    assert told.runs <= BUDGET_S + 1
    assert said in told.note
    changes = {change.name: change.now for change in told.changes}
    assert changes
    assert lost.chunk.id in (await gate.areplay(made.trace, changes)).after.kept
