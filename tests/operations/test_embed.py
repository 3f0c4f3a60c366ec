"""Embedding as shared work: each chunk once, whoever does it, and nothing is left behind by a killed worker."""

import os
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest

from millgate.operations.embed import embed_store
from millgate.stores.postgres.embedding_work import PART
from millgate.stores.postgres.store import PostgresStore
from millgate.stores.sqlite.store import SqliteStore
from millgate.types import Chunk, Document

KIND = "embedding/lengths/2"
COUNT = 5 * PART


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
    assert len(first.texts) >= PART
    assert sorted(first.texts + second.texts) == sorted(f"text {n}" for n in range(COUNT))


def test_two_workers_share_the_work_and_embed_each_chunk_once(postgres_url):
    stores = [PostgresStore(postgres_url), PostgresStore(postgres_url)]
    put(stores[0], *range(COUNT))
    both = threading.Barrier(2)  # each has claimed a part before either goes on
    models = [Lengths(before=once(both.wait)) for _ in stores]
    workers = [
        threading.Thread(target=embed_store, args=pair) for pair in zip(stores, models, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(model.texts for model in models)
    counted = Counter(models[0].texts + models[1].texts)
    assert (len(counted), set(counted.values()), kept(stores[0])) == (COUNT, {1}, COUNT)
    for store in stores:
        store.close()


def once(action):
    todo = [action]
    return lambda: todo.pop()() if todo else None


WORKER = """
import sys, time
from millgate.operations.embed import embed_store
from millgate.stores.postgres.store import PostgresStore

class Stuck:
    name, dimension = "lengths", 2
    def embed(self, texts):
        print(len(texts), flush=True)
        time.sleep(600)

embed_store(PostgresStore(sys.argv[1]), Stuck())
"""


def test_the_part_of_a_killed_worker_is_done_by_another(postgres_url):
    store = PostgresStore(postgres_url)
    put(store, *range(COUNT))
    stuck = subprocess.Popen(
        [sys.executable, "-c", WORKER, postgres_url], stdout=subprocess.PIPE, env=os.environ
    )
    held = int(stuck.stdout.readline())
    model = Lengths()

    def kill_when_the_rest_is_done(done, total):
        if total - done == held and len(model.texts) == COUNT - held:
            stuck.kill()

    try:
        embed_store(store, model, on_chunks=kill_when_the_rest_is_done)
    finally:
        stuck.kill()
        stuck.communicate()
    assert 0 < held < COUNT
    assert sorted(model.texts) == sorted(f"text {n}" for n in range(COUNT))
    assert kept(store) == COUNT
    store.close()


def test_a_chunk_that_changes_while_it_is_embedded_gets_the_embedding_of_its_new_text(postgres_url):
    store, other = PostgresStore(postgres_url), PostgresStore(postgres_url)
    put(store, 1)
    # the writer does not wait for the worker, which holds its part meanwhile
    model = Lengths(before=once(lambda: put(other, 1, text="a longer text {}")))
    embed_store(store, model)
    value = store.attachments("t", "main", KIND, ["d1"])["d1"]
    assert np.frombuffer(value, np.float16)[0] == len("a longer text 1")
    store.close()
    other.close()
