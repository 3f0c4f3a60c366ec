"""MillgateMemory: the memory provider.

Before a turn it gives the facts that fit, each with its id so that the agent can rate it, and a block of passages and
turns. After a turn it keeps what was said. Each user of a gateway is a tenant of their own. What agents do on
their own account (cron, subagents) is not remembered. The fuller the window, the less it gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

from millgate.errors import MillgateError
from millgate.gateway import Millgate
from millgate.integrations.blocks import LOGGER, Asking, Blocks
from millgate.integrations.hermes.host import (
    Message,
    PressureAware,
    Store,
    agent_behind,
    as_sent,
    plan_recall,
    read_window,
)
from millgate.integrations.hermes.sessions import memories, window_of
from millgate.integrations.hermes.tools import TOOLS, call
from millgate.knowledge.facts import FactHit
from millgate.sessions.conversation import Conversation
from millgate.text.fence import fence, fence_secret, quote
from millgate.text.wanted import asks_nothing
from millgate.types import ContextBudget, Plan, fact_key

PROMPT = (
    "# Millgate memory\n"
    "Facts and passages that fit a question are added to it as reference data. Keep what should last with fact_store, "
    "rate a fact you used with fact_feedback, and ask context_strategy how to load large content."
)


@dataclass(frozen=True, slots=True)
class RecallStatus:
    """What the last prefetch gave, for hermes-agent's status line."""

    provider_label: str
    count: int
    glyph: str = "🧠"


