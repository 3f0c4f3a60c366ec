"""What hermes-agent asks of its plugins, as far as Millgate has it: its public interfaces, restated.

It calls `initialize` when an agent starts, `prefetch` before each turn, `sync_turn` after it, and `shutdown` at the
end; `select_context` before each request of the model, `compress` when the window is nearly full.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

Message = dict[str, Any]


def as_sent(message: Message) -> Message:
    """A message as the model gets it: with what was injected, which hermes-agent keeps beside it."""
    return {**message, "content": message.get("api_content") or message.get("content")}


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory. Older ones take no `limit` and no `min_trust`, the oldest no `session_id` either."""

    name: str

    def is_available(self) -> bool:
        """Whether it is set up; asks no network."""
        ...

    def initialize(self, session_id: str, **details: Any) -> None:
        """A session begins. `details` has hermes_home and platform, and may have user_id, tenant and agent_context."""
        ...

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What it knows about a question, "" for nothing."""
        ...

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "") -> None:
        """A turn is over."""
        ...

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Its tools, in the form of function calling."""
        ...

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **details: Any) -> str:
        """The result of a call, as JSON."""
        ...

    def shutdown(self) -> None:
        """The agent ends."""
        ...


@runtime_checkable
class ContextEngine(Protocol):
    """What decides which messages the model gets; hermes-agent reads the numbers."""

    name: str
    last_prompt_tokens: int
    threshold_tokens: int
    context_length: int
    compression_count: int

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """The model answered, and used this many tokens."""
        ...

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the conversation is to be made shorter now."""
        ...

    def compress(
        self,
        messages: list[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
    ) -> list[Message]:
        """A shorter conversation."""
        ...

    def select_context(
        self,
        request_messages: list[Message],
        *,
        conversation_messages: Sequence[Message] | None = None,
        incoming_message: Message | None = None,
        budget_tokens: int = 0,
    ) -> list[Message] | None:
        """Other messages for this one request; None leaves it as it is."""
        ...


class PluginContext(Protocol):
    """What hermes-agent hands to a plugin's `register`."""

    def register_memory_provider(self, provider: Any) -> None:
        """Offer a memory provider."""
        ...

    def register_context_engine(self, engine: Any) -> None:
        """Offer a context engine."""
        ...

    def register_tool(
        self, *, name: str, toolset: str, schema: dict[str, Any], handler: Callable[..., str]
    ) -> None:
        """Offer a tool; the handler takes its arguments as a mapping and answers JSON."""
        ...
