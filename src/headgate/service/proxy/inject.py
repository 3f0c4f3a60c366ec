"""Inject: context for the last question, put into the request on its way to the model.

The query is the last user turn, the window is the whole conversation. The block goes to the end, behind all that stays
the same from turn to turn, so that prompt caches survive: in front of the words of the last user turn, or after the
results of tool calls, never between a call and its result. Nothing is kept: the client's own history stays as it is.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from headgate.errors import HeadgateError, InputError
from headgate.service.proxy.request import Ask
from headgate.text.tokens import estimate_tokens
from headgate.types import Context, ContextBudget, Request, Window

Gate = Callable[[Request], Awaitable[Context]]
Message = Mapping[str, Any]


async def inject(ask: Ask, gate: Gate, tenant: str) -> tuple[Ask, dict[str, str]]:
    """The request with context in it, and the headers that tell of it. A gate that fails is told, not felt."""
    place = _last(ask.messages, "user")
    query = "\n".join(_texts(ask.messages[place])) if place is not None else ""
    if place is None or not query.strip():
        return ask, {"x-headgate-context-tokens": "0"}
    try:
        context = await gate(_request(ask, query, tenant))
    except InputError:
        raise
    except HeadgateError as error:
        return ask, {"x-headgate-degraded": f"context: {error.message}"}
    told = {
        "x-headgate-trace": context.trace.id,
        "x-headgate-context-tokens": str(context.token_estimate),
        "x-headgate-context-chunks": str(len(context.chunks)),
    }
    if context.degraded:
        told["x-headgate-degraded"] = "; ".join(context.degraded)
    if not context.text:
        return ask, told
    return ask.changed(messages=placed(ask.messages, context.text)), told


def _request(ask: Ask, query: str, tenant: str) -> Request:
    knobs = ask.knobs
    window = Window.of(ask.messages)
    room = None
    if knobs.window:
        used = sum(estimate_tokens(text) for text in window.texts)
        room = ContextBudget(context_length=knobs.window, used_tokens=used)
    return Request(
        query,
        budget=knobs.budget,
        tenant=tenant,
        collection=knobs.collection,
        window=window,
        k=knobs.k,
        context_budget=room,
        session=knobs.session,
    )


def placed(messages: Sequence[Message], block: str) -> list[Message]:
    """The messages with the block in its place."""
    last = messages[-1]
    if last["role"] == "tool":
        return [*messages, {"role": "user", "content": block}]
    at = _last(messages, "user")
    if at is None:
        return list(messages)
    return [*messages[:at], _joined(messages[at], block), *messages[at + 1 :]]


def _joined(message: Message, block: str) -> Message:
    """A user turn with the block in front of its words, and behind the results of tools that it brings."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": f"{block}\n\n{content or ''}"}
    results = [at for at, part in enumerate(content) if _kind(part) == "tool_result"]
    at = results[-1] + 1 if results else 0
    part = {"type": "text", "text": block}
    return {**message, "content": [*content[:at], part, *content[at:]]}


def _last(messages: Sequence[Message], role: str) -> int | None:
    return next((at for at in reversed(range(len(messages))) if messages[at]["role"] == role), None)


def _texts(message: Message) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [
        p["text"] for p in parts if _kind(p) in ("text", "input_text") and isinstance(p.get("text"), str)
    ]  # fmt: skip


def _kind(part: object) -> str:
    return str(part.get("type")) if isinstance(part, Mapping) else ""
