import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.index.indexes import Indexes
from headgate.relevance.confidence import ENOUGH, confidences
from headgate.stages.grade import Action, Calibrated, GradePolicy, grade, refine
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.types import Candidate, Chunk, Document

CITIES = [
    "Oslo",
    "Turin",
    "Quito",
    "Dakar",
    "Perth",
    "Lagos",
    "Kyoto",
    "Porto",
    "Milan",
    "Delhi",
    "Cairo",
    "Lima",
]
THINGS = [
    "bridge",
    "harbor",
    "museum",
    "library",
    "market",
    "garden",
    "tower",
    "station",
    "theater",
    "castle",
]
VERBS = ["opened", "closed", "burned", "moved", "expanded", "restored"]


def collection(texts):
    store = MemoryStore()
    rows = [
        Document(str(n), chunks=(Chunk(str(n), text, document=str(n)),))
        for n, text in enumerate(texts)
    ]
    store.put("default", rows)
    return Indexes(store).snapshot("default", "main")


@pytest.fixture(scope="module")
def large():
    texts = [
        f"The {thing} of {city} was {verb} in {1900 + 7 * n} by the city council after a long debate."
        for n, (city, thing, verb) in enumerate(
            (c, t, v) for c in CITIES for t in THINGS for v in VERBS
        )
    ]
    assert len(texts) > ENOUGH
    return collection(texts)


@pytest.fixture(scope="module")
def small():
    return collection(
        ["Refunds take five days.", "Shipping is free over 50 euros.", "We are in Oslo."]
    )


async def verdict(view, query):
    found = retrieve(query, view, RetrievePolicy(keep=10)).kept
    return await grade(query, found, Calibrated(view), GradePolicy())


@pytest.mark.parametrize(
    "query",
    [
        "When was the harbor of Quito restored by the council?",
        "Was the library of Kyoto moved in that year?",
        "which castle of Porto burned after a debate",
    ],
)
async def test_a_question_asked_in_the_right_place_is_answered(large, query):
    graded = await verdict(large, query)
    assert graded.action is not Action.INCORRECT
    assert graded.sifted.kept


@pytest.mark.parametrize(
    "query",
    [
        "What did Melanie's dentist recommend for Jonathan after the marathon?",
        "Which enzyme does ibuprofen inhibit in the city of Genoa?",
        "How long does a debate about monads last among Haskell programmers?",
    ],
)
async def test_a_question_asked_in_the_wrong_place_comes_back_empty(large, query):
    graded = await verdict(large, query)
    assert graded.action is Action.INCORRECT
    assert not graded.sifted.kept


@pytest.mark.parametrize(
    "query", ["how do refunds work?", "free shipping", "where are you, in Oslo?"]
)
async def test_a_small_collection_answers_by_the_share_of_terms_found(small, query):
    assert (await verdict(small, query)).sifted.kept


async def test_a_small_collection_says_no_to_a_chance_match(small):
    query = "who scored free kicks during the football world championship final match"
    assert (await verdict(small, query)).action is Action.INCORRECT


async def test_the_best_chunk_has_the_highest_confidence(large):
    query = "When was the harbor of Quito restored?"
    graded = await verdict(large, query)
    first = graded.sifted.kept[0]
    assert "harbor of Quito" in first.chunk.text
    assert graded.confidences[first.chunk.id] == graded.best


async def test_of_a_long_chunk_the_strip_with_the_answer_stays_wherever_it_stands(large):
    filler = [f"Nothing about {word} was said that day." for word in CITIES * 4]
    answer = "The harbor of Quito was restored by Melanie."
    for at in (0, 30, 48):
        text = " ".join([*filler[:at], answer, *filler[at:]])
        long = Candidate(Chunk("long", text), 1.0)
        policy = GradePolicy(strip_over=200)
        query = "Who restored the harbor of Quito?"
        (strips,) = (await refine(query, [long], Calibrated(large), policy)).values()
        assert answer in strips
        assert len(strips) < len(text) / 2


class Words:
    """A vocabulary that has seen nothing or everything."""

    language = "english"

    def __init__(self, count, df, conversational):
        self.count, self.df, self.conversational = count, df, conversational

    def frequencies(self, terms):
        return np.full(len(terms), self.df, np.int64)


@given(
    st.text(max_size=80),
    st.lists(st.tuples(st.text(max_size=60), st.floats(0, 1)), max_size=8),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.booleans(),
)
def test_any_input_gives_confidences_in_range(query, rows, count, df, conversational):
    candidates = [Candidate(Chunk(str(n), t, title=t[:9]), s) for n, (t, s) in enumerate(rows)]
    marks = confidences(query, candidates, Words(count, df, conversational))
    assert len(marks) == len(candidates)
    assert all(0 <= mark <= 1 for mark in marks)
