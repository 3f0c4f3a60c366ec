"""`millgate why` and the sizes of `status`: numbers as a person reads them."""

import json
import time
from dataclasses import replace

import pytest

from millgate.cli.status import describe_lag, size
from millgate.cli.why import MOST_LEFT_OUT, _describe_answer, _describe_cost, describe_trace
from millgate.explain.costs import Costs
from millgate.explain.describe import describe, describe_notes
from millgate.explain.why import SettingChange, Why
from millgate.gateway import Millgate
from millgate.testing.samples import trace as sample
from millgate.types import Candidate, Chunk, Request, Step, Trace
from millgate.types.notes import Fate, Note, NoteCode, Stage


def test_times_are_milliseconds(run, tmp_path):
    trace = replace(sample("t1", tenant="default", created=time.time()), steps=(Step(Stage.RETRIEVE, 0.25, received=3, kept=2, dropped=1),))  # fmt: skip
    assert "250.00" in describe_trace(trace)
    with Millgate.open(tmp_path / "kb") as gate:
        gate.save_trace(trace)
    assert " 250.0 ms" in run("why", "--list", "--store", "kb")[1]


def test_sizes_are_megabytes_and_a_lag_is_counted():
    assert size(2_540_000) == "2.5 MB"
    assert size(12_345_000_000) == "12,345.0 MB"
    assert describe_lag(None) == "made at the first question"
    assert describe_lag(0) == "up to date"
    assert describe_lag(1_200).startswith("1,200 changes behind")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Step(Stage.MODEL, 0.0, facts={"model": "m"}), "model m"),
        (Step(Stage.GATE, 0.0, facts={"model": "m"}), ""),
        (Step(Stage.GATE, 0.0, degraded="late"), "late"),
        (
            Step(Stage.CUT, 0.0, degraded="late", facts={"cut_chars": 1, "channel": "text"}),
            "late; cut_chars 1, channel text",
        ),
    ],
)
def test_a_step_says_what_went_wrong_and_what_is_known_of_a_call(step, said):
    trace = replace(sample("t1", tenant="default", created=0.0), steps=(step,))
    assert describe(trace).steps == ((step, said),)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ({"share": 0.43}, "found: it has 43% of the query's words"),
        ({"share": 0.0}, "found without a word of the query: by words of the best chunks"),
        ({}, "found"),
    ],
)
def test_it_says_how_a_chunk_was_found(numbers, shown):
    note = Note(Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND, 0.5, numbers)
    assert describe_notes([note])[0].startswith(f"retrieve   add    0.500  {shown}")


def test_a_call_through_the_proxy_is_named_so_instead_of_by_a_strategy():
    facts = {"path": "/v1/messages", "model": "m", "upstream": "main", "guard": "clean"}
    step = Step(Stage.MODEL, 0.1, facts=facts)
    call = Trace("t1", Request("?"), steps=(step,))
    earlier = replace(sample("t1"), steps=(step,))  # as older releases kept it
    for kept in (call, earlier):
        out = describe_trace(kept)
        assert out.splitlines()[0] == "model call: /v1/messages m at main: clean", out


def test_a_call_that_reached_no_model_is_named_by_its_error():
    step = Step(Stage.MODEL, 0.1, facts={"path": "/v1/messages"}, degraded="no such upstream")
    told = describe_trace(Trace("t1", Request("?"), steps=(step,)))
    assert "model call: /v1/messages no such upstream" in told


def with_dropped(count):
    note = Note(Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, 0.1, {"tokens": 9.0})
    fallen = tuple(Candidate(Chunk(f"c{n}", "text", document="d"), 0.1, (note,)) for n in range(count))  # fmt: skip
    return replace(sample("t1"), candidates=fallen)


def outcome(trace):
    """What is said behind the plan, the table of stages, and the chunks that were shown."""
    told = describe(trace)
    before = bool(told.plan) + bool(trace.steps) + len(trace.steps)
    before += sum(1 + len(notes) for notes in told.shown.values())
    return describe_trace(trace).splitlines()[before:]


@pytest.mark.parametrize(("count", "lines"), [(0, 1), (1, 2), (MOST_LEFT_OUT, MOST_LEFT_OUT + 1), (MOST_LEFT_OUT + 3, MOST_LEFT_OUT + 2)])  # fmt: skip
def test_so_many_chunks_that_fell_are_listed_and_the_rest_is_counted(count, lines):
    said = outcome(with_dropped(count))
    assert len(said) == lines
    assert (said[-1] == "nothing was found") is (count == 0)
    assert ("and 3 more: --json lists them all" in said) is (count > MOST_LEFT_OUT)


UNTOUCHED = "nothing new was done to this request, and nothing was left out"


