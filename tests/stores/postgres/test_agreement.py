"""The PostgreSQL store and the dictionary model answer the same calls alike.

The same random calls as for SQLite, fewer of them. Numbers of the feed are each store's own, so only their order
counts.
"""

import random

import pytest
from tests.stores.dictionaries import DictionaryStore
from tests.stores.test_agreement import EVERY, Pair, change_documents, change_records

from millgate.stores.postgres.store import PostgresStore
from millgate.testing import FixedClock
from millgate.testing.samples import follow


class PostgresPair(Pair):
    def __init__(self, url, seed):
        clock = FixedClock()
        self.stores = (DictionaryStore(clock=clock), PostgresStore(url, clock=clock))
        self.rng = random.Random(seed)
        self.calls = []

    def both(self, what, *args, **options):
        if "seen" in options:  # a number of one store means nothing to the other
            return None
        return super().both(what, *args, **options)


@pytest.fixture(params=range(2))
def pair(request, postgres_url):
    pair = PostgresPair(postgres_url, request.param)
    yield pair
    pair.close()


def test_documents_attachments_and_feeds_agree(pair):
    for _ in range(60):
        change_documents(pair)
        for tenant in ("t", "u"):
            pair.both("collections", tenant)
            for name in ("main", "other"):
                pair.both("scan", tenant, name)
                pair.both("digests", tenant, name)
                pair.both("attachments", tenant, name, "k", EVERY)
                feeds = [[(c.id, c.chunk) for c in s.changes(tenant, name, 0)] for s in pair.stores]
                assert feeds[0] == feeds[1], pair.calls[-12:]
    for store in pair.stores:
        assert follow(store, "t", "main") == {c.id: c for c in store.scan("t", "main")}


def test_records_agree(pair):
    for _ in range(80):
        change_records(pair)
        for tenant in ("t", "u"):
            pair.both("facts", tenant)
            pair.both("reviews", tenant)
            pair.both("edges_touching", tenant, EVERY)
