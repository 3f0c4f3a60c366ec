import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import grade_built_in

from millgate.errors import ConfigError
from millgate.gateway import Millgate
from millgate.index.indexes import Indexes
from millgate.pipeline.stages.grade import (
    Action,
    GradePolicy,
    chance_of_any,
    decide_shown,
)
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.ranking import model as relevance_model
from millgate.ranking.model import (
    HOLDS,
    KNOWS,
    SHARE,
    SHIPPED,
    chances,
    new_part,
    query_features,
    ranking_score,
    read_model,
)
from millgate.ranking.question import ask, match
from millgate.stores.temporary import TemporaryStore
from millgate.types import Candidate, Chunk, Document
from millgate.types.notes import Fate, NoteCode, Stage

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
    store = TemporaryStore()
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
    return collection(texts)


@pytest.fixture(scope="module")
def small():
    return collection(
        ["Refunds take five days.", "Shipping is free over 50 euros.", "We are in Oslo."]
    )


async def verdict(view, query):
    found = retrieve(query, view, RetrievePolicy(keep=10)).kept
    return grade_built_in(ask(query, view), view, found, GradePolicy())


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
async def test_a_small_collection_answers_what_it_holds(small, query):
    assert (await verdict(small, query)).sifted.kept


async def test_a_chance_match_in_a_small_collection_is_shown_as_doubtful(small):
    query = "who scored free kicks during the football world championship final match"
    graded = await verdict(small, query)
    assert graded.action is Action.AMBIGUOUS
    assert graded.sifted.kept[0].number(Stage.GRADE, "confidence") == max(
        graded.confidences.values()
    )


async def test_one_rare_word_brings_the_chunk_that_holds_it(large, small):
    assert (await verdict(small, "refunds")).action is Action.CORRECT
    assert (await verdict(large, "Quito?")).sifted.kept


@pytest.mark.parametrize("query", ["harbors Trondheim", "Trondheim council", "xenon Quito"])
async def test_one_new_word_of_two_refuses_nothing_and_leaves_doubt(large, query):
    assert (await verdict(large, query)).action is Action.AMBIGUOUS
    assert not (await verdict(large, f"{query} quartet violin premiere")).sifted.kept


async def test_a_question_in_another_language_is_judged_by_the_words_that_both_share(large):
    german = "Wann wurde der Hafen von {} restauriert?"
    assert not (await verdict(large, german.format("Trondheim"))).sifted.kept
    assert (await verdict(large, "Quito 1970 council?")).action is not Action.INCORRECT


async def test_unseen_words_weigh_less_in_code():
    words = [f"def load_{thing}(path): return open(path).read()[{n}]" for n, thing in
             enumerate(THINGS * 30)]  # fmt: skip
    prose = [text.translate(str.maketrans("_()[].:", "       ")) for text in words]
    query = "read a harbor from disk into memory"
    graded = [await verdict(collection(texts), query) for texts in (words, prose)]
    sure = [max(one.confidences.values()) for one in graded]
    assert sure[0] > sure[1]


async def test_words_do_not_refuse_what_an_embedder_found(large):
    query = "How long does a debate about monads last among Haskell programmers?"
    found = retrieve(query, large, RetrievePolicy(keep=10)).kept
    by_words = grade_built_in(ask(query, large), large, found, GradePolicy())
    assert by_words.action is Action.INCORRECT
    by_both = grade_built_in(ask(query, large), large, found, GradePolicy(), embedded=True)
    assert by_both.action is Action.AMBIGUOUS
    assert [c.chunk.id for c in by_both.sifted.kept] == [c.chunk.id for c in found]


async def test_a_refusal_names_the_best_three_that_it_refused(large):
    graded = await verdict(large, "Which enzyme does ibuprofen inhibit in the city of Genoa?")
    named = decide_shown((), graded).reason.rpartition("refused: ")[2].split(", ")
    assert len(named) == 3
    assert named[0].startswith(max(graded.confidences, key=graded.confidences.__getitem__))


async def test_the_best_chunk_has_the_highest_confidence(large):
    query = "When was the harbor of Quito restored?"
    graded = await verdict(large, query)
    first = graded.sifted.kept[0]
    assert "harbor of Quito" in first.chunk.text
    assert graded.confidences[first.chunk.id] == max(graded.confidences.values())


class Words:
    """A vocabulary that has seen nothing or everything."""

    language = all_languages = "english"
    conversational, unseen_rate = False, 0.0

    def __init__(self, count, df):
        self.count, self.df = count, df

    def frequencies(self, terms):
        return np.full(len(terms), self.df, np.int64)

    def locate_terms(self, chunks, terms):
        return [None] * len(chunks)


