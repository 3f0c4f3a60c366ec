"""LangChain agents: middleware that adds context, guards the model, and tells an agent that it goes in circles.

    agent = create_agent(model, tools, middleware=[MillgateMiddleware(gate)])

The context of a question is added to the conversation once, as a message of its own behind the question, and stays
there: later turns begin with the same messages, and the provider's prompt cache holds. Needs `langchain` 1.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import annotate, ending, find_steps
from millgate.errors import MissingExtra
from millgate.gateway import Millgate
from millgate.integrations.blocks import Asking, Blocks
from millgate.integrations.langchain import GuardedChatModel
from millgate.sessions.folding.folder import fold as fold_messages

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        convert_to_openai_messages,
    )
    from langgraph.config import get_config
except ImportError as error:
    raise MissingExtra("langchain", extra="langchain") from error

NAME = "millgate"  # of the messages that hold context
Answer = ModelResponse[Any] | AIMessage


class MillgateMiddleware(AgentMiddleware[Any, Any, Any]):
    """Context for each question, and a guard around each model call; either can be left out.

    Without a `gate` nothing is added. `guard` has the arguments of Guard, and `circles` those of CirclesPolicy; None
    is no guard. With `fold` tool results that already stand in the window become pointers to it; the agent's own
    messages stay whole.

    With `remember` what a compaction of the conversation loses is kept and put back. Place it behind the middleware
    that compacts. A conversation is known by `session`, or by the thread of its checkpointer.
    """

    def __init__(
        self,
        gate: Millgate | None = None,
        *,
        budget: int = 1000,
        collection: str | Sequence[str] = "main",
        session: str = "",
        guard: Mapping[str, Any] | None = {},
        fold: bool = False,
        remember: bool = False,
    ) -> None:
        super().__init__()
        asking = Asking(budget, collection, session, remember=remember)
        self._blocks = Blocks(gate, asking) if gate else None
        self._guard = None if guard is None else dict(guard)
        circles = (self._guard or {}).pop("circles", {})
        self._circles = CirclesPolicy.model_validate(circles)
        self._folds = fold

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The context of the question, as a message behind it."""
        question, texts = _question(state["messages"])
        if not question or self._blocks is None:
            return None
        seen = self._blocks.observe(*self._conversation(state))
        return _as_update(self._blocks.find(question, texts, seen=seen))

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The same in an event loop."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """What was lost, as a message at the end, if the conversation was compacted amid a turn."""
        if self._blocks is None or not self._blocks.asking.remember:
            return None
        return _as_update(self._blocks.put_back(self._blocks.observe(*self._conversation(state))))

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The same in an event loop."""
        return await asyncio.to_thread(self.before_model, state, runtime)

    def _conversation(self, state: Any) -> tuple[list[Any], tuple[str, ...], str]:
        """The messages of a thread, and by what name it is remembered."""
        assert self._blocks is not None
        asking = self._blocks.asking
        if not asking.remember:
            return [], (), ""
        plain = convert_to_openai_messages(state["messages"])
        assert isinstance(plain, list)
        return plain, (), asking.session or get_config()["configurable"].get("thread_id", "")

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Answer]
    ) -> Any:
        """The model's answer without loops; if the agent goes in circles, a note in its results, or the end."""
        asked = self._prepare(request)
        return asked if isinstance(asked, AIMessage) else handler(asked)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Answer]]
    ) -> Any:
        """The same in an event loop."""
        asked = self._prepare(request)
        return asked if isinstance(asked, AIMessage) else await handler(asked)

    def _prepare(self, request: ModelRequest[Any]) -> ModelRequest[Any] | AIMessage:
        if self._guard is None and not self._folds:
            return request
        plain = convert_to_openai_messages(request.messages)
        assert isinstance(plain, list)
        changed = plain
        if self._guard is not None:
            found = find_steps(plain, self._circles)
            if found.ended is not None:
                return AIMessage(ending(found.ended))
            changed = annotate(plain, found.marks)
        if self._folds:
            changed, _ = fold_messages(changed)
        messages = _with_contents(request.messages, plain, changed)
        if self._guard is None:
            return request.override(messages=messages)
        model = GuardedChatModel(model=request.model, guard=self._guard)
        if hasattr(request.model, "profile"):
            model.profile = request.model.profile
        return request.override(model=model, messages=messages)


def _with_contents(messages: Sequence[Any], plain: list[Any], changed: list[Any]) -> list[Any]:
    """The messages with the contents that were changed; a message that becomes several has no place for a change."""
    if len(plain) != len(messages):
        return list(messages)
    return [
        message if now is was else message.model_copy(update={"content": now["content"]})
        for message, was, now in zip(messages, plain, changed, strict=True)
    ]


def _question(messages: Sequence[BaseMessage]) -> tuple[str, list[str]]:
    """What a person asks now, empty if the last message is not theirs, and all texts that the model sees."""
    texts = [str(message.text) for message in messages]
    last = messages[-1] if messages else None
    asked = isinstance(last, HumanMessage) and last.name != NAME
    return (texts[-1].strip() if asked else ""), texts


def _as_update(block: str) -> dict[str, Any] | None:
    return {"messages": [HumanMessage(block, name=NAME)]} if block else None
