"""Old traces go in a thread of their own: a tenant's after a hundred, everybody's once an hour."""

import threading

import pytest
from tests.stores.dictionaries import DictionaryStore
from tests.waiting import MOST_S, until

from millgate.errors import StoreError
from millgate.gateway import Millgate
from millgate.pipeline import trace_upkeep
from millgate.pipeline.trace_upkeep import TRACES, TraceUpkeep
from millgate.stores.sqlite.store import SqliteStore
from millgate.types.policy import TracePolicy

POLICY = TracePolicy(keep=7, age_s=50.0)


class Alone(DictionaryStore):
    """A store that knows only how to prune all."""

    def __init__(self):
        super().__init__()
        self.pruned = []

    def prune_traces(self, **limits):
        self.pruned.append(limits)
        return 0


class Gateways(Alone):
    """A store that gateways share; one of the others has had its turn if `taken`."""

    def __init__(self, *names, taken=False):
        super().__init__()
        self.names, self.taken, self.leases = names, taken, []

    def tenants(self):
        return list(self.names)

    def lease_upkeep(self, seconds):
        self.leases.append(seconds)
        return None if self.taken else 1000.0

    def prune_tenant_traces(self, tenant, **limits):
        self.pruned.append((tenant, limits))
        return 0


@pytest.fixture
def upkeep():
    made = []

    def make(store):
        made.append(TraceUpkeep(store, POLICY))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_all_tenants_are_pruned_at_the_start(upkeep):
    store = Alone()
    one = upkeep(store)
    one.start()
    one.wait_for_first()
    assert store.pruned == [{"keep": 7, "age_s": 50.0, "max_bytes": POLICY.max_bytes}]


def test_a_tenant_is_pruned_alone_after_a_hundred_traces_of_its_own(upkeep):
    store = Gateways("a", "b", "c", taken=True)
    one = upkeep(store)
    for tenant in ("a", "b"):
        one.note([tenant] * (TRACES - 1))
    one.note(["b"])
    until(lambda: store.pruned)
    one.note(["c"])
    one.note(["b"] * TRACES)
    until(lambda: len(store.pruned) == 2)
    assert store.pruned == [("b", {"keep": 7, "max_bytes": POLICY.max_bytes})] * 2


def test_a_store_that_prunes_only_all_is_asked_to_after_a_hundred(upkeep):
    store = Alone()
    one = upkeep(store)
    one.note("t" for _ in range(TRACES))
    until(lambda: len(store.pruned) == 2)


def test_the_gateway_whose_turn_it_is_goes_through_all_tenants_and_the_others_do_not(upkeep):
    mine, theirs = Gateways("a", "b"), Gateways("a", "b", taken=True)
    for store in (mine, theirs):
        upkeep(store).start()
    limits = {"keep": 7, "created_after": 950.0, "max_bytes": POLICY.max_bytes}
    until(lambda: mine.pruned == [("a", limits), ("b", limits)])
    until(lambda: theirs.leases == [trace_upkeep.EVERY_S])
    assert theirs.pruned == []


def test_a_long_round_is_kept_up_and_ends_if_another_gateway_took_it(upkeep, monkeypatch):
    monkeypatch.setattr(trace_upkeep, "_RENEW_S", -1.0)
    store = Gateways(*map(str, range(5)))

    def lease(seconds):
        store.leases.append(seconds)
        return 1000.0 if len(store.leases) < 4 else None

    store.lease_upkeep = lease
    upkeep(store).start()
    until(lambda: store.leases == [trace_upkeep.EVERY_S, 0.0, 0.0, 0.0])
    until(lambda: [tenant for tenant, _ in store.pruned] == ["0", "1"])


def test_a_tenant_that_cannot_be_reached_costs_itself(upkeep, caplog):
    class Half(Gateways):
        def prune_tenant_traces(self, tenant, **limits):
            if tenant == "a":
                raise StoreError("its worker is away")
            return super().prune_tenant_traces(tenant, **limits)

    store = Half("a", "b")
    upkeep(store).start()
    until(lambda: [tenant for tenant, _ in store.pruned] == ["b"])
    until(lambda: "not pruned: its worker is away" in caplog.text)


def test_what_fails_is_logged_and_the_thread_goes_on(upkeep, caplog):
    class Held(Alone):
        def prune_traces(self, **limits):
            super().prune_traces(**limits)
            raise StoreError("the store is held")

    store = Held()
    one = upkeep(store)
    one.start()
    one.wait_for_first()
    assert "old traces are not pruned: the store is held" in caplog.text
    one.note(["t"] * TRACES)
    until(lambda: len(store.pruned) == 2)


def test_traces_are_written_and_listed_while_a_round_takes_long(tmp_path):
    go = threading.Event()

    class Slow(SqliteStore):
        lease_upkeep = staticmethod(lambda seconds: 1000.0)

        def prune_tenant_traces(self, tenant, **limits):
            assert go.wait(MOST_S)
            return 0

    store = Slow(tmp_path)
    with Millgate.open(store=store) as gate:
        gate.add([{"id": "a", "text": "Refunds take 14 days."}])
        try:
            for _ in range(5):
                gate.context("how long do refunds take?")
            assert len(gate.traces()) == 5
        finally:
            go.set()


def test_a_round_stops_when_the_gate_is_closed():
    begun, go = threading.Event(), threading.Event()

    class Slow(Gateways):
        def prune_tenant_traces(self, tenant, **limits):
            begun.set()
            assert go.wait(MOST_S)
            return super().prune_tenant_traces(tenant, **limits)

    store = Slow("a", "b", "c")
    one = TraceUpkeep(store, POLICY)
    one.start()
    assert begun.wait(MOST_S)
    threading.Timer(0.05, go.set).start()
    one.close()
    assert [tenant for tenant, _ in store.pruned] == ["a"]
