"""Fates: a candidate as a row, and its text beside what of the window it repeats."""

from millgate.service.dashboard.fates import AROUND, fate_row, fate_rows, side_by_side
from millgate.types import Candidate, Chunk, Plan, Request, Strategy, Tier, Trace, Window
from millgate.types.notes import Fate, Note, NoteCode, Stage

PLAN = Plan(True, Tier.STUFF, Strategy.STUFF, 0)


def note(stage, fate, score, **numbers):
    return Note(stage, fate, NoteCode.FOUND, score, numbers)


def test_a_row_has_the_score_before_and_after_each_stage_and_what_was_counted_last():
    notes = (
        note(Stage.RETRIEVE, Fate.KEEP, 0.9),
        note(Stage.PENALIZE, Fate.KEEP, 0.6, overlap=0.25),
        note(Stage.GATE, Fate.KEEP, 0.6, tokens=40.0),
        note(Stage.GRADE, Fate.DROP, 0.1, confidence=0.05, tokens=44.0),
    )
    row = fate_row(Candidate(Chunk("a", "x"), 0.1, notes))
    assert [score.before for score in row.scores] == [None, 0.9, 0.6, 0.6]
    assert (row.kept, row.overlap, row.confidence, row.tokens) == (False, 0.25, 0.05, 44)
    assert row.last is notes[-1]
    bare = fate_row(Candidate(Chunk("a", "x"), 0.1, ()))
    assert (bare.last, bare.scores, bare.tokens, bare.kept) == (None, (), None, True)


def test_those_that_were_kept_come_first():
    kept, fell = note(Stage.GATE, Fate.KEEP, 1.0), note(Stage.GATE, Fate.DROP, 1.0)
    found = tuple(Candidate(Chunk(id, "x"), 1.0, (one,)) for id, one in (("a", fell), ("b", kept), ("c", fell), ("d", kept)))  # fmt: skip
    assert [row.id for row in fate_rows(Trace("t", Request("q"), PLAN, candidates=found))] == ["b", "d", "a", "c"]  # fmt: skip


SAID = "refunds are paid within fourteen days to the card that was charged"


def beside(block):
    trace = Trace("t", Request("q", window=Window(("nothing alike", block))), PLAN)
    return side_by_side(Candidate(Chunk("a", SAID), 1.0, ()), trace)


def test_a_repeated_passage_is_marked_in_both_and_cut_out_with_what_is_around_it():
    before, after = "x" * (AROUND + 5), "y" * (AROUND + 5)
    found = beside(f"{before} {SAID} {after}")
    assert "".join(text for text, marked in found.chunk if marked) == SAID
    ((number, pieces),) = found.blocks
    assert number == 1
    assert pieces[0] == ("… ", False)
    assert pieces[-1] == (" …", False)
    assert [text for text, marked in pieces if marked] == [SAID]
    shown = "".join(text for text, _ in pieces[1:-1])
    assert len(shown) == len(SAID) + 2 * AROUND
    assert (shown.count("x"), shown.count("y")) == (AROUND - 1, AROUND - 1 + SAID.count("y"))


def test_a_short_block_is_shown_whole_and_nothing_if_nothing_repeats():
    ((_, pieces),) = beside(f"{'x' * (AROUND - 1)} {SAID} {'y' * (AROUND - 1)}").blocks
    assert not any("…" in text for text, _ in pieces)
    assert beside("a wholly different thing") is None
