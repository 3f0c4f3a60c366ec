"""The in-memory store and the SQLite store, told the same, answer the same."""

import shutil
import tempfile
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.errors import InputError
from headgate.stores.memory import MemoryStore
from headgate.stores.sqlite import SqliteStore
from headgate.testing import FixedClock
from headgate.testing.samples import document, follow, trace
from headgate.types import Chunk, Edge, Fact, Review

TENANTS = st.sampled_from(["t", "u"])
COLLECTIONS = st.sampled_from(["main", "other"])
NAMES = st.sampled_from(["a", "b", "c", "a#0", "a#1"])
WORDS = st.sampled_from(["one", "two", "two\0three", "漢"])


@st.composite
def documents(draw):
    name, collection = draw(NAMES), draw(COLLECTIONS)
    made = document(name, *draw(st.lists(WORDS, max_size=3)), collection=collection)
    data = draw(st.sampled_from([{}, {"k": 1}, {"k": [1, {"x": None}]}]))
    chunks = tuple(replace(chunk, metadata=data) for chunk in made.chunks)
    if draw(st.booleans()) and not chunks:
        chunks = (Chunk(draw(NAMES), "own", document=name, collection=collection),)
    return replace(made, chunks=chunks, digest=draw(WORDS))


class Agreement(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        clock = FixedClock()
        self.stores = (MemoryStore(clock=clock), SqliteStore(self.folder, clock=clock))

    def both(self, ask):
        answers = []
        for store in self.stores:
            try:
                answers.append(ask(store))
            except InputError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]

    @rule(tenant=TENANTS, batch=st.lists(documents(), max_size=4))
    def put(self, tenant, batch):
        self.both(lambda store: store.put(tenant, batch))

    @rule(tenant=TENANTS, collection=COLLECTIONS, names=st.lists(NAMES, max_size=3))
    def remove_documents(self, tenant, collection, names):
        self.both(lambda store: store.remove(tenant, collection, documents=names))

    @rule(tenant=TENANTS, collection=COLLECTIONS, names=st.lists(NAMES, max_size=3))
    def remove_chunks(self, tenant, collection, names):
        self.both(lambda store: store.remove(tenant, collection, chunks=names))

    @rule(tenant=TENANTS, collection=COLLECTIONS)
    def remove_collection(self, tenant, collection):
        self.both(lambda store: store.remove(tenant, collection))

    @rule(tenant=TENANTS, collection=COLLECTIONS, names=st.sets(NAMES), back=st.integers(0, 3))
    def attach(self, tenant, collection, names, back):
        seen = self.stores[0].head(tenant, collection) - back
        values = {name: name.encode() for name in names}
        self.both(lambda store: store.attach(tenant, collection, "k", values, seen=seen))

    @rule(tenant=TENANTS, id=NAMES, content=WORDS, trust=st.sampled_from([0.1, 0.9]))
    def save_fact(self, tenant, id, content, trust):
        self.both(lambda store: store.save_fact(tenant, Fact(id, content, trust=trust)))

    @rule(tenant=TENANTS, id=NAMES)
    def amend_fact(self, tenant, id):
        self.both(lambda store: store.amend_fact(tenant, id, lambda f: replace(f, recalled=1)))

    @rule(tenant=TENANTS, id=NAMES)
    def forget(self, tenant, id):
        self.both(lambda store: store.forget(tenant, id))

    @rule(tenant=TENANTS, ends=st.tuples(NAMES, NAMES, NAMES), weight=st.sampled_from([0.2, 1.0]))
    def link(self, tenant, ends, weight):
        self.both(lambda store: store.link(tenant, [Edge(*ends, weight)]))

    @rule(tenant=TENANTS, ends=st.tuples(NAMES, NAMES, NAMES))
    def unlink(self, tenant, ends):
        self.both(lambda store: store.unlink(tenant, [Edge(*ends)]))

    @rule(tenant=TENANTS, id=NAMES, status=st.sampled_from(["approved", "rejected"]))
    def review(self, tenant, id, status):
        self.both(lambda store: store.decide(tenant, Review(id, "q", status=status)))
        self.both(lambda store: store.save_review(tenant, Review(id, "q")))

    @rule(tenant=TENANTS, id=st.sampled_from("123456"), created=st.sampled_from([1.0, 5.0]))
    def keep_trace(self, tenant, id, created):
        if self.stores[0].trace(tenant, id) is None:
            one = trace(id, tenant=tenant, created=created)
            self.both(lambda store: store.save_trace(one, keep=3, age_s=3.0))

    @invariant()
    def they_answer_the_same(self):
        names = ["a", "b", "c", "a#0", "a#1", "a#2", "b#0", "none"]
        for tenant in ("t", "u"):
            self.both(lambda store, t=tenant: dict(store.collections(t)))
            self.both(lambda store, t=tenant: store.touching(t, names, limit=2))
            self.both(lambda store, t=tenant: store.facts(t))
            self.both(lambda store, t=tenant: store.fact_changes(t, 2))
            self.both(lambda store, t=tenant: store.reviews(t))
            self.both(lambda store, t=tenant: store.traces(t))
            for name in ("main", "other"):
                self.both(lambda store, t=tenant, c=name: list(store.scan(t, c)))
                self.both(lambda store, t=tenant, c=name: store.chunks(t, c, names))
                self.both(lambda store, t=tenant, c=name: dict(store.digests(t, c)))
                self.both(lambda store, t=tenant, c=name: store.head(t, c))
                self.both(lambda store, t=tenant, c=name: store.changes(t, c, 3, 4))
                self.both(lambda store, t=tenant, c=name: store.attached(t, c, "k", names))

    @invariant()
    def the_feed_leads_to_what_is_there(self):
        for store in self.stores:
            for tenant in ("t", "u"):
                held = {chunk.id: chunk for chunk in store.scan(tenant, "main")}
                assert follow(store, tenant, "main") == held

    def teardown(self):
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