class MillgateMemory(PressureAware):
    """Millgate as the memory of hermes-agent; over a gate of yours, a path, or a store in hermes-agent's home.

    The fuller the window, the less it gives, and nothing if the window is full. Without `set_context_budget` it asks
    the engine, which knows the window in the same process.
    """

    name = "millgate"

    def __init__(
        self,
        gate: Millgate | None = None,
        *,
        path: str | Path | None = None,
        budget: int = 1000,
        collection: str | Sequence[str] = ("main", "turns"),
    ) -> None:
        self._store = Store(gate, path)
        self._budget, self._collection = budget, collection
        self._session, self._keeps, self._recalled = "", True, 0
        self._agent: ref[Any] | None = None
        self._seen: Sequence[str] = ()
        self._kept_as = ""
        self._blocks: Blocks | None = None
        self._conversation: Conversation | None = None

    @property
    def gate(self) -> Millgate | None:
        """The gate of the session's tenant; None before it is open."""
        return self._store.gate

    def is_available(self) -> bool:
        """Always: nothing has to be set up."""
        return True

    def initialize(self, session_id: str = "", **details: Any) -> None:
        """Open the store for a session; `tenant` or `user_id` says whose memory it is."""
        tenant = str(details.get("tenant") or details.get("user_id") or "")
        self._store.open(hermes_home=str(details.get("hermes_home") or ""), tenant=tenant)
        self._session = self._kept_as = session_id
        self._keeps = details.get("agent_context", "primary") == "primary"
        agent = agent_behind(details)
        self._agent = None if agent is None else ref(agent)
        memories[session_id] = self

    def see(self, texts: Sequence[str], messages: Sequence[Message]) -> None:
        """What the model sees in the coming turn: nothing of it is recalled again, and what left it is missed."""
        self._seen = texts
        self._observe(messages)

    def _observe(self, messages: Sequence[Message]) -> None:
        gate = self._store.gate
        if gate is None or not self._keeps:
            return
        if self._blocks is None or self._blocks.gate is not gate:
            self._blocks = Blocks(gate, Asking(self._budget, remember=True))
        self._conversation = self._blocks.observe(messages, session=self._kept_as or "hermes")

    def _read_window(self, session: str) -> ContextBudget | None:
        """How full the window is: what was told, else what the session's engine or the agent's own knows."""
        if self._window is not None:
            return self._window
        if (known := window_of(session)) is not None:
            return known
        agent = self._agent() if self._agent else None
        engine = getattr(agent, "context_compressor", None)
        enabled = bool(getattr(agent, "compression_enabled", True))
        return read_window(engine, compression_enabled=enabled)

    def prefetch(
        self,
        query: str,
        *,
        session_id: str = "",
        limit: int | None = None,
        min_trust: float | None = None,
    ) -> str:
        """The facts and the block for a question; "" for greetings, and if nothing fits.

        The first question after a compression also gets what the user said that the summary does not say.
        """
        gate, self._recalled = self._store.gate, 0
        lost = self._blocks.put_back(self._conversation) if self._blocks else ""
        if gate is None or asks_nothing(query):
            return lost
        session = session_id or self._session
        window = self._read_window(session)
        plan = plan_recall(query, window)
        if plan is not None and not plan.prefetch:
            return lost
        hits = recall_within(gate, query, plan, limit=limit, min_trust=min_trust)
        context = gate.context(
            query, window=[*self._seen, lost, *(hit.fact.content for hit in hits)], budget=self._budget,
            collection=self._existing_collections(gate), session=session, context_budget=window,
        )  # fmt: skip
        found = context.text if context.is_worth_adding else ""
        self._recalled = len(hits) + (len(context.chunks) if found else 0)
        return "\n\n".join(part for part in (lost, _facts(gate, hits), found) if part)

    def recall_status(self) -> RecallStatus | None:
        """How much the last prefetch gave; None for nothing."""
        return RecallStatus("Millgate", self._recalled) if self._recalled else None

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        """Keep what was said in a turn."""
        turns = (("user", user_content), ("assistant", assistant_content))
        self._keep([{"role": role, "content": text} for role, text in turns if text], session_id)

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Keep what is about to leave the window; the summary needs nothing from here."""
        self._keep([m for m in messages if m.get("role") in ("user", "assistant")], "")
        self._observe([as_sent(message) for message in messages])
        return ""

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """What the built-in memory tool writes is a fact here too."""
        gate = self._store.gate
        if gate is None or not self._keeps:
            return
        former = fact_key(str((metadata or {}).get("previous_content") or ""))
        for fact in gate.facts.all() if former else ():
            if fact.key == former:
                gate.facts.forget(fact.id)
        if content and action in ("add", "replace"):
            gate.remember(content, category="user_pref" if target == "user" else "general")

    def on_session_switch(self, new_session_id: str, **told: Any) -> None:
        """The agent goes on in another session; after a compression it is the same conversation."""
        self._session = new_session_id
        if told.get("reason") != "compression":
            self._kept_as = new_session_id
        memories[new_session_id] = self

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Nothing: a prefetch takes milliseconds."""

    def system_prompt_block(self) -> str:
        """What the agent is told of it, once."""
        return PROMPT

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """fact_store, fact_feedback and context_strategy."""
        return [dict(tool) for tool in TOOLS.values()]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **_told: Any) -> str:
        """The result of a call, as JSON."""
        gate = self._store.gate or self._store.open()
        return call(gate, tool_name, args)

    def shutdown(self) -> None:
        """Close the store, unless it was given."""
        self._store.close()

    def _keep(self, messages: Sequence[Message], session_id: str) -> None:
        gate = self._store.gate
        if gate is None or not self._keeps:
            return
        try:
            gate.add_turns(session_id or self._session or "hermes", messages)
        except MillgateError as error:
            LOGGER.warning("a turn was not kept: %s", error)

    def _existing_collections(self, gate: Millgate) -> str | Sequence[str]:
        """The collections that exist, so that an empty memory is not asked; the first name if none does."""
        names = [self._collection] if isinstance(self._collection, str) else self._collection
        there = gate.collections()
        return [name for name in names if name in there] or names[0]


def recall_within(
    gate: Millgate,
    query: str,
    plan: Plan | None,
    *,
    limit: int | None,
    min_trust: float | None,
) -> Sequence[FactHit]:
    """The facts that a window has room for: the fuller it is, the fewer, and the more they must be trusted."""
    if plan is not None:
        if plan.limit is not None:
            limit = plan.limit if limit is None else min(limit, plan.limit)
        min_trust = max(min_trust or 0.0, plan.min_trust or 0.0)
    return gate.recall(query, limit=limit, min_trust=min_trust)


def _facts(gate: Millgate, hits: Sequence[FactHit]) -> str:
    """Facts as a list inside a fence that none of them can close."""
    if not hits:
        return ""
    rows = [f"- {quote(h.fact.content)} (id {h.fact.id}, trust {h.fact.trust:.2f})" for h in hits]
    return fence("\n".join(rows), fence_secret(gate.store.secret(gate.tenant)))
