"""Answer: a reply that is not streamed, through the same guard.

Without a loop it is passed on as it came. A loop in it is cut, and the model asked to go on; what comes out is the last
call's reply with the text of all calls in it, under the id of the first, its usage summed.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from headgate.errors import UpstreamError
from headgate.guard.channels import CONTENT, REASONING, TOOL, Piece
from headgate.guard.dialects.chat import REASONS
from headgate.guard.resume import Call
from headgate.guard.rollback import Session
from headgate.service.proxy.speech import Bill, ChatSpeech, Speech
from headgate.text.tokens import estimate_tokens

Again = Callable[[Call], Awaitable[bytes]]
Found = dict[str, Any]


async def guarded(body: bytes, speech: Speech, session: Session, again: Again) -> bytes:
    """The reply that the client gets for the first call's reply."""
    form = _Chat() if isinstance(speech, ChatSpeech) else _Messages()
    bill, texts = Bill(), dict[str, list[str]]({CONTENT: [], REASONING: []})
    first, calls = _read(body), 0
    found: Found | None = first
    session.start()
    while True:
        pieces = form.pieces(found) if found else []
        calls = _through(session, pieces, texts)
        if not session.stalled:
            break
        said = sum(map(len, pieces))
        guess = speech.estimate(
            sum(estimate_tokens(str(m.get("content"))) for m in session.messages), said // 4
        )
        bill.note(speech.usage(found or {}))
        bill.cut(guess)
        found = _read(await again(session.resume()))
    if not session.report.cuts or found is None or first is None:
        return body
    made = form.joined(found, {name: "".join(parts) for name, parts in texts.items()}, calls)
    made |= {name: first[name] for name in ("id", "created", "model") if name in first}
    usage = speech.usage(found) or speech.estimate(0, 0)
    split = {"rollbacks": session.report.rollbacks, "cut_chars": session.report.cut_chars}
    if bill:
        made["usage"] = bill.summed(usage, split)
    return orjson.dumps(made)


def _through(session: Session, pieces: list[Piece], texts: dict[str, list[str]]) -> int:
    """Feed a reply to the guard, note what it lets out, and how many tool calls that were."""
    out: list[Piece] = []
    for piece in pieces:
        out += session.feed(piece)
        if session.stalled or session.done:
            break
    else:
        out += session.end()
    for piece in out:
        if piece.channel in texts:
            texts[piece.channel].append(piece.text)
    return len({piece.call for piece in out if piece.channel == TOOL})


def _read(body: bytes) -> Found | None:
    """The object in a reply; None where it is something else, which then passes as it is."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        start = body[:120].decode("utf-8", "replace").strip()
        raise UpstreamError(f"the upstream's answer is not JSON: {start or '(nothing)'}") from error
    return found if isinstance(found, dict) else None


class _Chat:
    """The message of a chat completion."""

    def pieces(self, found: Found) -> list[Piece]:
        """Its reasoning, content and tool calls."""
        match found:
            case {"choices": [{"message": {**message}}]}:
                pass
            case _:
                return []  # several choices, or none
        told = [
            Piece(channel, text)
            for channel, names in ((REASONING, REASONS), (CONTENT, ("content",)))
            for text in (next((message[n] for n in names if message.get(n)), None),)
            if isinstance(text, str)
        ]
        called = message.get("tool_calls")
        for at, call in enumerate(called if isinstance(called, list) else ()):
            match call:
                case {"function": {"arguments": str(text)}}:
                    told.append(Piece(TOOL, text, call=at, raw=call))
        return told

    def joined(self, found: Found, texts: dict[str, str], calls: int) -> Found:
        """The reply with these texts and so many of its calls."""
        choice = found["choices"][0]
        message = dict(choice["message"])
        if texts[CONTENT] or message.get("content"):
            message["content"] = texts[CONTENT]
        name = next((n for n in REASONS if message.get(n)), REASONS[0])
        if texts[REASONING]:
            message[name] = texts[REASONING]
        reason = choice.get("finish_reason")
        called = message.get("tool_calls")
        if isinstance(called, list) and len(called) > calls:
            message["tool_calls"], reason = called[:calls], "tool_calls"
        made = {**choice, "message": message, "finish_reason": reason}
        return {**found, "choices": [made]}


class _Messages:
    """The blocks of an Anthropic message."""

    def pieces(self, found: Found) -> list[Piece]:
        """Thinking, text and tool use, in their order."""
        told: list[Piece] = []
        blocks = found.get("content")
        for at, block in enumerate(blocks if isinstance(blocks, list) else ()):
            match block:
                case {"type": "thinking", "thinking": str(text)}:
                    told.append(Piece(REASONING, text))
                case {"type": "text", "text": str(text)}:
                    told.append(Piece(CONTENT, text))
                case {"type": "tool_use", "input": dict(given)}:
                    told.append(Piece(TOOL, orjson.dumps(given).decode(), call=at, raw=block))
        return told

    def joined(self, found: Found, texts: dict[str, str], calls: int) -> Found:
        """The last message, its text that of all calls; thinking of severed calls has no signature and is left out."""
        blocks = [b for b in found["content"] if b.get("type") != "text"]
        used = [b for b in blocks if b.get("type") == "tool_use"]
        others = [b for b in blocks if b.get("type") != "tool_use"]
        said = [{"type": "text", "text": texts[CONTENT]}] if texts[CONTENT] else []
        made = {**found, "content": [*others, *said, *used[:calls]]}
        if len(used) > calls:
            made["stop_reason"] = "tool_use"
        return made
