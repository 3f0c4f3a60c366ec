"""The memory and the context engine of hermes-agent.

MillgateMemory is the memory provider. Before a turn it gives the facts that fit, each with its id so that the agent can
rate it, and a block of passages and turns. After a turn it keeps what was said. Each user of a gateway is a tenant of
their own. What agents do on their own account (cron, subagents) is not remembered. The fuller the window, the less it
gives.

MillgateEngine is the context engine. What leaves the window is kept as turns, and comes back when a question is about
it. `compress` keeps the system prompt, the first and the last messages as they are, and moves the rest into the store.
No model is asked and nothing is summarized away. How it comes back depends on hermes-agent:

- One that calls `select_context` gets a block of passages and turns in front of each question, the same block in every
  later request.
- One that does not (0.19) gets what the moved messages say about the question in their place. With each later question
  the memory gives what it is about, or, without it, the plugin's hook (`recall_for_question`).

hermes-agent makes both and tells neither of the other, so they find each other by the agent's session. The engine knows
how full the window is, which the memory must heed; the memory knows whose store it is, which the engine must not leave.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary, ref

from millgate.errors import MillgateError
from millgate.gateway import Millgate
from millgate.integrations.blocks import LOGGER, Asking, Blocks
from millgate.integrations.hermes.tools import TOOLS, call
from millgate.pipeline.stages.decide import DecidePolicy, decide
from millgate.sessions.compaction.account import Item, account
from millgate.sessions.compaction.window import Compaction
from millgate.sessions.compaction.window import read_window as read_messages
from millgate.sessions.conversation import Conversation
from millgate.text.fence import fence, fence_secret, quote
from millgate.text.wanted import asks_nothing
from millgate.transcript.parts import question_of, read, texts_of
from millgate.types import ContextBudget, Plan, Request, fact_key

T = TypeVar("T")
Message = dict[str, Any]

PROMPT = (
    "# Millgate memory\n"
    "Facts and passages that fit a question are added to it as reference data. Keep what should last with fact_store, "
    "rate a fact you used with fact_feedback, and ask context_strategy how to load large content."
)
NOTE = (
    "[{count} earlier messages were moved to memory. What a question is about is recalled with it.]"
)
RECALLED = "[{count} earlier messages were moved to memory. What they say about the question:]"
MOVED = "[{count} earlier messages were moved to memory.]"

_IS_NOTE = re.compile(r"\[\d+ earlier messages were moved to memory")


engines: "WeakValueDictionary[str, MillgateEngine]" = WeakValueDictionary()
"""The engine of each session; it is not kept alive from here."""
memories: "WeakValueDictionary[str, MillgateMemory]" = WeakValueDictionary()
"""The memory of each session; it is not kept alive from here."""


def as_sent(message: Message) -> Message:
    """A message as the model gets it: with what was injected, which hermes-agent keeps beside it."""
    return {**message, "content": message.get("api_content") or message.get("content")}


def host_class(own: type[T], module: str, name: str) -> type[T]:
    """The class as a subclass of hermes-agent's too, with its optional hooks; itself if that is missing."""
    try:
        base = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return own
    return type(own.__name__, (own, base), {})


def read_window(engine: Any, *, compression_enabled: bool) -> ContextBudget | None:
    """How full the window is that a context engine looks after, of hermes-agent's own or of ours; None if unknown."""
    length = getattr(engine, "context_length", 0)
    if not isinstance(length, int) or length <= 0:
        return None
    used = getattr(engine, "last_prompt_tokens", 0)
    if used < 0:  # the conversation was just compressed: what hermes-agent then estimates
        used = getattr(engine, "last_compression_rough_tokens", 0)
    threshold = getattr(engine, "threshold_tokens", 0)
    return ContextBudget(
        length, int(used), max(0, int(threshold)), compression_enabled=compression_enabled
    )


