"""What the model already sees is not sent again, and when the window holds all of a subject, its neighbors are.

The five integration cases and the invariants of the design of self-referential penalization, and the same over a
hundred made worlds (tests/worlds.py).
"""

import pytest
from tests.worlds import WORLDS

from millgate import Millgate
from millgate.testing import strict
from millgate.text.fingerprint import WindowFingerprint
from millgate.types import Edge
from millgate.types.notes import NoteCode, Stage

REFUND = "Refunds of Kestrel are paid to the card within five days, and a receipt follows by mail."
RECEIPT = "A receipt of Kestrel names the card, the day, and whoever allowed the refund to be paid."
REDIS = "Redis of the second rack is restarted on Mondays by whoever has the key to the cellar."
QUESTION = "how are refunds of Kestrel paid to the card?"
ROWS = [{"id": "refund", "text": REFUND}, {"id": "receipt", "text": RECEIPT}, {"id": "redis", "text": REDIS}] + [
    {"id": f"roof{n}", "text": f"The roof of house {n} was painted {color} in the spring of {1900 + n}."}
    for n, color in enumerate(("red", "blue", "green", "white", "black", "brown"))
]  # fmt: skip


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add(ROWS)
        opened.graph.link([Edge("Kestrel", "depends_on", "Redis")])
        yield opened


def ids(context):
    return [chunk.id for chunk in context.chunks if chunk.source != "graph"]


def fate(context, id):
    return next(c for c in context.trace.candidates if c.chunk.id == id)


# -- the five cases ------------------------------------------------------------------------------


def test_a_chunk_that_the_window_holds_word_for_word_is_left_out(gate):
    assert "refund" in ids(gate.context(QUESTION))
    seen = gate.context(QUESTION, window=["Good day.", REFUND])
    assert "refund" not in ids(seen)
    assert fate(seen, "refund").notes[-1].code is NoteCode.IN_WINDOW
    assert fate(seen, "refund").number(Stage.PENALIZE, "overlap") == 1


def test_a_chunk_of_which_the_window_holds_half_falls_in_rank_and_stays(gate):
    seen = gate.context(QUESTION, window=["Refunds of Kestrel are paid to the card within"])
    half = fate(seen, "refund")
    assert 0.4 <= half.number(Stage.PENALIZE, "overlap") <= 0.6
    before, after = (n.score for n in half.notes if n.stage in (Stage.PROPAGATE, Stage.PENALIZE))
    assert 0 < after < before
    assert "refund" in ids(seen)


def test_it_asks_once_more_when_all_that_was_found_is_in_the_window():
    with Millgate.open(":memory:") as small:
        small.add(ROWS[:3])
        stages = [
            [step.stage for step in small.context(QUESTION, window=window).trace.steps]
            for window in ([REFUND, RECEIPT], ["Good day."])
        ]
    assert [asked.count(Stage.EXPAND) for asked in stages] == [1, 0]


def test_what_a_given_edge_leads_to_is_shown_beside_a_window_that_holds_the_rest(gate):
    seen = gate.context(QUESTION, window=[REFUND, RECEIPT])
    assert ids(seen) == ["redis"]
    assert "adjacent" in [n.code for n in fate(seen, "redis").notes if n.stage is Stage.GATE]


def test_half_of_the_evidence_in_the_window_does_not_hide_the_other_half():
    with Millgate.open(":memory:") as gate:
        audit = "Whoever allowed it signs in the ledger, and the auditor reads that in May."
        gate.add([{"id": "refund", "text": REFUND}, {"id": "audit", "text": audit}, *ROWS[3:]])
        question = "how are refunds of Kestrel paid to the card, and who reads the ledger?"
        assert ids(gate.context(question, window=[REFUND])) == ["audit"]


def test_the_token_of_a_slice_comes_through_as_it_was_made():
    with Millgate.open(":memory:") as gate:
        gate.add_turns("monday", [{"role": "user", "content": text} for text in (REFUND, RECEIPT, REDIS)])  # fmt: skip
        anchor = gate.context(QUESTION, collection="turns").chunks[0].id
        token = gate.graph.cut_slice(anchor, admit=True).token
        asked = [
            gate.context(QUESTION, collection="turns", window=window) for window in ([], [REFUND])
        ]
    for context in asked:
        carried = [c.chunk.admission for c in context.trace.candidates if c.chunk.admission]
        assert set(carried) == {token}
        assert all(c.admission == token for c in context.chunks)


# -- the invariants ------------------------------------------------------------------------------


def test_without_a_window_every_score_is_what_it_is_with_the_penalty_off(gate):
    on, off = gate.context(QUESTION), gate.context(QUESTION, penalize=False)
    assert on.text == off.text
    assert [c.score for c in on.trace.candidates] == [c.score for c in off.trace.candidates]


def test_nothing_becomes_admissible_by_what_the_window_holds(gate):
    seen = gate.context(QUESTION, window=[REFUND, RECEIPT])
    assert not any(c.chunk.admission for c in seen.trace.candidates)
    assert seen.admissibility_token is None


def test_no_chunk_is_altered_and_none_is_lost(gate):
    texts = {row["id"]: row["text"] for row in ROWS}
    seen = gate.context(QUESTION, window=[REFUND])
    told = [c.chunk for c in seen.trace.candidates if c.chunk.source != "graph"]
    assert all(texts[chunk.id] == chunk.text for chunk in told)
    assert seen.report.kept + seen.report.evicted == len(seen.trace.candidates)


def test_the_more_the_window_holds_the_lower_a_chunk_stands(gate):
    words = REFUND.split()
    scores = [
        fate(gate.context(QUESTION, window=[" ".join(words[:most]) or "-"]), "refund").score
        for most in (0, 6, 9, 12, len(words))
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0 < scores[0]


def test_a_fingerprint_of_the_window_does_what_its_text_does(gate):
    payload = WindowFingerprint.of([REFUND]).to_json()
    assert "refund" not in ids(gate.context(QUESTION, window=payload))


@pytest.mark.parametrize("broken", ["penalize", "wants_more"])
def test_a_failure_of_the_penalty_costs_no_request(gate, monkeypatch, broken):
    def fail(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(f"millgate.pipeline.engine.{broken}", fail)
    with strict(False):
        context = gate.context(QUESTION, window=[RECEIPT])
    assert "refund" in ids(context)
    assert any("broken" in reason for reason in context.degraded)


# -- a hundred worlds ----------------------------------------------------------------------------


def count(happens, *, linked, of_all=False, **asked):
    """In how many worlds something happens to the answer."""
    found = 0
    for world in WORLDS:
        with world.open(linked=linked) as gate:
            context = gate.context(world.question, window=world.window(of_all=of_all), **asked)
            found += happens(world, set(ids(context)), context)
    return found


def test_where_an_edge_leads_on_from_what_the_window_holds_its_end_is_shown_and_no_junk():
    seen = {"linked": 0, "junk": 0}

    def look(world, shown, context):
        seen["linked"] += world.linked in shown
        seen["junk"] += bool(shown & world.junk)
        return True

    count(look, linked=True)
    assert seen["linked"] >= 90
    assert seen["junk"] <= 10


@pytest.mark.parametrize("of_all", [False, True])
def test_where_nothing_leads_on_no_junk_is_shown(of_all):
    assert count(lambda w, shown, _: bool(shown & w.junk), linked=False, of_all=of_all) <= 10


def test_best_effort_shows_the_subject_again_and_no_stranger():
    def again(world, shown, _):
        return bool(shown & set(world.subject)) and not shown & world.junk

    assert count(again, linked=False, best_effort=True) >= 90
