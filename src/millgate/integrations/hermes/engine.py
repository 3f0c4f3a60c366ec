"""MillgateEngine: the context engine. What leaves the window is kept as turns, and comes back when a question is about
it.

`compress` keeps the system prompt, the first and the last messages as they are, and moves the rest into the
store. No model is asked and nothing is summarized away. How it comes back depends on hermes-agent:

- One that calls `select_context` gets a block of passages and turns in front of each question, the same block in every
  later request.
- One that does not (0.19) gets what the moved messages say about the question in their place. With each later question
  the memory gives what it is about, or, without it, the plugin's hook (`recall_for_question`).
"""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import ref

from millgate.errors import MillgateError
from millgate.gateway import Millgate
from millgate.integrations.blocks import LOGGER, Asking, Blocks
from millgate.integrations.hermes.host import (
    Message,
    Store,
    as_sent,
    is_compression_enabled,
    plan_recall,
    read_window,
)
from millgate.integrations.hermes.sessions import SessionMemory, engines, memories
from millgate.sessions.compaction.account import Item, account
from millgate.sessions.compaction.window import Compaction
from millgate.sessions.compaction.window import read_window as read_messages
from millgate.text.wanted import asks_nothing
from millgate.transcript.parts import question_of, read, texts_of
from millgate.types import ContextBudget

NOTE = (
    "[{count} earlier messages were moved to memory. What a question is about is recalled with it.]"
)
RECALLED = "[{count} earlier messages were moved to memory. What they say about the question:]"
MOVED = "[{count} earlier messages were moved to memory.]"

_IS_NOTE = re.compile(r"\[\d+ earlier messages were moved to memory")


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
        self._memory: ref[SessionMemory] | None = None
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
        self._compression_enabled = is_compression_enabled()
        engines[session_id] = self
        if self._gate is None or details.get("boundary_reason") != "compression":
            self._open(details)

    def _open(self, details: Mapping[str, Any]) -> None:
        """Open a store of its own unless the memory has one; each conversation of a gateway is a tenant."""
        if self._shared is None:
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
            question, [*texts, question], used_tokens=used, wanted=_has_room(question, window)
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
                wanted=_has_room(placed.question, window),
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
        first = sum(1 for _ in _leading_system(messages)) + self.protect_first_n
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


def _has_room(question: str, window: ContextBudget | None) -> bool:
    plan = plan_recall(question, window)
    return plan is None or plan.prefetch


def _leading_system(messages: Sequence[Message]) -> list[Message]:
    leading = []
    for message in messages:
        if message.get("role") != "system":
            break
        leading.append(message)
    return leading
