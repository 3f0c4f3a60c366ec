"""Expand: when to ask again, in which words, and what of it joins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.pipeline.stages.expand import (
    ExpandPolicy,
    fuse,
    variants,
    wants_more,
)
from millgate.types import Candidate, Chunk, Edge, Sifted, Window
from millgate.types.notes import Fate, NoteCode, Stage

POLICY = ExpandPolicy()
WINDOW = Window(("something seen",))


def one(id, score=0.5, overlap=None, *, text=None, before=None):
    candidate = Candidate(
        Chunk(id=id, text=text or f"text of {id}"), score if before is None else before
    )
    candidate = candidate.with_note(Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND)
    if overlap is None:
        return candidate
    fate = Fate.DROP if overlap >= 1 else Fate.KEEP
    code = NoteCode.NEW if overlap < 0.3 else NoteCode.PARTLY_IN_WINDOW
    return candidate.with_note(Stage.PENALIZE, fate, code, score=score, overlap=overlap)


def sifted(*overlaps):
    """Candidates that came in this order, with these overlaps."""
    return Sifted.split(
        one(f"c{i}", 0.5, overlap, before=1 - i / 100) for i, overlap in enumerate(overlaps)
    )


@pytest.mark.parametrize(
    ("overlaps", "k", "expected"),
    [
        ((0, 0.29, 1, 1), 5, False),  # two are new
        ((0, 0.30, 1, 1), 5, True),  # one is
        ((0, 0.30, 1, 1), 1, False),  # and one is enough for k = 1
        ((0.7, 0.6, 1, 0, 0), 3, True),  # the first three mostly repeat
        ((0.7, 0.59, 1, 0, 0), 3, False),
        ((1, 1, 1), 5, True),
        ((), 5, True),  # nothing was found
        ((0, 0, 0), None, False),
    ],
)
def test_more_is_wanted_when_too_little_is_new(overlaps, k, expected):
    assert wants_more(sifted(*overlaps), WINDOW, POLICY, k=k) is expected


def test_nothing_is_wanted_without_a_window_or_switched_off():
    assert not wants_more(sifted(1, 1), Window(), POLICY)
    assert not wants_more(sifted(1, 1), WINDOW, ExpandPolicy(enabled=False))


EDGES = [
    Edge("payments", "mentions", "invoices", 0.9),
    Edge("payments", "relates_to_project", "ledger", 0.2),
    Edge("payments", "depends_on", "stripe", 0.5),
    Edge("refunds", "conflicts_with", "chargebacks", 0.7),
]


def test_the_queries_follow_the_published_order():
    asked = variants("how do the payments work?", POLICY, edges=EDGES, window=Window())
    assert asked == (
        "how do the payments work?",
        "how do the payments work? ledger",
        "how do the payments work? chargebacks",
        "payments work",
    )


def test_the_project_of_the_folder_stands_in_for_an_entity():
    asked = variants("why slow", POLICY, project="ledger", window=Window())
    assert asked[1] == "why slow ledger"


def test_terms_that_fill_the_window_are_left_out():
    window = Window(("ledger ledger and the ledger",))
    asked = variants("payments", POLICY, edges=EDGES, project="ledger", window=window)
    assert asked[1] == "payments invoices"


def test_a_bare_word_still_gives_two_queries():
    assert variants("payments", POLICY, window=Window()) == (
        "payments",
        "payments depends on conflicts with",
    )


@given(
    st.text(min_size=1),
    st.lists(st.builds(Edge, st.text(), st.sampled_from(["depends_on", "uses"]), st.text())),
    st.text(),
)
def test_there_are_two_to_four_distinct_queries_and_always_the_same(query, edges, project):
    asked = variants(query, POLICY, edges=edges, project=project, window=WINDOW)
    assert asked[0] == query
    assert 2 <= len(set(asked)) == len(asked) <= 4
    assert asked == variants(query, POLICY, edges=edges, project=project, window=WINDOW)


def test_fusing_ranks_the_second_pass_below_par_and_drops_what_overlaps():
    first = (one("a", 0.5, 0.0),)
    more = Sifted.split(
        [one("b", 0.9, 0.1), one("c", 0.6, 0.0), one("d", 0.9, 0.6), one("e", 0, 1.0)]
    )
    fused = fuse(first, more, POLICY)
    assert [(c.chunk.id, round(c.score, 2)) for c in fused.kept] == [
        ("b", 0.72),
        ("a", 0.5),
        ("c", 0.48),
    ]
    assert sorted(c.chunk.id for c in fused.dropped) == ["d", "e"]
    assert sorted(c.chunk.id for c in fused.added) == ["b", "c", "d", "e"]


def test_a_copy_of_the_first_pass_does_not_enter_by_the_second():
    first = (one("a", 0.1, 0.0, text="the same words"),)
    fused = fuse(first, Sifted(kept=(one("b", 0.9, 0.0, text="The same **words**"),)), POLICY)
    assert [c.chunk.id for c in fused.kept] == ["a"]
    assert fused.dropped[0].notes[-1].reason == "repeats chunk a"
