"""Embedding ahead of requests: each chunk once, and a run that was stopped goes on."""

import numpy as np
import pytest

from millgate.index.vectors import BATCH
from millgate.operations.embed import embed_store
from millgate.stores.postgres.store import PostgresStore
from millgate.stores.sqlite.store import SqliteStore
from millgate.types import Chunk, Document

KIND = "embedding/lengths/2"
COUNT = 5 * BATCH


class Lengths:
    """An embedder that remembers the texts it was given."""

    name, dimension = "lengths", 2

    def __init__(self, before=lambda: None):
        self.texts = []
        self._before = before

    def embed(self, texts):
        self._before()
        self.texts += texts
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def put(store, *numbers, tenant="t", collection="main", text="text {}"):
    for_one = {"collection": collection}
    found = [
        Document(id, chunks=(Chunk(id, text.format(n), document=id, **for_one),), **for_one)
        for n, id in ((n, f"d{n}") for n in numbers)
    ]
    store.put(tenant, found)


def kept(store, tenant="t", collection="main"):
    return store.kinds(tenant, collection).get(KIND, 0)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "kb")
    else:
        store = PostgresStore(request.getfixturevalue("postgres_url"))
    yield store
    store.close()


def test_only_what_lacks_an_embedding_is_embedded_of_every_tenant(store):
    put(store, *range(300))
    put(store, *range(3), tenant="u", collection="other")
    model, seen = Lengths(), []
    assert embed_store(store, model, on_chunks=lambda *now: seen.append(now)) == 303
    assert (kept(store), kept(store, "u", "other")) == (300, 3)
    assert (300, 300) in seen
    put(store, 7, text="another text {}")
    store.remove("t", "main", documents=["d8"])
    again = Lengths()
    assert embed_store(store, again) == 1
    assert again.texts == ["another text 7"]
    assert embed_store(store, again) == 0
    value = store.attachments("t", "main", KIND, ["d7"])["d7"]
    assert np.frombuffer(value, np.float16).tolist() == [14.0, 1.0]


def test_one_collection_can_be_chosen(store):
    put(store, 1, 2)
    put(store, 1, collection="other")
    assert embed_store(store, Lengths(), collection="other") == 1
    assert (kept(store), kept(store, collection="other")) == (0, 1)


def test_a_run_that_was_stopped_goes_on_where_it_was(store):
    put(store, *range(COUNT))
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    first, second = Lengths(before=stop), Lengths()
    with pytest.raises(KeyboardInterrupt):
        embed_store(store, first)
    embed_store(store, second)
    assert len(first.texts) >= BATCH
    assert sorted(first.texts + second.texts) == sorted(f"text {n}" for n in range(COUNT))
