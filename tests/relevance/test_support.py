from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.notes import Fate, Note, NoteCode, Stage
from headgate.relevance.query_terms import ask
from headgate.relevance.support import clues, support
from headgate.text.terms import terms
from headgate.types import Candidate, Chunk


@dataclass
class Words:
    """A vocabulary in which every term is equally rare, but for those told."""

    conversational: bool = False
    common: str = ""
    count: int = 1000
    language: str = "english"

    def frequencies(self, keys):
        often = set(terms(self.common))
        return np.array([500 if key in often else 5 for key in keys.tolist()], np.int64)


def note(score, gain):
    return Note(Stage.PROPAGATE, Fate.KEEP, NoteCode.CONNECTED, score, {"gain": gain})


def found(*texts, gains=None):
    gains = gains or [0.0] * len(texts)
    return [
        Candidate(Chunk(f"c{n}", text), 1 - n / 100, (note(0.5, gain),))
        for n, (text, gain) in enumerate(zip(texts, gains, strict=True))
    ]


def chances(query, candidates, words=None):
    words = words or Words()
    return support(ask(query, words), candidates, words)


def test_where_names_link_the_chunks_news_speak_for_one():
    query = "Which harbor did the founder of the museum design?"
    first = "The museum was begun by its founder."
    _, again, other = chances(
        query,
        found(first, "A museum and its founder.", "The harbor has a design.", gains=[0.2] * 3),
    )
    assert other > again


def test_where_names_link_the_chunks_one_without_links_falls_behind():
    linked, alone = chances(
        "the founder of the museum", found("A museum.", "A founder.", gains=[0.2, 0.0])
    )
    wired, also = chances(
        "the founder of the museum", found("A museum.", "A founder.", gains=[0.2, 0.2])
    )
    assert alone / linked < also / wired


def test_without_links_what_is_like_the_best_is_lifted():
    best = "laminar flow over a heated wedge with a shock wave"
    kin, stranger = (
        "heated wedge, shock wave, laminar layer",
        "salaries of the typists in the annex",
    )
    _, after, alike = chances("heat transfer", found(best, stranger, kin))
    assert alike > after


@pytest.mark.parametrize(
    ("plain", "better"),
    [
        ("[May] Ann: I went to the harbor.", "[May] Ben: I went to the harbor."),
        ("[May] Ben: I went to the harbor.", "[May] Ben: I went to the harbor last week."),
        ("[May] Ben: that is so nice really", "[May] Ben: my pottery studio burned"),
    ],
)
def test_in_a_conversation_names_time_and_rare_words_speak_for_a_line(plain, better):
    words = Words(conversational=True, common="nice really may")
    one, two = chances("Where was Ben?", found(plain, better), words)
    other, base = chances("Where was Ben?", found(better, plain), words)
    assert two / one > base / other


def test_a_vote_of_propagation_makes_a_ranking_linked():
    words = Words()
    question = ask("museum", words)
    assert clues(question, found("a", "b"), words)[0] == "alike"
    assert clues(question, found("a", "b", gains=[0.0, 0.1]), words)[0] == "linked"


@given(
    st.text(max_size=60),
    st.lists(st.tuples(st.text(max_size=60), st.floats(), st.floats(0, 1)), max_size=12),
    st.booleans(),
)
def test_any_ranking_gets_chances_between_0_and_1(query, rows, talk):
    candidates = [
        Candidate(Chunk(str(n), text), score, (note(0.0, gain),))
        for n, (text, score, gain) in enumerate(rows)
    ]
    given = chances(query, candidates, Words(conversational=talk))
    assert len(given) == len(rows)
    assert all(0 < chance <= 1 for chance in given)


def test_without_a_ranking_what_they_hold_ranks_them():
    texts = ("nothing of it", "a museum", "the founder of a museum")
    candidates = [Candidate(Chunk(str(n), text), 1.0) for n, text in enumerate(texts)]
    none, some, most = chances("the founder of the museum", candidates)
    assert none < 0.1 < min(some, most)


def test_no_candidates_have_no_chances():
    assert chances("anything", []) == []
