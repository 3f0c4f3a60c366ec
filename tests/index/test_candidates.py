"""An engine of the user's own brings candidates, and the usual ranking reads them."""

import importlib.util
from pathlib import Path

import numpy as np
import psycopg
import pytest

from millgate import Chunk, ContextBudget, Millgate
from millgate.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "postgres_retriever.py"
PAGES = [
    ("kiel", "Ferries", "The ferry to Kiel is repaired in the northern dock every March."),
    ("oslo", "Ferries", "The ferry to Oslo carries cars and leaves at noon."),
    ("tea", "Tea", "Tea is poured at five in the saloon."),
]


class Engine:
    """Brings the pages it is told, and remembers what it was asked."""

    def __init__(self, *chunks, error=None):
        self.chunks, self.error, self.asked = chunks, error, []

    def retrieve(self, tenant, collection, query):
        self.asked.append((tenant, collection, query))
        if self.error:
            raise self.error
        return self.chunks


CHUNKS = [Chunk(id, body, document=id, title=title) for id, title, body in PAGES]
QUESTION = "where is the ferry to Kiel repaired?"


def test_what_an_engine_brings_is_ranked_and_nothing_of_it_is_in_the_store():
    engine = Engine(*reversed(CHUNKS))
    with Millgate.open(":memory:", retriever=engine) as gate:
        found = gate.context(QUESTION, budget=200)
        assert (found.chunks[0].id, found.degraded) == ("kiel", ())
        assert "northern dock" in found.text
        assert engine.asked == [("default", "main", QUESTION)]
        known_window = gate.context(
            QUESTION, window=["We talk of ships."], context_budget=ContextBudget(128_000, 0)
        )
        assert known_window.chunks[0].id == "kiel"


def test_what_is_added_is_not_indexed_but_kept():
    with Millgate.open(":memory:", retriever=Engine()) as gate:
        gate.add([{"id": "quay", "text": "The quay is long."}])
        assert not gate.context("how long is the quay?", budget=100).chunks
        assert gate.index().count == 1


def test_a_chunk_that_comes_twice_is_one_candidate():
    with Millgate.open(":memory:", retriever=Engine(*CHUNKS, *CHUNKS)) as gate:
        found = gate.context(QUESTION, budget=500)
    ids = [candidate.chunk.id for candidate in found.trace.candidates]
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("nonsense"), SystemExit(2)])
def test_an_engine_that_fails_is_told_and_ends_nothing(error):
    with Millgate.open(":memory:", retriever=Engine(error=error)) as gate:
        found = gate.context(QUESTION, budget=200)
    assert found.chunks == ()
    assert any("retriever" in reason or "no route" in reason for reason in found.degraded)


def test_an_engine_that_brings_no_chunks_is_a_mistake_of_its_author():
    gate = Millgate.open(":memory:", retriever=Engine("a text"))
    with gate, pytest.raises(ConfigError, match="something else than chunks"):
        gate.context(QUESTION, budget=200)
    with pytest.raises(ConfigError, match="has no retrieve"):
        Millgate.open(":memory:", retriever=object())


def test_with_an_embedder_the_nearest_candidates_rank_too():
    class Colors:
        name, dimension = "colors", 2

        def embed(self, texts):
            red = [("red" in text or "crimson" in text) for text in texts]
            return np.array([[1.0, 0.0] if one else [0.0, 1.0] for one in red], np.float32)

    chunks = [Chunk("a", "A crimson boat."), Chunk("b", "A gray quay.")]
    with Millgate.open(":memory:", retriever=Engine(*chunks), embedder=Colors()) as gate:
        assert gate.context("red?", budget=100).chunks[0].id == "a"


def test_the_example_over_the_full_text_search_of_postgresql_finds_one_tenants_passages(postgres):
    spec = importlib.util.spec_from_file_location("postgres_retriever", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        made = example.__doc__.partition("    CREATE TABLE")[2].partition("\n\n")[0]
        connection.execute(f"CREATE TABLE{made}")
        try:
            with connection.cursor() as cursor:
                rows = [("default", *page) for page in PAGES]
                rows.append(("other", "secret", "Ferries", "Another's ferry to Kiel is repaired."))
                cursor.executemany("INSERT INTO passages VALUES (%s, %s, %s, %s)", rows)
            engine = example.PostgresRetriever(postgres.url)
            with Millgate.open(":memory:", retriever=engine) as gate:
                found = gate.context(QUESTION, budget=500)
                assert found.chunks[0].id == "kiel"
                assert {c.chunk.id for c in found.trace.candidates} == {"kiel", "oslo"}
                assert not gate.context("the of?", budget=100).chunks
        finally:
            connection.execute("DROP TABLE passages")
