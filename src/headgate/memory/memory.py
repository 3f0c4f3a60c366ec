"""Memory: everything that can be recalled for a request, as candidates.

Facts come out of the store with relevance · trust; a provider, which may be slow, is waited for up to its deadline, and
its paragraphs come with the trust in it. Both obey the plan, and who was left out is said.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from headgate.memory.facts import FactsPolicy, Notebook
from headgate.memory.provider_pool import ProviderPool
from headgate.memory.providers import candidates, declined, prefetch_all
from headgate.protocols import Clock, FactStore
from headgate.types import Plan, Request, Sifted

NOTEBOOKS = (
    256  # tenants whose facts are kept at hand; those of others are read again when asked for
)


@dataclass(frozen=True, slots=True)
class Recollection:
    """What providers said, and which were left out and why."""

    sifted: Sifted = field(default_factory=Sifted)
    degraded: tuple[str, ...] = ()


class Memory:
    """The memory of all tenants of one store. Safe to share between threads."""

    def __init__(
        self,
        store: FactStore,
        panel: ProviderPool | None = None,
        facts: FactsPolicy | None = None,
        *,
        clock: Clock = time.time,
    ) -> None:
        self.panel = panel or ProviderPool()
        self._store = store
        self._facts = facts or FactsPolicy()
        self._clock = clock
        self._lock = Lock()
        self._notebooks: OrderedDict[str, Notebook] = OrderedDict()

    def notebook(self, tenant: str) -> Notebook:
        """The facts of a tenant."""
        with self._lock:
            held = self._notebooks.pop(tenant, None)
            held = held or Notebook(self._store, tenant, self._facts, clock=self._clock)
            self._notebooks[tenant] = held
            if len(self._notebooks) > NOTEBOOKS:
                self._notebooks.popitem(last=False)
            return held

    def facts(self, request: Request, plan: Plan) -> Sifted:
        """What the tenant's facts hold for a request, within the plan."""
        if declined(request.query, plan):
            return Sifted()
        return self.notebook(request.tenant).recall(request.query, plan)

    async def answers(self, request: Request, plan: Plan) -> Recollection:
        """What the providers say to a request, within the plan."""
        recalled = await prefetch_all(request.query, self.panel, plan, session_id=request.session)
        return Recollection(candidates(recalled, self.panel.policy, plan), recalled.degraded)

    def close(self) -> None:
        """Let the providers' event loops go."""
        self.panel.close()