@given(
    st.text(max_size=80),
    st.lists(st.tuples(st.text(max_size=60), st.floats(0, 1)), max_size=8),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_any_input_gives_confidences_in_range(query, rows, count, df):
    candidates = [Candidate(Chunk(str(n), t, title=t[:9]), s) for n, (t, s) in enumerate(rows)]
    words = Words(count, df)
    found = chances(ask(query, words), candidates, words)
    assert len(found) == len(candidates)
    assert all(0 <= number <= 1 for chance in found for number in (*chance[:3], chance.confidence))
    assert not found or sum(chance.evidence_share for chance in found) == pytest.approx(1)


def features(query, texts, shown):
    view = collection(texts)
    question = ask(query, view)
    found = match(question, [Chunk("x", shown)], view.language)
    return query_features(question, found, [shown], view)


def test_an_unseen_word_says_nothing_beside_json():
    prose, code = "play a song for the user", '{"name": "play", "args": {"song": "str"}}'
    several = [prose, code] * 3  # so that no word is new
    assert features("play wrecking ball", several, prose)["unseen"] == pytest.approx(2 / 3)
    assert features("play wrecking ball", several, code)["unseen"] == 0


def test_what_the_window_shows_speaks_for_the_collection_and_not_for_memory(large):
    query = "When was the harbor of Quito restored by the council?"
    ranking = retrieve(query, large, RetrievePolicy(keep=10)).kept
    weak = ranking[-1]
    foreign = Candidate(Chunk("fact", "Bees like the garden of Lima.", source="memory"), 0.5)
    question, both = ask(query, large), [weak, foreign]
    alone = chances(question, both, large)
    with_window = chances(question, both, large, seen=ranking[:3])
    assert with_window[0].known > alone[0].known
    assert with_window[0].evidence_share < alone[0].evidence_share
    assert with_window[1] == alone[1]


def test_an_unseen_word_says_less_where_new_words_are_common():
    again = ["the harbor was closed", "the harbor was closed again", "pumps again", "pumps closed"]
    ever_new = ["the harbor was closed", "pumps valves engines", "rivers bridges"]
    query, shown = "when did the harbor of Trondheim freeze", "the harbor was closed"
    stale, fresh = (features(query, texts, shown) for texts in (again, ever_new))
    assert fresh["unseen"] < stale["unseen"]
    assert fresh["cover"] > stale["cover"]


def test_in_a_handful_of_chunks_an_unseen_word_still_says_half():
    found = features("harbor of Trondheim", ["the harbor was closed"], "the harbor was closed")
    assert found["unseen"] == pytest.approx(1 / 2 / 2)


def test_who_speaks_in_a_conversation_is_in_the_right_place():
    lines = [
        f"[{n % 28 + 1} May] {who}: the {thing} was {verb}"
        for n, (who, thing, verb) in enumerate(
            (w, t, v) for w in ("Fahim", "Muhhamed") for t in THINGS for v in VERBS
        )
    ]
    known = features("What are Fahim's hobbies?", lines, lines[0])
    strange = features("What are Melanie's hobbies?", lines, lines[0])
    assert known["cover"] > 0.45
    assert strange["cover"] == 0


def test_a_question_about_the_one_topic_of_a_collection_is_not_refused_for_a_new_word():
    topics = ("by card", "after a storm", "for groups", "by phone", "in winter", "for children")
    view = collection([f"The refund of the ferry {topic}." for topic in topics])
    query = "how is the refund of the ferry paid?"
    ranking = retrieve(query, view, RetrievePolicy(keep=10)).kept
    model = read_model()
    assert chance_of_any(chances(ask(query, view), ranking, view)) > model.upper
    foreign = "who painted the ceiling of the chapel?"
    assert max(one.known for one in chances(ask(foreign, view), ranking, view)) < model.lower


def penalized(score, adjusted, *later):
    found = Candidate(Chunk("a", "text"), 0.0).with_note(
        Stage.PROPAGATE, Fate.KEEP, NoteCode.AS_FOUND, score=score
    )
    seen = found.with_note(Stage.PENALIZE, Fate.KEEP, NoteCode.NEW, score=adjusted, overlap=0.5)
    for value in later:
        seen = seen.with_note(Stage.EXPAND, Fate.KEEP, NoteCode.FOUND_AGAIN, score=value)
    return seen


def test_what_the_window_took_from_a_score_is_no_part_of_relevance():
    assert ranking_score(penalized(0.8, 0.2)) == pytest.approx(0.8)
    assert new_part(penalized(0.8, 0.2)) == pytest.approx(0.25)
    assert ranking_score(penalized(0.8, 0.2, 0.1)) == pytest.approx(0.4)
    assert ranking_score(penalized(0.8, 0.0)) == pytest.approx(0.8)


def test_a_chunk_that_stands_out_takes_nearly_all_of_the_expected_evidence(large):
    question = ask("When was the harbor of Quito restored?", large)
    rows = [Candidate(Chunk(str(n), "text"), score) for n, score in enumerate((1.0, 0.3, 0.3))]
    clear = chances(question, rows, large)
    close = chances(question, [replace(c, score=1 - n / 50) for n, c in enumerate(rows)], large)
    assert clear[0].evidence_share > 0.9
    assert close[0].evidence_share < 0.5
    assert clear[0].confidence > close[0].confidence


@pytest.mark.parametrize(
    ("text", "what"),
    [("{", "not JSON"), ("{}", "'share'"), ('{"share": {"score": "x"}}', "lack or misspell")],
)
def test_weights_that_cannot_be_read_are_named(tmp_path, text, what):
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=what):
        read_model(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_model(tmp_path / "none.json")


def test_weights_of_ones_own_decide_instead(tmp_path):
    data = json.loads(SHIPPED.read_text())
    data["knows"]["bias"] = -30.0
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(data))
    rows = [
        {"id": "a", "text": "Refunds take five days."},
        {"id": "b", "text": "Shipping is free."},
    ]
    with Millgate.open(":memory:", grade={"weights": str(path)}) as gate:
        gate.add(rows)
        made = gate.context("how long do refunds take?")
    assert made.verdict == "incorrect"
    with pytest.raises(ConfigError, match="cannot be read"):
        Millgate.open(":memory:", grade={"weights": str(tmp_path / "none.json")})


def test_the_shipped_weights_say_where_they_are_from():
    about = read_model().about
    assert {"fitted", "sets", "held_out"} <= about.keys()


def test_the_table_of_features_names_what_each_step_reads():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in relevance_model.__doc__.splitlines()
        if line.startswith("|")
    ]
    (*_, share, holds, knows), _, *features = rows
    assert (share, holds, knows) == ("share", "holds", "knows")
    for at, names in ((2, SHARE), (3, HOLDS), (4, KNOWS)):
        assert {row[0] for row in features if row[at]} == {*names} - {"bias"}
