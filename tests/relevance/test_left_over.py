"""What is left over beside what the window shows already."""

from headgate.notes import Fate, NoteCode, Stage
from headgate.relevance.left_over import is_left_over
from headgate.types import GRAPH, Candidate, Chunk


def found(text, score, source="document"):
    chunk = Chunk(text[:8], text, source=source)
    return Candidate(chunk, score).with_note(Stage.PROPAGATE, Fate.KEEP, NoteCode.AS_FOUND)


SEEN = [found("The harbor of Quito was restored.", 1.0)]


def test_what_ranked_far_below_is_left_over():
    assert is_left_over([found("A harbor in Perth.", 0.3)], SEEN)


def test_what_ranked_nearly_as_well_is_not():
    assert not is_left_over([found("A harbor in Perth.", 0.8)], SEEN)


def test_one_that_is_not_keeps_all():
    rest = [found("A harbor in Perth.", 0.8), found("A ship.", 0.1)]
    assert not is_left_over(rest, SEEN)


def test_what_the_window_lowered_counts_as_it_was_found():
    lowered = found("The harbor of Quito.", 0.9).with_note(
        Stage.PENALIZE, Fate.KEEP, NoteCode.AS_FOUND, score=0.1
    )
    assert not is_left_over([lowered], SEEN)


def test_a_path_through_the_graph_is_not():
    assert not is_left_over([found("quito is_a city", 0.1, GRAPH)], SEEN)