class PressureAware:
    """What a memory manager or provider needs to heed the window: `set_context_budget`, which its host calls."""

    _window: ContextBudget | None = None

    def set_context_budget(
        self,
        context_length: int | ContextBudget | None = None,
        used_tokens: int = 0,
        threshold_tokens: int = 0,
        compression_enabled: bool = True,  # noqa: FBT001, FBT002  the published signature
    ) -> None:
        """Say how full the window is, by its numbers or as one value; nothing at all if it is not known.

        For example: `memory.set_context_budget(context_length=200_000, used_tokens=50_000, threshold_tokens=150_000)`.
        """
        if isinstance(context_length, ContextBudget) or context_length is None:
            self._window = context_length
        else:
            self._window = ContextBudget(
                context_length, used_tokens, threshold_tokens, compression_enabled
            )


def plan_recall(query: str, window: ContextBudget | None) -> Plan:
    """What a window has room for, as far as it is known. Without `prefetch` nothing is recalled at all."""
    plan = decide(Request(query, context_budget=window), DecidePolicy())
    return replace(plan, prefetch=window is None or (plan.prefetch and not plan.skip))


class Store:
    """A gate that was given, or one that is opened with the first session and closed at the end."""

    def __init__(self, gate: Millgate | None = None, path: str | Path | None = None) -> None:
        self._given, self._path = gate, path
        self._opened: Millgate | None = None
        self.gate: Millgate | None = gate

    def copy(self) -> "Store":
        """The same place, opened on its own."""
        return Store(self._given, self._path)

    def open(self, *, hermes_home: str = "", tenant: str = "") -> Millgate:
        """The gate of a tenant; without a path the store is the folder `millgate` in hermes-agent's home."""
        root = self._given or self._opened
        if root is None:
            home = Path(hermes_home, "millgate") if hermes_home else None
            root = self._opened = Millgate.open(self._path or home)
        self.gate = root.for_tenant(tenant) if tenant and tenant != root.tenant else root
        return self.gate

    def close(self) -> None:
        """Close what was opened here."""
        opened, self._opened = self._opened, None
        self.gate = self._given
        if opened is not None:
            opened.close()


# The memory


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
        # on the command line the callbacks of the agent that starts a memory are among the details
        callback = details.get("status_callback") or details.get("warning_callback")
        agent = getattr(callback, "__self__", None)
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
        if (ours := engines.get(session)) is not None and (known := ours.window()) is not None:
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
        if not plan.prefetch:
            return lost
        if window is not None:  # the fuller it is, the fewer, and the more they must be trusted
            most = (one for one in (limit, plan.limit) if one is not None)
            limit, min_trust = min(most, default=None), max(min_trust or 0.0, plan.min_trust or 0.0)
        hits = gate.recall(query, limit=limit, min_trust=min_trust)
        rows = [
            f"- {quote(h.fact.content)} (id {h.fact.id}, trust {h.fact.trust:.2f})" for h in hits
        ]
        facts = fence("\n".join(rows), fence_secret(gate.store.secret(gate.tenant))) if rows else ""
        context = gate.context(
            query, window=[*self._seen, lost, *(hit.fact.content for hit in hits)], budget=self._budget,
            collection=self._existing_collections(gate), session=session, context_budget=window,
        )  # fmt: skip
        found = context.text if context.is_worth_adding else ""
        self._recalled = len(hits) + (len(context.chunks) if found else 0)
        return "\n\n".join(part for part in (lost, facts, found) if part)

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


# The engine


