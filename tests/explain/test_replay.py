"""Replay: the difference that settings make, and nothing written."""

from dataclasses import replace

import pytest

from millgate.errors import InputError, LimitError
from millgate.gateway import Millgate
from millgate.settings import Settings
from millgate.types import Step
from millgate.types.notes import Stage


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        gate.add({"id": f"c{n}", "text": f"refund number {n} by card {'x' * n}"} for n in range(6))
        yield gate


def test_the_difference_names_what_entered_and_left(gate):
    made = gate.context("refund card", k=2)
    wide = gate.replay(made.trace.id, {"k": 4})
    assert len(wide.before.kept) == 2
    assert set(wide.entered) == set(wide.after.kept) - set(wide.before.kept)
    assert len(wide.entered) == 2
    assert wide.left == ()
    assert wide.tokens == wide.after.tokens - wide.before.tokens > 0
    tight = gate.replay(made.trace.id, {"k": 1})
    assert len(tight.left) == 1
    assert tight.tokens < wide.tokens


def test_a_replay_leaves_no_trace_and_repeats_itself(gate):
    made = gate.context("refund card", k=2)
    before = gate.traces()
    first = gate.replay(made.trace.id, {"grade.floor": 0.5})
    assert gate.replay(made.trace.id, {"grade.floor": 0.5}) == first
    assert gate.traces() == before
    assert first.drift == ()


def test_a_model_call_has_nothing_to_replay(gate):
    made = gate.context("refund card").trace
    call = replace(made, id="f" * 32, steps=(Step(Stage.MODEL, 0.1, facts={"model": "m"}),))
    gate.save_trace(call)
    with pytest.raises(InputError, match="this is a model call; nothing to replay"):
        gate.replay("last", {"k": 1})


def test_drift_names_what_changed_since(gate):
    made = gate.context("refund card")
    gate.remove(chunks=["c0"])
    assert gate.replay(made.trace.id, {}).drift == ("c0",)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"tenant": "other"}, InputError),
        ({"query": "x"}, InputError),
        ({"asker": "x"}, InputError),
        ({"store.path": "x"}, InputError),
        ({"limits.budget": 1}, InputError),
        ({"service.port": 1}, InputError),
        ({"gate.nothing": 1}, InputError),
        ({"gate.min_ratio": 7}, InputError),
        ({"gate": {}}, InputError),
        ({"k": "many"}, InputError),
        ({"budget": None}, InputError),
        ({"detail": "most"}, InputError),
        ({"used_tokens": "x"}, InputError),
        ({"retrieve.keep": 10**9}, LimitError),
        ({"budget": 10**12}, LimitError),
    ],
)
def test_what_cannot_be_changed_is_refused(gate, changes, error):
    made = gate.context("refund")
    with pytest.raises(error):
        gate.replay(made.trace.id, changes)


@pytest.mark.parametrize(
    ("keeping", "left"),
    [({"keep": 2}, 2), ({"keep": 0}, 0), ({}, 3)],
)
def test_traces_are_kept_as_long_as_the_settings_say(keeping, left):
    with Millgate.open(settings=Settings(store=":memory:", trace=keeping)) as gate:
        gate.add([{"id": "a", "text": "refund by card"}])
        for _ in range(3):
            gate.context("refund")
        assert len(gate.traces()) == left


def test_texts_are_kept_only_if_allowed():
    with Millgate.open(settings=Settings(store=":memory:", trace={"text": False})) as gate:
        gate.add([{"id": "a", "text": "refund by card"}])
        id = gate.context("refund").trace.id
        assert "refund" not in str(gate.trace(id))
        with pytest.raises(InputError, match="without its text"):
            gate.replay(id, {})


@pytest.mark.parametrize("value", [20_000, "20000", 20_000.0])
def test_a_bound_holds_however_the_number_is_written(gate, value):
    made = gate.context("refunds")
    with pytest.raises(InputError, match="at most"):
        gate.replay(made.trace.id, {"retrieve.keep": value})


@pytest.mark.parametrize("change", [{"graph.max_results": "10000000"}, {"graph.max_hops": "50"}])
def test_a_walk_has_an_end_in_a_replay_too(gate, change):
    made = gate.context("refunds")
    with pytest.raises(InputError):
        gate.replay(made.trace.id, change)