@pytest.mark.parametrize(
    ("facts", "injected", "untouched"),
    [
        ({"outcome": "clean"}, 0, True),
        ({}, 0, True),
        ({"outcome": "ended"}, 0, False),
        ({"outcome": "unanswered", "status": 500}, 0, False),
        ({"context_trace": "992060f2"}, 0, False),
        ({"context_trace": "992060f2", "context_tokens": 9.0}, 9, False),
        ({"outcome": "clean"}, 9, False),
    ],
)
def test_a_call_is_called_untouched_only_if_it_is(facts, injected, untouched):
    steps = (Step(Stage.MODEL, 0.1, facts=facts), Step(Stage.WINDOW, 0.0, facts={"injected": injected}))  # fmt: skip
    assert (UNTOUCHED in outcome(Trace("t1", Request("?"), steps=steps))) is untouched


def test_a_call_whose_window_is_not_known_is_not_called_untouched():
    assert outcome(Trace("t1", Request("?"), steps=(Step(Stage.MODEL, 0.1),))) == []


def test_a_context_that_shows_chunks_leaves_none_out():
    assert outcome(sample("t1")) == ["nothing was left out"]


def test_an_empty_store_is_told_so(run):
    with Millgate.open("kb") as gate:
        gate.context("refunds")
    told = "the store kb is empty: millgate add FOLDER --store kb"
    assert run("why", "--store", "kb")[1].splitlines()[-2:] == ["nothing was found", told]
    with Millgate.open("kb") as gate:
        gate.add(["Refunds are paid by card."])
    assert told not in run("why", "--store", "kb")[1]


def test_a_refused_call_is_listed_with_its_reason(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    step = Step(
        Stage.MODEL, 0.1, degraded="InputError: there is no upstream 'foo'", facts={"guard": "off"}
    )
    refused = replace(
        sample("t1", tenant="default", created=time.time()), steps=(step,), candidates=()
    )
    refused = replace(refused, request=replace(refused.request, query="", session=""))
    with Millgate.open(tmp_path / "kb") as gate:
        gate.save_trace(refused)
    out = run("why", "--list", "--store", "kb")[1]
    asked, told = out.splitlines()
    assert asked.endswith("  InputError: there is no upstream 'foo'")
    assert told.startswith("          1 call, 1 failed, ")


@pytest.mark.parametrize(("names", "said"), [(["k"], "it would have entered with\n"), (["k", "budget"], "with all of these together\n")])  # fmt: skip
def test_changes_that_are_needed_together_are_told_so(names, said):
    changes = tuple(SettingChange(name, 1, 2) for name in names)
    assert said in _describe_answer(Why("t", "c", entered=False, changes=changes))


@pytest.mark.parametrize(
    ("spent", "said"),
    [
        (Costs(calls=1, fresh=36), "36 tokens"),
        (Costs(calls=1, priced=1, cost=0.002), "$0.0020"),
        (Costs(calls=1, priced=1, cost=0.84), "$0.84"),
    ],
)
def test_a_cost_says_its_unit(spent, said):
    assert _describe_cost(spent) == said


def test_the_model_calls_of_a_session_are_one_row_with_their_outcomes(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    now = time.time()

    def call(id, session, outcome, age):
        made = sample(id, tenant="default", created=now - age)
        step = Step(Stage.MODEL, 0.5, facts={"guard": outcome})
        request = replace(made.request, query=f"task of {id}", session=session)
        return replace(made, request=request, steps=(step,), candidates=())

    with Millgate.open(tmp_path / "kb") as gate:
        for trace in (
            call("a1", "monday-agent", "clean", 9),
            call("a2", "monday-agent", "recovered", 8),
            call("a3", "monday-agent", "clean", 7),
            call("a4", "monday-agent", "ended", 6.5),
            call("b1", "other", "failed", 6),
            replace(sample("c1", tenant="default", created=now), steps=()),
        ):
            gate.save_trace(trace)
    code, out, err = run("why", "--list", "--store", "kb")
    assert code == 0
    rows = out.splitlines()
    assert len(rows) == 6
    assert rows[2].split()[0] == "b1"
    assert rows[2].endswith("  task of b1")
    assert "  other: 1 call, 1 failed, " in rows[3]
    assert rows[4].endswith("  task of a1")
    assert (
        "  monday-agent: 3 calls, 1 ended for going in circles, 1 recovered, 2 clean, 2,000.0 ms"
        in rows[5]
    )
    assert "millgate why --session NAME" in err
    assert [row.split()[0] for row in run("why", "--store", "kb", "--session", "monday")[1].splitlines()[::2]] == ["a4", "a3", "a2", "a1"]  # fmt: skip
    assert len(json.loads(run("why", "--list", "--store", "kb", "--json")[1])) == 6


def test_a_session_that_is_not_there_is_an_error_that_names_those_that_are(run):
    with Millgate.open("kb") as gate:
        gate.add(["Refunds are paid by card."])
        gate.context("refunds", session="monday")
    code, out, err = run("why", "--store", "kb", "--session", "mondey")
    assert (code, out) == (2, "")
    assert "there is no session 'mondey'" in err
    assert "did you mean 'monday'? there are: monday" in err