class MillgateEngine:
    """Millgate as the context engine of hermes-agent, over a gate of yours, a path, or a store in its home."""

    name = "millgate"
    last_prompt_tokens = last_completion_tokens = last_total_tokens = 0
    threshold_tokens = context_length = compression_count = 0
    threshold_percent = 0.75
    protect_first_n = 3
    protect_last_n = 6

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
        self._blocks: Blocks | None = None
        self._session = ""
        self._memory: ref[MillgateMemory] | None = None
        self._selects = False
        self._compression_enabled = True
        self._carried: tuple[Item, ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> "MillgateEngine":
        """A copy with counts of its own over a store of its own: hermes-agent gives one to every agent."""
        copied = copy.copy(self)
        vars(copied).update(_store=self._store.copy(), _blocks=None, _memory=None, _carried=())
        return copied

    def on_session_start(self, session_id: str, **details: Any) -> None:
        """Find the store of a session: the memory's if the agent has ours, else one for who is talking."""
        former = str(details.get("old_session_id") or "")
        memory = memories.get(session_id) or memories.get(former)
        self._session, self._blocks = session_id, None
        self._memory = None if memory is None else ref(memory)
        self._compression_enabled = _is_compression_enabled()
        engines[session_id] = self
        goes_on = self._gate is not None and details.get("boundary_reason") == "compression"
        if not goes_on and self._shared is None:  # each conversation of a gateway is a tenant
            who = (details.get(name) for name in ("tenant", "user_id", "conversation_id"))
            self._store.open(
                hermes_home=str(details.get("hermes_home") or ""),
                tenant=next((str(one) for one in who if one), ""),
            )

    @property
    def _shared(self) -> Millgate | None:
        """The gate of the agent's memory, if that is ours and open."""
        memory = self._memory() if self._memory else None
        return None if memory is None else memory.gate

    @property
    def _gate(self) -> Millgate | None:
        return self._shared or self._store.gate

    def window(self) -> ContextBudget | None:
        """How full the window is; None before the model is known."""
        return read_window(self, compression_enabled=self._compression_enabled)

    def on_session_reset(self) -> None:
        """Count anew."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = 0

    def on_session_end(self, session_id: str, messages: Sequence[Message]) -> None:
        """Close the store, unless it was given."""
        self._store.close()

    def update_model(self, model: str, context_length: int, *_: Any, **_told: Any) -> None:
        """Another model: another window."""
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """What the last call used."""
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = int(usage.get("total_tokens") or 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the window is filled up to the threshold."""
        used = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return bool(self.threshold_tokens) and used >= self.threshold_tokens

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        """Whether there is a middle that could leave."""
        first, last = self._middle(messages)
        return last > first

    def compress(
        self,
        messages: list[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        **_told: Any,
    ) -> list[Message]:
        """The conversation without its middle, which is kept as turns; as it was if that cannot be."""
        first, last = self._middle(messages)
        moved = messages[first:last]
        gate = self._gate
        if gate is None or not moved:
            return messages
        try:
            gate.add_turns(self._session or "hermes", [m for m in moved if m.get("content")])
        except MillgateError as error:
            LOGGER.warning("the conversation was not compressed: %s", error)
            return messages
        self.compression_count += 1
        stays = [*messages[:first], *messages[last:]]
        said = self._compose_lost(gate, moved, stays)
        note = self._note(gate, len(moved), stays, focus_topic or "", said)
        return [*messages[:first], {"role": "user", "content": note}, *messages[last:]]

    def _compose_lost(
        self, gate: Millgate, moved: Sequence[Message], stays: Sequence[Message]
    ) -> str:
        """The block of what the user said in moved messages; our own notes are nobody's word."""
        kept = (m for m in moved if not _IS_NOTE.match(str(m.get("content"))))
        found = Compaction("trimmed", read_messages(kept).messages)
        told = account(found, read_messages(stays), carried=self._carried)
        self._carried = told.owed
        return gate.lost_messages.compose_instructions(told, budget=self._budget // 2)

    def _note(
        self, gate: Millgate, count: int, stays: Sequence[Message], focus: str, said: str
    ) -> str:
        """What stands in the place of moved messages: how many they were, and what they say about the question.

        An agent that calls `select_context` gets the latter with each question, and here only for a focus.
        """
        asked = [question for message in stays if (question := question_of(read(message)))]
        question = focus or ("" if self._selects else next(reversed(asked), ""))
        block = ""
        if question:
            texts = [text for message in stays for text in texts_of(message)]
            block = self._find_blocks(gate).find(question, [*texts, said, question])
        note = NOTE if self._selects else RECALLED if block else MOVED
        return "\n\n".join(part for part in (note.format(count=count), said, block) if part)

    def recall(self, question: str, texts: Sequence[str]) -> str:
        """The block for a question, if nothing else brings one: no `select_context`, and no memory of ours."""
        gate = self._store.gate
        if self._selects or self._shared is not None or gate is None or asks_nothing(question):
            return ""
        window = self.window()
        used = window.used_tokens if window else 0
        return self._find_blocks(gate).find(
            question,
            [*texts, question],
            used_tokens=used,
            wanted=plan_recall(question, window).prefetch,
        )

    def select_context(
        self,
        request_messages: list[Message],
        *,
        conversation_messages: Sequence[Message] | None = None,
        incoming_message: Message | None = None,
        budget_tokens: int = 0,
    ) -> list[Message] | None:
        """The request with a block in front of each question; None if there is none."""
        self._selects = True
        gate = self._gate
        if gate is None:
            return None
        blocks, block = self._find_blocks(gate, budget_tokens), ""
        placed = blocks.place(request_messages)
        if placed.question:
            window = self.window()
            if budget_tokens:
                window = ContextBudget(budget_tokens, sum(map(gate.count_tokens, placed.texts)))
            block = blocks.find(
                placed.question, placed.texts,
                used_tokens=window.used_tokens if window else 0,
                wanted=plan_recall(placed.question, window).prefetch,
            )  # fmt: skip
        selected = placed.with_block(block)
        return selected if len(selected) > len(request_messages) else None

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """None: the plugin offers context_strategy to every agent."""
        return []

    def get_status(self) -> dict[str, Any]:
        """The numbers that hermes-agent shows."""
        used = max(self.last_prompt_tokens, 0)
        share = min(100.0, 100 * used / self.context_length) if self.context_length else 0
        return {
            "last_prompt_tokens": used, "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length, "usage_percent": share,
            "compression_count": self.compression_count,
        }  # fmt: skip

    def _middle(self, messages: Sequence[Message]) -> tuple[int, int]:
        """From where to where messages may go: no result of a tool is parted from its call."""
        leading = list(takewhile(lambda message: message.get("role") == "system", messages))
        first = len(leading) + self.protect_first_n
        last = max(first, len(messages) - self.protect_last_n)
        while first < last and messages[first].get("role") == "tool":
            first += 1
        while last > first and messages[min(last, len(messages) - 1)].get("role") == "tool":
            last -= 1
        return first, last

    def _find_blocks(self, gate: Millgate, context_length: int = 0) -> Blocks:
        if self._blocks is None or self._blocks.gate is not gate:
            self._blocks = Blocks(gate)
        self._blocks.asking = Asking(
            self._budget, self._collection, self._session, context_length or self.context_length
        )
        return self._blocks


def recall_for_question(
    session_id: str = "",
    user_message: Any = "",
    conversation_history: Sequence[Message] = (),
    **_told: Any,
) -> dict[str, str] | None:
    """hermes-agent's hook before a turn: what the session's engine recalls for it; None for nothing.

    The memory of the session, which is asked afterwards, hears what the model sees.
    """
    sent = [as_sent(message) for message in conversation_history]
    texts = [text for message in sent for text in texts_of(message)]
    if (memory := memories.get(session_id)) is not None:
        memory.see(texts, sent)
    engine = engines.get(session_id)
    if engine is None or not isinstance(user_message, str):
        return None
    block = engine.recall(user_message, texts)
    return {"context": block} if block else None


def _is_compression_enabled() -> bool:
    """Whether hermes-agent compresses by itself, by its configuration; true if that cannot be read."""
    try:
        config = import_module("hermes_cli.config").load_config()
        enabled = config["compression"]["enabled"]
    except (ImportError, AttributeError, KeyError, TypeError, OSError, ValueError):
        return True
    return str(enabled).lower() in ("true", "1", "yes")
