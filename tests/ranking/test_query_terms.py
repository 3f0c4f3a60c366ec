import numpy as np
import pytest

from millgate.index.indexes import Indexes
from millgate.ranking.question import ask, match, match_known
from millgate.stores.temporary import TemporaryStore
from millgate.text.terms import terms
from millgate.types import Chunk, Document


class Words:
    """A vocabulary of a hundred chunks that knows some words."""

    language = all_languages = "english"
    count, conversational, unseen_rate = 100, False, 0.0

    def __init__(self, **seen):
        self.seen = {terms(word)[0]: df for word, df in seen.items()}

    def frequencies(self, keys):
        return np.array([self.seen.get(key, 0) for key in keys.tolist()], np.int64)


def key(word):
    return terms(word)[0]


def test_a_rare_word_is_worth_more_and_one_never_seen_the_most():
    question = ask("harbor museum zeppelin", Words(harbor=50, museum=2))
    assert question.term_weight[key("harbor")] < question.term_weight[key("museum")]
    assert question.term_weight[key("zeppelin")] == question.full
    assert question.unseen == {key("zeppelin")}
    assert question.sum(question.asked) == pytest.approx(question.total)


def test_a_title_counts_as_held():
    question = ask("refund policy", Words())
    chunk = Chunk("a", "Five days by card.", title="Refund policy")
    (found,) = match(question, [chunk], "english")
    assert found.held == question.asked
    assert found.term_weight == pytest.approx(question.total)


def test_each_chunk_is_matched_by_its_own_texts():
    question = ask("refund policy ferry", Words())
    chunks = [
        Chunk("a", "The ferry.", title="Refund"),
        Chunk("b", "Nothing of it."),
        Chunk(
            "c", "A policy.", title="Of the harbor", source="memory", metadata={"tags": ["ferry"]}
        ),
    ]
    held = [found.held for found in match(question, chunks, "english")]
    assert held == [{key("ferry"), key("refund")}, frozenset(), {key("policy"), key("ferry")}]


def test_a_phrase_counts_only_side_by_side():
    question = ask("refund policy", Words())
    chunks = [Chunk("a", "our refund policy"), Chunk("a", "a policy on every refund")]
    near, far = match(question, chunks, "english")
    assert near.phrase > 0 == far.phrase
    assert near.term_weight == far.term_weight


def test_a_word_that_only_asks_counts_where_the_collection_knows_it():
    query = "Summarize the harbor dispute, please"
    assert ask(query, Words(harbor=3)).asked == {key("harbor"), key("dispute")}
    assert key("summarize") in ask(query, Words(harbor=3, summarize=2)).asked


def test_pairs_of_signs_that_only_ask_are_not_unseen():
    question = ask("纤毛是用来做什么的？", Words(纤毛=3))
    assert question.asked == {key("纤毛")}
    assert not question.unseen


def test_a_question_of_asking_words_alone_keeps_them():
    assert ask("什么？", Words()).asked == {key("什么")}
    assert ask("Please explain", Words()).asked == {*terms("please explain")}


def test_an_unseen_compound_is_asked_for_by_its_parts():
    question = ask("harborstation", Words(harbor=3, station=5))
    assert question.asked == {key("harbor"), key("station")}
    assert not question.unseen


def test_a_single_letter_that_the_collection_has_never_seen_is_not_asked_for():
    assert ask("harbor %u (c)", Words(harbor=3)).asked == {key("harbor")}
    assert key("u") in ask("harbor %u", Words(harbor=3, u=2)).asked


CHUNKS = [
    Chunk("a", "The harbor museum is closed. A museum of the harbor opened.", title="Refund policy"),
    Chunk("b", "Policy on every refund, and a museum", title="Harbor"),
    Chunk("c", "[8 May, 2023] Harbor: the museum is far."),
    Chunk("d", "the museum is far away", metadata={"speaker": "Harbor"}),
    Chunk("e", "Das Museum am Hafen ist geschlossen, und die Fähre ist auch nicht da.", title="policy"),
    Chunk("f", ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def view():
    store = TemporaryStore()
    store.put("default", [Document(chunk.id, chunks=(chunk,)) for chunk in CHUNKS])
    return Indexes(store).snapshot("default", "main")


@pytest.mark.parametrize("query", ["harbor museum", "refund policy", "policy harbor", "museum far", "zeppelin", ""])  # fmt: skip
def test_chunks_of_the_collection_are_matched_without_being_read(view, query):
    question = ask(query, view)
    assert match_known(question, CHUNKS, view) == match(question, CHUNKS, view.language)


def test_a_chunk_is_read_where_the_collection_holds_another_text_or_language_or_none(view):
    strip = Chunk("a", "A museum of the harbor opened.")
    others = [strip, Chunk("z", "harbor museum"), CHUNKS[4], CHUNKS[2], CHUNKS[3], CHUNKS[0]]
    keys = np.array([key("harbor"), key("museum")], np.uint64)
    located = view.locate_terms(others, keys)
    assert [found is None for found in located] == [True] * 5 + [False]
    question = ask("harbor museum", view)
    assert match_known(question, others, view) == match(question, others, view.language)
