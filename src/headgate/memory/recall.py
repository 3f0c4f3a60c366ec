"""Memory: everything that can be recalled for a request, as candidates.

Facts of the store and the answers of the providers are asked for at the same time. Facts come with
relevance · trust, a provider's paragraphs with the trust in it; both obey the plan, and who was left out is said.
"""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from headgate.memory.facts import FactsPolicy, Notebook
from headgate.memory.panel import Panel
from headgate.memory.providers import candidates, declined, prefetch_all
from headgate.protocols import Clock, Facts
from headgate.types import Plan, Request, Sifted

NOTEBOOKS = (
    256  # tenants whose facts are kept at hand; those of others are read again when asked for
)


@dataclass(frozen=True, slots=True)
class Recollection:
    """What was recalled, and which providers were left out and why."""

    sifted: Sifted = field(default_factory=Sifted)
    degraded: tuple[str, ...] = ()


class Memory:
    """The memory of all tenants of one store. Safe to share between threads."""

    def __init__(
        self,
        store: Facts,
        panel: Panel | None = None,
        facts: FactsPolicy | None = None,
        *,
        clock: Clock = time.time,
    ) -> None:
        self.panel = panel or Panel()
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

    async def recall(self, request: Request, plan: Plan) -> Recollection:
        """What memory holds for a request, within the plan."""
        if declined(request.query, plan):
            return Recollection()
        facts, recalled = await asyncio.gather(
            asyncio.to_thread(self.notebook(request.tenant).recall, request.query, plan),
            prefetch_all(request.query, self.panel, plan, session_id=request.session),
        )
        said = candidates(recalled, self.panel.policy, plan)
        return Recollection(_joined(facts, said), recalled.degraded)

    def close(self) -> None:
        """Let the providers' event loops go."""
        self.panel.close()


def _joined(one: Sifted, other: Sifted) -> Sifted:
    kept = sorted((*one.kept, *other.kept), key=lambda c: -c.score)
    dropped, added = (*one.dropped, *other.dropped), (*one.added, *other.added)
    return Sifted(kept=tuple(kept), dropped=dropped, added=added)
