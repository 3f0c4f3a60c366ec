"""What is left over beside what the window shows already."""

import numpy as np

from headgate.notes import Fate, NoteCode, Stage
from headgate.relevance.left_over import is_left_over
from headgate.relevance.query_terms import ask
from headgate.types import GRAPH, Candidate, Chunk


class Words:
    """A vocabulary in which every term is rare."""

    language, count, conversational, unseen_rate = "english", 100, False, 0.0

    def frequencies(self, terms):
        return np.ones(len(terms), np.int64)


def found(text, score, source="document"):
    chunk = Chunk(text[:8], text, source=source)
    return Candidate(chunk, score).with_note(Stage.PROPAGATE, Fate.KEEP, NoteCode.AS_FOUND)


SEEN = [found("The harbor of Quito was restored.", 1.0)]
QUERY = "when was the harbor of Quito restored"
QUESTION = ask(QUERY, Words())


def test_what_ranked_far_below_and_holds_nothing_new_is_left_over():
    assert is_left_over(QUESTION, [found("A harbor in Perth.", 0.3)], SEEN, "english")


def test_what_ranked_nearly_as_well_and_holds_much_of_the_question_is_not():
    near = [found("The harbor of Perth was restored.", 0.8)]
    assert not is_left_over(QUESTION, near, SEEN, "english")


def test_a_score_alone_does_not_save_what_holds_little_of_the_question():
    assert is_left_over(QUESTION, [found("A harbor in Perth.", 0.8)], SEEN, "english")


def test_beside_a_window_that_holds_nothing_of_the_question_nothing_is_left_over():
    seen = [found("Engines and pumps.", 1.0)]
    assert not is_left_over(QUESTION, [found("Rivers.", 0.1)], seen, "english")


def test_what_holds_another_part_of_the_question_is_not():
    asked = QUERY + " by the council"
    assert not is_left_over(ask(asked, Words()), [found("The council met.", 0.6)], SEEN, "english")


def test_a_path_through_the_graph_is_not():
    assert not is_left_over(QUESTION, [found("quito is_a city", 0.1, GRAPH)], SEEN, "english")
