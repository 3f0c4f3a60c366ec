"""A collection that is too large for a process is narrowed inside a real PostgreSQL, and ranked as before."""

import pytest

from headgate import Headgate
from headgate.notes import Stage
from headgate.policy import IndexPolicy

TOPICS = ("tides", "refunds", "engines", "gardens", "letters", "bridges", "clocks", "harbors")


def rows(count):
    for n in range(count):
        topic = TOPICS[n % len(TOPICS)]
        yield {"id": f"c{n}", "title": f"{topic} {n}", "text": f"Note {n} on {topic}: keeper K{n} wrote of {topic} and number {n * 7}."}  # fmt: skip


@pytest.fixture
def gates(postgres_url):
    """The same store as a process that holds all of it sees it, and as one that may hold ten chunks."""
    narrow = IndexPolicy(max_chunks=10)
    with Headgate.open(postgres_url) as wide, Headgate.open(postgres_url, index=narrow) as small:
        yield wide, small


def ranking(gate, query):
    context = gate.context(query, budget=400)
    return [chunk.id for chunk in context.chunks], context


def narrowed_step(context):
    return next(
        step.facts["narrowed"] for step in context.trace.steps if step.stage is Stage.RETRIEVE
    )


def test_a_narrowed_collection_ranks_like_one_that_is_held_whole(gates):
    wide, small = gates
    wide.add(rows(400))
    for query in ("what did keeper K17 write?", "note 123 on engines", "number 700", "clocks 14"):
        whole, _ = ranking(wide, query)
        narrowed, context = ranking(small, query)
        assert narrowed[0] == whole[0]
        assert narrowed_step(context).endswith("of 400 chunks, by words and names")


def test_what_changes_or_goes_is_followed(gates):
    wide, small = gates
    wide.add(rows(60))
    assert ranking(small, "keeper K17")[0][0] == "c17"
    wide.add([{"id": "c17", "text": "Nothing of the kind stands here any more."}])
    wide.add([{"id": "new", "text": "Keeper K17 moved to the lighthouse."}])
    wide.remove(documents=["c18"])
    found, _ = ranking(small, "keeper K17")
    assert found[0] == "new"
    assert "c18" not in ranking(small, "keeper K18")[0]
    assert narrowed_step(ranking(small, "keeper")[1]).endswith("of 60 chunks, by words and names")


def test_postings_made_again_give_the_same_ranking(gates):
    wide, small = gates
    wide.add(rows(100))
    before, _ = ranking(small, "note 55 on bridges")
    small.reindex()
    assert ranking(small, "note 55 on bridges")[0] == before


def test_a_service_says_that_postings_are_still_being_made(gates, postgres_url):
    from headgate.errors import NotReady

    wide, _ = gates
    wide.add(rows(40))
    policy = IndexPolicy(max_chunks=10)
    with (
        Headgate.open(postgres_url, index=policy, wait_for_index=False) as gate,
        pytest.raises(NotReady, match="still being made"),
    ):
        gate.context("keeper K17")


def test_a_question_without_a_known_word_finds_nothing(gates):
    wide, small = gates
    wide.add(rows(40))
    assert ranking(small, "xylophone quartz")[0] == []


def test_another_tenant_sees_none_of_it(gates):
    wide, small = gates
    wide.add(rows(40))
    ranking(small, "keeper K17")
    store = small.store
    assert store.posting_state("other", "main")[0].chunks == 0
    assert store.drafts_at("other", "main", range(40)) == []
