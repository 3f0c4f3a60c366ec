"""pydantic-ai: a history processor that adds context to questions, and a toolset. Needs pydantic-ai-slim.

    agent = Agent(model, capabilities=[ProcessHistory(add_context(gate))], toolsets=[toolset(gate)])

The block of a question stands in front of its words. The processed history is what the agent keeps, so it stands
there in later turns too, with the same bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import ValidationError

from millgate.errors import InputError, MissingExtra
from millgate.gateway import Millgate
from millgate.integrations.blocks import Asking, Blocks, is_block
from millgate.integrations.mcp.tools import (
    TOOLS,
    Access,
    description_of,
    schema_of,
)
from millgate.keys import SCOPES

try:
    from pydantic_ai import ModelRetry, Tool
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise MissingExtra("pydantic-ai-slim", extra="pydantic-ai") from error

HistoryProcessor = Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]


def add_context(
    gate: Millgate,
    *,
    budget: int = 1000,
    collection: str | Sequence[str] = "main",
    session: str = "",
    context_length: int = 0,
    remember: bool = False,
) -> HistoryProcessor:
    """A history processor that puts context in front of the last question, once.

    With `context_length`, the tokens of the model's window, less is added as the window fills, and nothing when it is
    full. With `remember` what a compaction of the conversation loses is kept and put back; it is known by `session`.
    """
    blocks = Blocks(gate, Asking(budget, collection, session, context_length, remember))

    async def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        seen = (
            await blocks.aobserve([row for m in messages for row in _rows(m)]) if remember else None
        )
        at = max((n for n, m in enumerate(messages) if _question(m)), default=None)
        if at is None or _has_block(messages[at]):
            block = await asyncio.to_thread(blocks.put_back, seen)  # compacted amid a turn
            return [*messages[:-1], _with_block(messages[-1], block)] if block else messages
        texts = [text for message in messages[: at + 1] for text in _texts(message)]
        used = sum(map(gate.count_tokens, texts)) if context_length else 0
        block = await blocks.afind(_question(messages[at]), texts, used_tokens=used, seen=seen)
        if not block:
            return messages
        return [*messages[:at], _with_block(messages[at], block), *messages[at + 1 :]]

    return process


def toolset(gate: Millgate, *, collection: str | Sequence[str] = "main") -> FunctionToolset[Any]:
    """The tools of an agent that decides what to look up, remembers, and judges what it remembered."""
    access = Access(gate, frozenset(SCOPES), collection=collection, local=True)
    offered = (name for name in TOOLS if name not in ("recall_session", "why"))
    return FunctionToolset([_offer(name, access) for name in offered], id="millgate")


def _offer(name: str, access: Access) -> Tool[Any]:
    tool = TOOLS[name]

    async def run(**given: Any) -> str:
        try:
            return await tool.model_validate(given).run(access)
        except (InputError, ValidationError) as error:  # the model may try again
            raise ModelRetry(str(error)) from error

    return Tool.from_schema(
        run,
        takes_ctx=False,
        name=name,
        description=description_of(tool),
        json_schema=schema_of(tool),
    )


def _question(message: ModelMessage) -> str:
    """What a person asks in a message, without what Millgate added."""
    if not isinstance(message, ModelRequest):
        return ""
    return "\n".join(text for text in map(_prompt, message.parts) if text and not is_block(text))


def _has_block(message: ModelMessage) -> bool:
    return any(is_block(_prompt(part)) for part in message.parts)


def _with_block(message: ModelMessage, block: str) -> ModelMessage:
    """A request with a block in front of its prompt, or behind the results of tools."""
    request: Any = message
    prompts = (n for n, part in enumerate(request.parts) if _is_prompt(part))
    first = next(prompts, len(request.parts))
    parts = [*request.parts[:first], UserPromptPart(block), *request.parts[first:]]
    return cast(ModelMessage, replace(request, parts=parts))


def _rows(message: ModelMessage) -> Iterator[dict[str, Any]]:
    """A message as chat messages, in which compactions are looked for."""
    for part in message.parts:
        match part:
            case UserPromptPart():
                yield {"role": "user", "content": _prompt(part)}
            case ToolCallPart():
                call = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                calls = [{"id": part.tool_call_id, "type": "function", "function": call}]
                yield {"role": "assistant", "content": "", "tool_calls": calls}
            case ToolReturnPart():
                text = part.model_response_str()
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
            case SystemPromptPart() | TextPart():
                role = "assistant" if isinstance(part, TextPart) else "system"
                yield {"role": role, "content": part.content}


def _is_prompt(part: object) -> bool:
    return isinstance(part, UserPromptPart)


def _prompt(part: object) -> str:
    """The words of a user's prompt, without pictures and files."""
    if not isinstance(part, UserPromptPart):
        return ""
    if isinstance(part.content, str):
        return part.content
    return "\n".join(each for each in part.content if isinstance(each, str))


def _texts(message: ModelMessage) -> list[str]:
    """All texts of a message that the model sees: prompts, answers and tool results."""
    found = []
    for part in message.parts:
        content = _prompt(part) or getattr(part, "content", "")
        if content:
            found.append(content if isinstance(content, str) else str(content))
    return found
