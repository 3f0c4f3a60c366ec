"""Memory: facts and provider answers for a request, as candidates.

Facts come from the store and score relevance · trust. A provider may be slow, so it is waited for up to its deadline;
its passages score the trust in the provider. Both keep to the plan, and a provider that was left out is named.
"""

import time
from collections import OrderedDict
from threading import Lock

from millgate.knowledge.facts import Facts, FactsPolicy
from millgate.knowledge.injected import Injected
from millgate.knowledge.providers import ProviderPool, Recollection, prefetch_all, reason_not_to_ask
from millgate.protocols import Clock, Store
from millgate.types import Plan, Request, Sifted

TENANTS_HELD = 256  # tenants whose facts stay in memory; those of others are read again when needed


class Memory:
    """The memory of all tenants of one store. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        providers: ProviderPool | None = None,
        policy: FactsPolicy | None = None,
        *,
        clock: Clock = time.time,
    ) -> None:
        self.providers = providers or ProviderPool()
        self.injected = Injected(store)
        self._store = store
        self._policy = policy or FactsPolicy()
        self._clock = clock
        self._lock = Lock()
        self._held: OrderedDict[str, Facts] = OrderedDict()

    def facts(self, tenant: str) -> Facts:
        """The facts of a tenant."""
        with self._lock:
            held = self._held.pop(tenant, None) or Facts(
                self._store, tenant, self._policy, clock=self._clock, injected=self.injected
            )
            self._held[tenant] = held
            if len(self._held) > TENANTS_HELD:
                self._held.popitem(last=False)
            return held

    def recall_facts(self, request: Request, plan: Plan) -> Sifted:
        """The tenant's facts that fit a request, within the plan."""
        if reason_not_to_ask(request.query, plan):
            return Sifted()
        return self.facts(request.tenant).recall(request.query, plan)

    async def ask_providers(self, request: Request, plan: Plan) -> Recollection:
        """The providers' answers to a request, within the plan."""
        return await prefetch_all(
            request.query,
            self.providers,
            plan,
            tenant=request.tenant,
            session_id=request.session,
        )

    def close(self) -> None:
        """Close the providers."""
        self.providers.close()
