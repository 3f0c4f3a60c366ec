"""Trace upkeep: old traces go, in a thread of its own, so that no trace waits to be written meanwhile. With those of
their age goes what left the windows of sessions.

A tenant's own traces are looked at when it has written a hundred. All tenants are gone through when the store is opened
and once an hour. If gateways share a store, the first of them to come does that for all.
"""

import time
from collections.abc import Iterable
from itertools import takewhile
from threading import Condition, Thread

from millgate.calls.bugs import EXPECTED, LOGGER, describe, report
from millgate.protocols import Clock, SharedUpkeepStore, Store, TenantListStore, TenantTraceStore
from millgate.text.cache import Cache
from millgate.types import Chunk
from millgate.types.policy import TracePolicy

EVERY_S = 3600.0  # between two rounds over all tenants
TRACES = 100  # of a tenant, after which it is looked at early: within the hour it may exceed its bytes by so many
# Seconds after which a gateway that is still going through the tenants says so to the others. Chosen, not measured.
_RENEW_S = 60.0
KEPT = "session"
"""How collections of what left the window of a session are named: `session:NAME`, or `session@KEY:NAME`."""
_COUNTED_BYTES = (
    4 << 20
)  # of counts of traces by tenant, some ten thousand; for those beyond there is the round
_MOST_DUE = 10_000  # tenants that wait to be looked at; again, the round finds those beyond


class TraceUpkeep:
    """The thread that prunes traces by a policy. It starts with the first trace, or with `start`."""

    def __init__(
        self,
        store: Store,
        policy: TracePolicy,
        *,
        tenant: str = "default",
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._policy = policy
        self._tenant = tenant
        self._clock = clock
        self._written: Cache[str, int] = Cache(_COUNTED_BYTES, lambda name, _: len(name))
        self._due: dict[str, None] = {}
        self._changed = Condition()
        self._thread: Thread | None = None
        self._round_done = False
        self._closing = False

    def start(self) -> None:
        """Start the thread, which begins with a round over all tenants."""
        with self._changed:
            if self._thread is None and not self._closing:
                self._thread = Thread(target=self._run, name="millgate-upkeep", daemon=True)
                self._thread.start()

    def note(self, tenants: Iterable[str]) -> None:
        """Count traces that were written, each by its tenant."""
        for tenant in tenants:
            written = (self._written.get(tenant) or 0) + 1
            self._written.put(tenant, written % TRACES)
            if written == TRACES and len(self._due) < _MOST_DUE:
                with self._changed:
                    self._due[tenant] = None
                    self._changed.notify_all()
        self.start()

    def wait_for_first(self, timeout_s: float = 5.0) -> None:
        """Wait for the round at the start, if it was begun and the store is this process's alone."""
        if isinstance(self._store, SharedUpkeepStore) or self._thread is None:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._round_done or self._closing, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop after the tenant that it is at."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        next_round = 0.0
        while not self._closing:
            if time.monotonic() >= next_round:
                next_round = time.monotonic() + EVERY_S
                self._attempt(None)
                with self._changed:
                    self._round_done = True
                    self._changed.notify_all()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._due or self._closing, next_round - time.monotonic()
                )
                due, self._due = self._due, {}
            for tenant in due:
                if not self._closing:
                    self._attempt(tenant)

    def _attempt(self, tenant: str | None) -> None:
        """Prune the traces of a tenant, or of all; what fails is logged and comes again with the next round."""
        store, policy = self._store, self._policy
        limits = {"keep": policy.keep, "max_bytes": policy.max_bytes}
        try:
            if tenant is not None and isinstance(store, TenantTraceStore):
                store.prune_tenant_traces(tenant, **limits)
            elif isinstance(store, SharedUpkeepStore):
                self._prune_in_turn(store)
            else:
                store.prune_traces(age_s=policy.age_s, **limits)
                before = policy.age_s and self._clock() - policy.age_s
                names = store.tenants() if isinstance(store, TenantListStore) else [self._tenant]
                for name in names if before else ():
                    if not self._closing:
                        drop_kept(store, name, before=before)
        except EXPECTED as error:
            LOGGER.warning("old traces are not pruned: %s", describe(error))
        except Exception as error:  # noqa: BLE001  a bug: logged, and the thread goes on
            report(error, "trace upkeep")

    def _prune_in_turn(self, store: SharedUpkeepStore) -> None:
        """Go through all tenants, if no other gateway has within the hour; a tenant that fails costs itself."""
        policy, now = self._policy, store.lease_upkeep(EVERY_S)
        if now is None:
            return
        after = None if policy.age_s is None else now - policy.age_s
        failed, leased = "", time.monotonic()
        for tenant in store.tenants():
            if self._closing:
                return
            if time.monotonic() - leased > _RENEW_S:
                leased = time.monotonic()
                if store.lease_upkeep(0.0) is None:  # another gateway goes on
                    return
            try:
                store.prune_tenant_traces(
                    tenant, keep=policy.keep, created_after=after, max_bytes=policy.max_bytes
                )
                drop_kept(self._store, tenant, before=after)
            except EXPECTED as error:
                failed = describe(error)
        if failed:
            LOGGER.warning("old traces of some tenants are not pruned: %s", failed)


def drop_kept(store: Store, tenant: str, *, before: float | None) -> None:
    """Remove what left the windows of sessions and was stored before a time; without one nothing goes."""
    if before is None:
        return
    for name in store.collections(tenant):
        if name.startswith((f"{KEPT}:", f"{KEPT}@")):
            # what was stored first stands first, and keeps its time
            chunks = takewhile(lambda c: _kept_at(c, before) < before, store.scan(tenant, name))
            if old := list(dict.fromkeys(chunk.document for chunk in chunks)):
                store.remove(tenant, name, documents=old)


def _kept_at(chunk: Chunk, default: float) -> float:
    kept = chunk.metadata.get("kept")
    return kept if isinstance(kept, int | float) else default
