"""Nothing is dropped silently: each candidate's fate can be read, asked about and tried again with other settings."""

import json
import re

import pytest
from tests.surfaces import SURFACES, run_command

from millgate import Millgate

ROWS = [
    {"id": f"n{n}", "text": f"Refund {n} is paid to the card of customer {n} within {n} days. " * (n % 3 + 1)}
    for n in range(12)
] + [{"id": "heartbeats", "text": "refund heartbeat ok\n" * 100}]  # fmt: skip
QUESTION = "when is refund 7 paid to the card?"


@pytest.fixture
def folder(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(ROWS)
    return tmp_path / "kb"


def test_each_candidate_is_shown_or_has_a_stage_and_a_reason(folder):
    with Millgate.open(folder) as gate:
        context = gate.context(QUESTION, budget=80, window=[ROWS[3]["text"]])
        assert 0 < len(context.chunks) < len(context.trace.candidates)
        shown = {chunk.id for chunk in context.chunks}
        for candidate in context.trace.candidates:
            told = gate.why(context.trace.id, candidate.chunk.id)
            assert told.entered == (candidate.chunk.id in shown)
            assert told.entered or (told.stage and told.reason)
        assert context.why("n3")[-1].reason == "already in the window"


@pytest.mark.parametrize("asked", [{"budget": 40}, {"k": 1}, {"budget": 40, "k": 1}])
def test_why_names_the_smallest_change_that_lets_a_chunk_in(folder, asked):
    with Millgate.open(folder) as gate:
        context = gate.context(QUESTION, **asked)
        lost = next(c.chunk.id for c in context.trace.candidates if c.dropped)
        changes = {change.name: change.now for change in gate.why(context.trace.id, lost).changes}
        assert changes
        assert lost in gate.replay(context.trace.id, changes).after.kept
        for name in changes.keys() & asked:
            less = changes | {name: changes[name] - 1}
            assert lost not in gate.replay(context.trace.id, less).after.kept


def test_the_command_line_answers_why_and_replays_the_last_request(folder):
    run_command("context", QUESTION, f"--store={folder}", "--budget=40")
    with Millgate.open(folder) as gate:
        trace = gate.trace("last")
        lost = next(c.chunk.id for c in trace.candidates if c.dropped)
        expected = gate.why(trace.id, lost)
    told = json.loads(run_command("why", "last", lost, f"--store={folder}", "--json"))
    assert (told["stage"], told["reason"]) == (expected.stage, expected.reason)
    assert [c["now"] for c in told["changes"]] == [c.now for c in expected.changes]
    assert lost in run_command("replay", "last", "budget=2000", f"--store={folder}")


def test_every_surface_and_every_store_gives_the_same_answer(folder, postgres_url, tmp_path):
    asked = {"budget": 200, "k": 4}
    with Millgate.open(f"{postgres_url}?cache={tmp_path / 'cache'}") as gate:
        gate.add(ROWS)
        theirs = gate.context(QUESTION, **asked)
    answers = [ask(folder, QUESTION, **asked)["text"] for ask in SURFACES.values()]
    nonces = r"\b[0-9a-f]{16}\b"  # of the fence, which no two stores share
    assert {re.sub(nonces, "", text) for text in answers} == {re.sub(nonces, "", theirs.text)}
