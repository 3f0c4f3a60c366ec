"""A candidate's text beside what of the window it repeats."""

from millgate.service.dashboard.requests import AROUND, side_by_side
from millgate.types import Candidate, Chunk, Plan, Request, Strategy, Tier, Trace, Window

PLAN = Plan(True, Tier.STUFF, Strategy.STUFF, 0)
SAID = "refunds are paid within fourteen days to the card that was charged"


def beside(block):
    trace = Trace("t", Request("q", window=Window(("nothing alike", block))), PLAN)
    return side_by_side(Candidate(Chunk("a", SAID), 1.0, ()), trace)


def test_a_repeated_passage_is_marked_in_both_and_cut_out_with_what_is_around_it():
    before, after = "x" * (AROUND + 5), "y" * (AROUND + 5)
    found = beside(f"{before} {SAID} {after}")
    assert "".join(text for text, marked in found.chunk if marked) == SAID
    ((number, pieces),) = found.blocks.items()
    assert number == 1
    assert pieces[0] == ("… ", False)
    assert pieces[-1] == (" …", False)
    assert [text for text, marked in pieces if marked] == [SAID]
    shown = "".join(text for text, _ in pieces[1:-1])
    assert len(shown) == len(SAID) + 2 * AROUND
    assert (shown.count("x"), shown.count("y")) == (AROUND - 1, AROUND - 1 + SAID.count("y"))


def test_a_short_block_is_shown_whole_and_nothing_if_nothing_repeats():
    ((_, pieces),) = beside(f"{'x' * (AROUND - 1)} {SAID} {'y' * (AROUND - 1)}").blocks.items()
    assert not any("…" in text for text, _ in pieces)
    assert beside("a wholly different thing") is None
