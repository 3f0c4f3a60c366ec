"""The dictionary model and the SQLite store answer the same calls alike.

Long runs of random calls over few names, so that they meet: each answer, and after each call all that can be
read, must agree, and an index that follows the feed from its beginning must end at what is there.
"""

import random
from dataclasses import replace

import pytest
from tests.stores.dictionaries import DictionaryStore

from millgate.errors import InputError
from millgate.stores.sqlite.store import SqliteStore
from millgate.testing import FixedClock
from millgate.testing.samples import document, follow, trace
from millgate.types import Chunk, Edge, Fact, Review

TENANTS = ["t", "t", "t", "u"]
COLLECTIONS = ["main", "main", "main", "other"]
NAMES = ["a", "b", "c", "a#0", "a#1"]
WORDS = ["one", "two", "two\0three", "漢"]
EVERY = [*NAMES, "a#2", "b#0", "b#1", "b#2", "c#0", "none"]


class Pair:
    """Both stores, and the demand that they answer alike."""

    def __init__(self, folder, seed):
        clock = FixedClock()
        self.stores = (DictionaryStore(clock=clock), SqliteStore(folder, clock=clock))
        self.rng = random.Random(seed)
        self.calls = []

    def both(self, what, *args, **options):
        self.calls.append((what, args, options))
        answers = [self.ask(store, what, args, options) for store in self.stores]
        assert answers[0] == answers[1], self.calls[-12:]
        return answers[0]

    def ask(self, store, what, args, options):
        try:
            answer = getattr(store, what)(*args, **options)
        except InputError as error:
            return str(error)
        return list(answer) if what == "scan" else answer

    def pick(self, values):
        return self.rng.choice(values)

    def some(self, values, most=3):
        return [self.pick(values) for _ in range(self.rng.randint(1, most))]

    def document(self):
        name, collection = self.pick(NAMES), self.pick(COLLECTIONS)
        made = document(name, *self.some(WORDS), collection=collection, digest=self.pick(WORDS))
        data = self.pick([{}, {}, {"k": 1}, {"k": [1, {"x": None}]}])
        chunks = tuple(replace(chunk, metadata=data) for chunk in made.chunks)
        shape = self.pick(["cut", "cut", "cut", "own", "empty"])
        if shape == "own":  # a chunk that does not bear its document's name
            chunks = (Chunk(self.pick(NAMES), "own", document=name, collection=collection),)
        return replace(made, chunks=() if shape == "empty" else chunks)

    def close(self):
        for store in self.stores:
            store.close()


@pytest.fixture(params=range(4))
def pair(request, tmp_path):
    pair = Pair(tmp_path, request.param)
    yield pair
    pair.close()


def change_documents(pair):
    tenant, collection, names = pair.pick(TENANTS), pair.pick(COLLECTIONS), pair.some(NAMES)
    match pair.rng.randrange(12):
        case 0:
            pair.both("remove", tenant, collection, documents=names)
        case 1:
            pair.both("remove", tenant, collection, chunks=names)
        case 2 if pair.rng.random() < 0.3:
            pair.both("remove", tenant, collection)
        case 3 | 4:
            pair.both("attach", tenant, collection, "k", {name: name.encode() for name in names})
        case 5:
            seen = pair.stores[0].head(tenant, collection) - pair.rng.randrange(4)
            pair.both("attach", tenant, collection, "k", dict.fromkeys(names, b"late"), seen=seen)
        case _:
            batch = [pair.document() for _ in range(pair.rng.randint(1, 4))]
            pair.both("put", tenant, batch)


def test_documents_attachments_and_feeds_agree(pair):
    for _ in range(250):
        change_documents(pair)
        for tenant in ("t", "u"):
            pair.both("collections", tenant)
            for name in ("main", "other"):
                pair.both("scan", tenant, name)
                pair.both("chunks", tenant, name, EVERY)
                pair.both("digests", tenant, name)
                pair.both("head", tenant, name)
                pair.both("changes", tenant, name, 0)
                pair.both("attachments", tenant, name, "k", EVERY)
                pair.both("kinds", tenant, name)
        for store in pair.stores:
            held = {chunk.id: chunk for chunk in store.scan("t", "main")}
            assert follow(store, "t", "main") == held


def change_records(pair):
    tenant, id = pair.pick(TENANTS), pair.pick(NAMES)
    ends = (id, pair.pick(NAMES), pair.pick(NAMES))
    match pair.rng.randrange(8):
        case 0 | 1:
            fact = Fact(id, pair.pick(WORDS), trust=pair.pick([0.1, 0.9]))
            pair.both("save_fact", tenant, fact)
        case 2:
            pair.both("amend_fact", tenant, id, lambda fact: replace(fact, recalled=1))
        case 3:
            pair.both("forget", tenant, id)
        case 4:
            pair.both("link", tenant, [Edge(*ends, pair.pick([0.2, 1.0]))])
        case 5:
            pair.both("unlink", tenant, [Edge(*ends)])
        case 6:
            pair.both("decide", tenant, Review(id, "q", status=pair.pick(["approved", "expired"])))
            pair.both("save_review", tenant, Review(id, "q"))
        case _:
            now = len(pair.calls)
            one = trace(str(now), tenant=tenant, created=float(now))
            pair.both("save_trace", one, keep=3)
            pair.both("trace", tenant, str(now))


def test_edges_facts_reviews_and_traces_agree(pair):
    for _ in range(150):
        change_records(pair)
        for tenant in ("t", "u"):
            pair.both("edges_touching", tenant, NAMES, limit=2)
            pair.both("facts", tenant)
            pair.both("fact_changes", tenant, 2)
            pair.both("reviews", tenant)
            pair.both("traces", tenant)
