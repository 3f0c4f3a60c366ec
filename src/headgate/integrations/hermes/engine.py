"""HeadgateEngine: the context engine. What leaves the window is kept as turns, and comes back when a question is about
it.

`compress` keeps the system prompt, the first and the last messages as they are, and moves the rest into the
store. No model is asked and nothing is summarized away. `select_context` puts a block of passages and turns in
front of each question, the same block in every later request.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError
from headgate.gateway import Headgate
from headgate.integrations.blocks import LOGGER, Asking, Blocks
from headgate.integrations.hermes.host import Store
from headgate.integrations.hermes.protocols import Message

NOTE = (
    "[{count} earlier messages were moved to memory. What a question is about is recalled with it.]"
)


class HeadgateEngine:
    """Headgate as the context engine of hermes-agent, over a gate of yours, a path, or a store in its home."""

    name = "headgate"
    last_prompt_tokens = last_completion_tokens = last_total_tokens = 0
    threshold_tokens = context_length = compression_count = 0
    threshold_percent = 0.75
    protect_first_n = 3
    protect_last_n = 6

    def __init__(
        self,
        gate: Headgate | None = None,
        *,
        path: str | Path | None = None,
        budget: int = 1000,
        collection: str | Sequence[str] = ("main", "turns"),
    ) -> None:
        self._store = Store(gate, path)
        self._budget, self._collection = budget, collection
        self._blocks: Blocks | None = None
        self._session = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> "HeadgateEngine":
        """A copy with counts of its own over the same store, as a subagent has it."""
        return copy.copy(self)

    def on_session_start(self, session_id: str, **details: Any) -> None:
        """Open the store for a session."""
        self._session = session_id
        self._store.open(
            hermes_home=str(details.get("hermes_home") or ""),
            tenant=str(details.get("tenant") or details.get("user_id") or ""),
        )
        self._blocks = None

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
        gate = self._store.gate
        if gate is None or not moved:
            return messages
        try:
            gate.add_turns(self._session or "hermes", [m for m in moved if m.get("content")])
        except HeadgateError as error:
            LOGGER.warning("the conversation was not compressed: %s", error)
            return messages
        self.compression_count += 1
        note = NOTE.format(count=len(moved))
        if focus_topic:
            block = self._find_blocks(gate).find(focus_topic, [focus_topic])
            note = f"{note}\n\n{block}" if block else note
        return [*messages[:first], {"role": "user", "content": note}, *messages[last:]]

    def select_context(
        self,
        request_messages: list[Message],
        *,
        conversation_messages: Sequence[Message] | None = None,
        incoming_message: Message | None = None,
        budget_tokens: int = 0,
    ) -> list[Message] | None:
        """The request with a block in front of each question; None if there is none."""
        gate = self._store.gate
        if gate is None:
            return None
        blocks, block = self._find_blocks(gate, budget_tokens), ""
        placed = blocks.place(request_messages)
        if placed.question:
            used = sum(map(gate.count_tokens, placed.texts)) if budget_tokens else 0
            block = blocks.find(placed.question, placed.texts, used_tokens=used)
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

    def _find_blocks(self, gate: Headgate, context_length: int = 0) -> Blocks:
        if self._blocks is None or self._blocks.gate is not gate:
            self._blocks = Blocks(gate)
        self._blocks.asking = Asking(
            self._budget, self._collection, self._session, context_length or self.context_length
        )
        return self._blocks


def _leading_system(messages: Sequence[Message]) -> list[Message]:
    leading = []
    for message in messages:
        if message.get("role") != "system":
            break
        leading.append(message)
    return leading
