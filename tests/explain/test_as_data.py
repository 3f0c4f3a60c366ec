"""Contexts and traces as data: the answer always, the report as asked for, the numbers only for who wants them."""

from dataclasses import asdict, replace

import pytest

from millgate.explain.as_data import context_data, redact_trace, trace_data
from millgate.gateway import Millgate

TEXT = "Refunds are paid within 14 days to the card that was charged for the order."


@pytest.fixture(scope="module")
def made():
    """A context in which one chunk is new and one is in the window already."""
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "seen", "text": TEXT}, {"id": "new", "text": "Send a photo of the refund label by mail."}])  # fmt: skip
        return gate.context("how do refunds work?", window=[TEXT, "hello"], budget=500)


def test_the_answer_is_always_there_and_the_numbers_only_if_asked_for(made):
    plain, debug = context_data(made), context_data(made, debug=True)
    assert plain["text"] == made.text
    assert [chunk["id"] for chunk in plain["chunks"]] == ["new"]
    assert "expansion_triggered" not in plain
    assert "overlap_ratio" not in plain["chunks"][0]
    assert isinstance(debug["expansion_triggered"], bool)
    (chunk,) = debug["chunks"]
    assert chunk["overlap_ratio"] < 0.5
    assert chunk["original_score"] >= chunk["adjusted_score"] > 0


def test_a_penalty_is_said_if_the_score_fell():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "half", "text": f"{TEXT} A photo of the label is needed, and the number of the order."}])  # fmt: skip
        first = gate.context("what is needed for refunds?", window=[TEXT], best_effort=True)
        (chunk,) = context_data(first, debug=True)["chunks"]
        assert chunk["self_ref_penalty_applied"]
        assert chunk["adjusted_score"] < chunk["original_score"]
        assert 0 < chunk["overlap_ratio"] < 1
        fresh = gate.context("what is needed for refunds?")
        (chunk,) = context_data(fresh, debug=True)["chunks"]
        assert not chunk["self_ref_penalty_applied"]
        assert chunk["adjusted_score"] == chunk["original_score"]


def test_the_report_names_what_was_evicted_or_is_left_out(made):
    report = context_data(made)["report"]
    assert report["evicted_ids"] == ["seen"]
    assert report["evicted"] == 1
    (reason,) = report["evicted_by"]
    assert reason.startswith("penalize: ")
    assert report["evicted_by"][reason] == ["seen"]
    assert "report" not in context_data(made, report=False)


def test_a_trace_tells_the_size_of_the_window_and_not_its_text(made):
    data = trace_data(made.trace)
    assert data["request"]["window"] == {"blocks": 2, "chars": len(TEXT) + 5, "fingerprint": False}
    assert "tenant" not in data["request"]
    assert {fate["id"]: fate["kept"] for fate in data["fates"]} == {"seen": False, "new": True}
    assert all(note["reason"] for fate in data["fates"] for note in fate["notes"])


SECRET = "sk-" + "a1B2" * 12


def hide(trace, where):
    """The trace with a secret in one of its texts."""
    if where == "query":
        return replace(trace, request=replace(trace.request, query=SECRET))
    if where == "window":
        window = replace(trace.request.window, texts=("hello", SECRET))
        return replace(trace, request=replace(trace.request, window=window))
    if where == "candidate":
        first, *others = trace.candidates
        holds = replace(first, chunk=replace(first.chunk, text=f"The key: {SECRET}"))
        return replace(trace, candidates=(holds, *others))
    first, *others = trace.steps
    return replace(trace, steps=(replace(first, text=f"It is {SECRET}"), *others))


@pytest.mark.parametrize("where", ["query", "window", "candidate", "step"])
def test_a_secret_is_taken_out_of_every_text_of_a_trace_and_nothing_else_is(made, where):
    trace = hide(made.trace, where)
    redacted = redact_trace(trace)
    assert SECRET in str(asdict(trace))
    assert SECRET not in str(asdict(redacted))
    assert str(asdict(redacted)).count("[redacted openai-key") == 1
    assert redact_trace(made.trace) is made.trace
