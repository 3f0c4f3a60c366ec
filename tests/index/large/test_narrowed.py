"""A collection that is too large for a process is narrowed inside a real PostgreSQL, and ranked as before."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from millgate import Millgate
from millgate.errors import ConfigError
from millgate.index.large.narrowed import NarrowedCollection
from millgate.notes import Stage
from millgate.operations.embed import build_graphs
from millgate.policy import IndexPolicy

MEANINGS = (
    {"car", "cars", "automobile", "engine"},
    {"doctor", "physician", "ward"},
    {"tide", "sea"},
)
TOPICS = ("tides", "refunds", "engines", "gardens", "letters", "bridges", "clocks", "harbors")


class Meanings:
    """An embedder that knows a few words that mean the same."""

    name, dimension = "meanings", 4

    def embed(self, texts):
        said = [set(re.findall(r"[a-z]+", text.lower())) for text in texts]
        found = [[*(len(words & same) for same in MEANINGS), 0.01] for words in said]
        rows = np.array(found, np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rows(count):
    for n in range(count):
        topic = TOPICS[n % len(TOPICS)]
        yield {"id": f"c{n}", "title": f"{topic} {n}", "text": f"Note {n} on {topic}: keeper K{n} wrote of {topic} and number {n * 7}."}  # fmt: skip


@pytest.fixture
def gates(postgres_url):
    """The same store as a process that holds all of it sees it, and as one that may hold ten chunks."""
    narrow = IndexPolicy(max_chunks=10)
    with Millgate.open(postgres_url) as wide, Millgate.open(postgres_url, index=narrow) as small:
        yield wide, small


def ranking(gate, query):
    context = gate.context(query, budget=400)
    return [chunk.id for chunk in context.chunks], context


def narrowed_step(context):
    return next(
        step.facts["narrowed_to"] for step in context.trace.steps if step.stage is Stage.RETRIEVE
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


@pytest.fixture
def reads(gates, monkeypatch):
    """The places of the records, and the ids of the chunks, that the narrowed gate reads."""
    _, small = gates
    return watch_reads(small, monkeypatch)


def watch_reads(gate, monkeypatch):
    read = []

    def watch(name):
        method = getattr(gate.store, name)

        def watched(tenant, collection, keys):
            read.extend(keys)
            return method(tenant, collection, keys)

        monkeypatch.setattr(gate.store, name, watched)

    watch("records_at")
    watch("chunks")
    return read


def test_what_was_read_is_read_again_only_after_a_change(gates, reads):
    wide, small = gates
    wide.add(rows(400))
    first = ranking(small, "refunds")[0]
    assert {type(key) for key in reads} == {int, str}
    before = {*reads}
    reads.clear()
    assert ranking(small, "refunds")[0] == first
    assert not reads
    ranking(small, "refunds and tides")
    assert reads
    chunks = [key for key in reads if isinstance(key, str)]
    assert before.isdisjoint(chunks), "the chunks that one question read serve the next"
    wide.add([{"id": "new", "text": "Refunds moved to the lighthouse."}])
    reads.clear()
    assert "new" in ranking(small, "refunds")[0]
    assert len(reads) > 1


def test_a_question_that_is_asked_again_reads_no_lists_until_something_changes(gates, monkeypatch):
    wide, small = gates
    wide.add(rows(400))
    first = ranking(small, "what did keeper K17 write?")[0]
    with monkeypatch.context() as patch:
        patch.setattr(small.store, "key_lists", None)
        assert ranking(small, "what did keeper K17 write?")[0] == first
    wide.add([{"id": "new", "text": "Keeper K17 did write of K17."}])
    assert ranking(small, "what did keeper K17 write?")[0][0] == "new"


def test_a_chunk_whose_metadata_alone_changed_is_read_again(gates):
    wide, small = gates
    wide.add(rows(60))
    row = {**next(rows(1)), "metadata": {"shelf": 3}}
    assert ranking(small, "keeper K0")[1].chunks[0].metadata == {}
    wide.add([row])
    assert ranking(small, "keeper K0")[1].chunks[0].metadata == {"shelf": 3}


def test_chunks_are_read_from_the_store_while_the_postings_are_behind(gates):
    wide, small = gates
    wide.add(rows(60))
    collection = NarrowedCollection(small.store, "default", "main")
    before = collection.snapshot("keeper K17", wait=True)
    assert "K17" in before.read(["c17"])[0].text
    wide.add([{"id": "c17", "text": "Changed."}])
    wide.remove(documents=["c18"])
    behind = collection.snapshot("keeper K17", wait=False)
    assert behind.degraded
    assert [chunk.text for chunk in behind.read(["c18", "c17"])] == ["Changed."]


def test_what_a_replica_gave_is_not_remembered(postgres, postgres_url, monkeypatch):
    address = f"{postgres_url}?replica=127.0.0.1:{postgres.port}"
    with Millgate.open(address, index=IndexPolicy(max_chunks=10)) as gate:
        gate.add(rows(60))
        ranking(gate, "keeper K17")
        read = watch_reads(gate, monkeypatch)
        ranking(gate, "keeper K17")
        assert {type(key) for key in read} == {int, str}


def test_postings_made_again_give_the_same_ranking(gates):
    wide, small = gates
    wide.add(rows(100))
    before, _ = ranking(small, "note 55 on bridges")
    small.reindex()
    assert ranking(small, "note 55 on bridges")[0] == before


def test_a_word_never_seen_is_read_as_its_parts_as_in_a_collection_held_whole(gates):
    wide, small = gates
    wide.add([*rows(100), {"id": "light", "text": "The lighthouse stands on the northern cliff."}])
    whole, _ = ranking(wide, "lighthousecliff")
    narrowed, _ = ranking(small, "lighthousecliff")
    assert narrowed == whole == ["light"]


def lists_of(gate):
    """How many rows the lists of the collection take, and the most that one term has."""
    sql = "SELECT count(*) FROM millgate.posting_lists WHERE tenant = %s GROUP BY term ORDER BY 1"
    counts = [count for (count,) in gate.store.query("default", sql, ("default",))]
    return sum(counts), counts[-1]


@pytest.mark.slow
def test_blocks_of_a_collection_that_grows_slowly_are_joined(gates, monkeypatch):
    monkeypatch.setattr("millgate.index.large.blocks._FULL", 40)
    wide, small = gates
    every = list(rows(64))
    small.add(every[:20])
    for row in every[20:]:
        small.add([row])
        small.context("note", budget=50)
    totals, _ = small.store.posting_state("default", "main")
    assert (totals.chunks, totals.blocks, sum(totals.parts)) == (64, 1, 24)
    slowly, most = lists_of(small)
    assert most <= 4, "one list a full block, and few parts"
    before = [ranking(small, query)[0] for query in ("keeper K41", "note on engines", "number 700")]
    small.reindex()
    assert lists_of(small)[0] < slowly
    assert before == [ranking(small, query)[0] for query in ("keeper K41", "note on engines", "number 700")]  # fmt: skip
    assert before[0] == ranking(wide, "keeper K41")[0]


def count_postings(gate):
    """How many postings stand in lists, and how many of chunks that are there."""
    lists = "SELECT sum(octet_length(list)) / 4 FROM millgate.posting_lists WHERE tenant = %s"
    terms = "SELECT sum(chunks) FROM millgate.posting_terms WHERE tenant = %s"
    return [int(gate.store.query("default", sql, ("default",))[0][0]) for sql in (lists, terms)]


@pytest.mark.slow
def test_postings_of_chunks_that_went_are_swept_from_full_blocks(gates, monkeypatch):
    monkeypatch.setattr("millgate.index.large.blocks._FULL", 20)
    monkeypatch.setattr("millgate.index.large.narrowed._SWEPT", 4)
    wide, small = gates
    every = list(rows(40))
    small.add(every)
    for turn in range(12):
        for begin in range(0, 40, 8):
            changed = every[begin : begin + 8]
            small.add([{**row, "text": f"{row['text']} Turn {turn}."} for row in changed])
            small.context("note", budget=50)
    listed, alive = count_postings(small)
    assert listed < 3 * alive, "at most half of a full block is dead, and the newest is not full"
    assert ranking(small, "keeper K17")[0] == ranking(wide, "keeper K17")[0]
    totals, _ = small.store.posting_state("default", "main")
    assert totals.chunks == 40
    small.remove(documents=[f"c{n}" for n in range(39)])
    assert ranking(small, "keeper K39")[0] == ["c39"]


def test_whoever_read_the_state_before_another_wrote_does_not_hold_the_lease(gates, monkeypatch):
    wide, small = gates
    small.add(rows(40))
    other = NarrowedCollection(wide.store, "default", "main")
    lease = small.store.lease_postings

    def too_late(*here):
        monkeypatch.undo()
        assert other.follow_batch()
        return lease(*here)

    monkeypatch.setattr(small.store, "lease_postings", too_late)
    assert ranking(small, "keeper K17")[0][0] == "c17"
    totals, _ = small.store.posting_state("default", "main")
    assert small.store.lease_postings("default", "main", totals), "it is free"


def test_work_that_fails_gives_the_lease_back(gates, monkeypatch):
    wide, small = gates
    small.add(rows(40))
    index = NarrowedCollection(small.store, "default", "main")
    monkeypatch.setattr(small.store, "changes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.follow_batch()
    assert NarrowedCollection(wide.store, "default", "main").follow_batch()


def test_turns_beside_those_that_match_are_candidates(gates, monkeypatch):
    monkeypatch.setattr("millgate.index.large.narrowed.TURNS", 6)
    monkeypatch.setattr("millgate.index.large.narrowed.NAMES", 1)
    wide, small = gates
    said = [f"So it goes, {n}." for n in range(40)]
    said[20:22] = ["Which lighthouse did you paint?", "The striped one."]
    who = ("Ann", "Bob")
    rows = ({"id": f"t{n}", "text": f"{who[n % 2]}: {text}"} for n, text in enumerate(said))
    small.add(rows, kind="conversation")
    found, context = ranking(small, "lighthouse")
    assert "by words and names" in narrowed_step(context)
    assert found[:5] == ranking(wide, "lighthouse")[0][:5]
    assert "t21" in found, "the answer, which has none of the words"


def test_what_is_dead_takes_the_place_of_no_candidate(gates, monkeypatch):
    monkeypatch.setattr("millgate.index.large.narrowed.WORDS", 10)
    monkeypatch.setattr("millgate.index.large.narrowed.NAMES", 1)
    _, small = gates
    small.add(rows(40))
    ranking(small, "clocks")
    small.add([{"id": row["id"], "text": "Nothing stands here."} for row in rows(20)])
    found = narrowed_step(ranking(small, "note keeper number")[1])
    assert int(found.split()[0]) >= 10


def test_a_service_says_that_postings_are_still_being_made(gates, postgres_url):
    from millgate.errors import NotReady

    wide, _ = gates
    wide.add(rows(40))
    policy = IndexPolicy(max_chunks=10)
    with (
        Millgate.open(postgres_url, index=policy, wait_for_index=False) as gate,
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
    assert not store.records_at("other", "main", range(40)).ids


def test_what_shares_a_rare_name_with_the_best_is_a_candidate_too(gates, monkeypatch):
    monkeypatch.setattr("millgate.index.large.narrowed.WORDS", 3)
    wide, small = gates
    wide.add(rows(100))
    wide.add([
        {"id": "first", "text": "The lighthouse at Skagen was built by Orla Brandt."},
        {"id": "second", "text": "Years later Orla Brandt moved to Bergen and kept bees."},
    ])  # fmt: skip
    found, context = ranking(small, "who built the lighthouse at Skagen?")
    assert found[0] == "first"
    assert "second" in {candidate.chunk.id for candidate in context.trace.candidates}


VEHICLES = [
    {"id": "c-auto", "text": "An automobile with a new engine stood in the yard."},
    {"id": "c-ward", "text": "The physician walked through the ward."},
]


def test_without_pgvector_vectors_rank_what_words_have_found(postgres_url):
    narrow = IndexPolicy(max_chunks=10)
    with Millgate.open(postgres_url, index=narrow, embedder=Meanings()) as gate:
        gate.add([*rows(40), *VEHICLES])
        found, context = ranking(gate, "which car stood in the yard?")
        assert found[0] == "c-auto"
        assert "vectors rank these alone" in narrowed_step(context)
        assert ranking(gate, "cars")[0] == [], "no word leads there"


def test_with_pgvector_vectors_find_what_words_do_not(pgvector):
    narrow = IndexPolicy(max_chunks=10)
    with Millgate.open(pgvector.url, index=narrow, embedder=Meanings(), tenant="a") as gate:
        gate.add([*rows(40), *VEHICLES])
        for made in (1, 0):
            found, context = ranking(gate, "cars")
            assert found[0] == "c-auto"
            assert narrowed_step(context).endswith("by words, vectors and names")
            assert build_graphs(gate.store, Meanings(), max_chunks=10) == made
        gate.add([{"id": "c-auto", "text": "A bench stood in the yard."}])
        assert ranking(gate, "cars")[0][0] != "c-auto", "it has lost that meaning"
        gate.reindex()
        assert ranking(gate, "doctor")[0][0] == "c-ward"
    with Millgate.open(pgvector.url, index=narrow, embedder=Meanings(), tenant="b") as other:
        other.add(rows(40))
        assert "c-ward" not in ranking(other, "doctor")[0], "it is another tenant's"


def test_an_embedder_of_another_kind_is_refused_and_none_only_reads(pgvector):
    @dataclass
    class Other(Meanings):
        name: str = "other"

    narrow = IndexPolicy(max_chunks=10)
    with Millgate.open(pgvector.url, index=narrow, embedder=Meanings(), tenant="c") as gate:
        gate.add(rows(40))
        ranking(gate, "cars")
    with (
        Millgate.open(pgvector.url, index=narrow, embedder=Other(), tenant="c") as gate,
        pytest.raises(ConfigError, match=r"indexed with embedding/meanings/4.*reindex"),
    ):
        ranking(gate, "clocks")
    with Millgate.open(pgvector.url, index=narrow, tenant="c") as gate:
        assert ranking(gate, "clocks")[0]
        gate.add([{"id": "new", "text": "It has no vector."}])
        with pytest.raises(ConfigError, match="no embeddings"):
            ranking(gate, "clocks")


def test_an_embedder_that_makes_another_number_of_dimensions_is_named(postgres_url):
    class Wrong(Meanings):
        dimension = 5

    with Millgate.open(postgres_url, index=IndexPolicy(max_chunks=10), embedder=Wrong()) as gate:
        gate.add(rows(40))
        with pytest.raises(ConfigError, match=r"meanings gave 40 × 4 numbers.*5 dimensions"):
            ranking(gate, "clocks")
