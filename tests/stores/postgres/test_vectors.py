"""Embeddings of a large collection: searched by pgvector, one tenant's alone, and said clearly where that cannot be."""

import numpy as np
import psycopg
import pytest

from millgate.errors import InputError, LimitError, StoreError
from millgate.protocols import Placement, PostingBlock, Totals
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document

KIND = "embedding/axes/4"
AXES = np.eye(4, dtype=np.float16)


@pytest.fixture
def store(pgvector):
    store = PostgresStore(pgvector.url)
    for tenant in ("t", "u"):
        store.clear_postings(tenant, "main")
        store.remove(tenant, "main")
    yield store
    store.close()


def save(store, tenant, rows, *, gone=(), after=0, names=None):
    """A block of chunks with these embeddings."""
    if not after:
        store.put(tenant, [document("a", "text")])
    store.lease_postings(tenant, "main", Totals(seen=after))
    names = names or [f"{tenant}{n}" for n in range(len(rows))]
    totals = Totals(seen=after + 1, chunks=len(rows), vectors=KIND)
    drafts = [(name, b"draft") for name in names]
    block = PostingBlock(drafts, gone, [], {}, totals, rows, Placement(block=after))
    assert store.save_block(tenant, "main", block, after=Totals(seen=after))


def nearest(store, tenant, vector, *, k=10, chunks=4):
    return store.nearest_doc_ids(tenant, "main", KIND, vector, k, chunks=chunks)


def test_the_nearest_come_first_with_their_cosines(store):
    save(store, "t", AXES)
    asked = np.array([0.6, 0.8, 0, 0], np.float16)
    (first, near), (second, far), *rest = nearest(store, "t", asked)
    assert (first, second) == (1, 0)
    assert (near, far) == pytest.approx((0.8, 0.6), abs=1e-3)
    assert [cosine for _, cosine in rest] == [0, 0]


def test_a_graph_finds_the_same_and_holds_one_tenant_alone(store, pgvector):
    dice = np.random.default_rng(7)
    rows = dice.normal(size=(300, 4)).astype(np.float16)
    rows /= np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True).astype(np.float16)
    save(store, "t", rows)
    save(store, "u", rows[::-1].copy())
    before = nearest(store, "t", AXES[0])
    assert store.build_graph("t", "main", KIND)
    assert not store.build_graph("t", "main", KIND), "it is there"
    assert nearest(store, "t", AXES[0], chunks=10**9) == before
    assert nearest(store, "u", AXES[0], chunks=10**9) is None, "that one has no graph, and is large"
    assert {place for place, _ in nearest(store, "u", AXES[0])} != {place for place, _ in before}
    with psycopg.connect(pgvector.url, autocommit=True) as owner, owner.transaction():
        owner.execute("SET LOCAL millgate.tenant = 't'; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")  # fmt: skip
        plan = owner.execute(
            "EXPLAIN SELECT place FROM millgate.posting_vectors WHERE tenant = 't' AND collection = 'main'"
            f" AND kind = '{KIND}' ORDER BY embedding::extensions.halfvec(4)"
            " OPERATOR(extensions.<#>) '[1,0,0,0]' LIMIT 10"
        ).fetchall()
        shown = "\n".join(line for (line,) in plan)
        assert "Index Scan using vectors_" in shown, "row-level security does not stand in its way"
        rows = owner.execute("SELECT DISTINCT tenant FROM millgate.posting_vectors").fetchall()
        assert rows == [("t",)]


def test_without_a_tenant_no_vector_is_seen(store, pgvector):
    save(store, "t", AXES)
    with psycopg.connect(pgvector.url) as owner:
        assert owner.execute("SELECT * FROM millgate.posting_vectors").fetchall() == []


def test_a_chunk_that_changes_or_goes_loses_its_vector(store):
    save(store, "t", AXES, names=["a", "b", "c", "d"])
    save(store, "t", AXES[3:], gone=["a", "b"], after=1, names=["a"])
    found = dict(nearest(store, "t", AXES[0]))
    assert len(found) == 3
    assert found[1 << 16] == 0, "it has the new one"
    store.clear_postings("t", "main")
    assert nearest(store, "t", AXES[0]) == []


def test_a_vector_of_another_dimension_is_refused(store):
    save(store, "t", AXES)
    with pytest.raises(InputError, match="dimensions"):
        nearest(store, "t", AXES[0][:3])
    with pytest.raises(LimitError, match=r"5,000 dimensions.*4,000"):
        store.build_graph("t", "main", "embedding/wide/5000")


def test_what_a_graph_lacks_is_said(store, postgres_url):
    save(store, "t", AXES)
    with pytest.raises(
        StoreError, match=r"were made without embedding/other/4.*millgate store reindex"
    ):
        store.build_graph("t", "main", "embedding/other/4")
    plain = PostgresStore(postgres_url)
    assert not plain.can_search_vectors()
    assert nearest(plain, "t", AXES[0]) is None
    with pytest.raises(StoreError, match=r"no pgvector.*CREATE EXTENSION vector"):
        plain.build_graph("t", "main", KIND)
    plain.close()


def test_a_store_whose_database_gets_the_extension_later_gets_its_table_when_it_is_opened(pgvector):
    with psycopg.connect(pgvector.admin, autocommit=True) as admin:
        admin.execute("CREATE DATABASE later OWNER gate")
    url = pgvector.url.replace("/millgate", "/later")
    PostgresStore(url).close()
    with psycopg.connect(pgvector.admin, dbname="later", autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
    stays = PostgresStore(url, migrates=False)
    assert not stays.can_search_vectors()
    with pytest.raises(StoreError, match=r"no table for vectors yet.*millgate store migrate"):
        stays.build_graph("t", "main", KIND)
    later = PostgresStore(url)
    assert later.can_search_vectors()
    for store in (stays, later):
        store.close()
    with psycopg.connect(pgvector.admin, autocommit=True) as admin:
        admin.execute("DROP DATABASE later WITH (FORCE)")
