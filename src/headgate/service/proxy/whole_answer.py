"""Whole answer: a reply that is not streamed, through the same guard.

Without a loop, or if it cannot be read, it is passed on as it came. A loop in it is cut, and the model asked to go on.
What comes out is the last call's reply with the text of all calls in it, under the id of the first, and the usage
summed over all calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import orjson

from headgate.errors import UpstreamError
from headgate.guard.channels import CONTENT, REASONING, TOOL, Piece
from headgate.guard.dialects.dialect import Dialect, Fields
from headgate.guard.dialects.usage import UsageSum, estimate_prompt
from headgate.guard.report import State
from headgate.guard.resume import Call
from headgate.guard.session import Session
from headgate.service.proxy.relay import SHAPE_ERRORS
from headgate.text.bounded_json import loads

CallAgain = Callable[[Call], Awaitable[bytes]]
Answer = dict[str, Any]
Texts = dict[str, list[str]]

SLICE = 65_536  # characters that the guard is given at a time
LARGE = 200_000  # bytes of a reply that is read in a thread, so that other requests are served at the same time


async def guard_answer(
    body: bytes,
    dialect: Dialect,
    session: Session,
    usage: UsageSum,
    call_again: CallAgain,
    *,
    fields: Fields,
) -> bytes:
    """The reply that the client gets for the first call's reply; `usage` holds that of all calls."""
    texts: Texts = {CONTENT: [], REASONING: []}
    reply, first = body, None
    session.start()
    while True:
        read = partial(_read, reply, dialect, session, usage, texts)
        try:
            answer, calls = await asyncio.to_thread(read) if len(reply) > LARGE else read()
        except UpstreamError:
            if first is not None:
                raise
            session.end()
            return body
        first = first or answer
        if not session.stalled:
            break
        usage.sever(dialect.estimate_usage(estimate_prompt(fields), session.severed_tokens))
        reply = await call_again(session.resume())
        usage.begin()
    if not session.report.cuts or answer is None or first is None:
        return body
    try:
        joined = dialect.join(
            answer, {name: "".join(parts) for name, parts in texts.items()}, calls, first
        )
        if usage:
            last = dialect.usage(answer) or {
                **dialect.estimate_usage(estimate_prompt(fields), session.generated_tokens),
                "estimated": True,
            }
            report = session.report
            figures = {"rollbacks": report.rollbacks, "cut_chars": report.cut_chars}
            joined = dialect.with_usage(joined, usage.total(last, figures))
    except SHAPE_ERRORS as error:
        raise _shape_error(error) from error
    return orjson.dumps(joined)


def _read(
    reply: bytes, dialect: Dialect, session: Session, usage: UsageSum, texts: Texts
) -> tuple[Answer | None, int]:
    """The answer in a reply, which the guard has seen then, and how many of its tool calls stand."""
    answer = _parse(reply)
    try:
        pieces = dialect.pieces(answer) if answer else []
        usage.note(dialect.usage(answer or {}))
    except SHAPE_ERRORS as error:
        raise _shape_error(error) from error
    return answer, _feed(session, pieces, texts)


def _feed(session: Session, pieces: list[Piece], texts: Texts) -> int:
    """Feed a reply to the guard and collect the texts it lets out; how many tool calls it lets out."""
    out: list[Piece] = []
    for piece in chain.from_iterable(map(_slices, pieces)):
        out += session.feed(piece)
        if session.report.state is not State.GENERATING:  # or the client has left
            break
    else:
        out += session.end()
    for piece in out:
        if piece.channel in texts:
            texts[piece.channel].append(piece.text)
    return len({piece.call for piece in out if piece.channel == TOOL})


def _slices(piece: Piece) -> Iterator[Piece]:
    """A piece of text as a stream would bring it, so that the guard holds little of a long one at a time."""
    if piece.channel == TOOL or len(piece) <= SLICE:
        yield piece
        return
    for at in range(0, len(piece), SLICE):
        yield Piece(piece.channel, piece[at : at + SLICE], call=piece.call, raw=piece.raw)


def _parse(body: bytes) -> Answer | None:
    """The object in a reply; None if it is another JSON value, which passes unchanged."""
    try:
        found = loads(body)
    except orjson.JSONDecodeError as error:
        start = body[:120].decode("utf-8", "replace").strip()
        raise UpstreamError(f"the upstream's answer is not JSON: {start or '(nothing)'}") from error
    return found if isinstance(found, dict) else None


def _shape_error(error: Exception) -> UpstreamError:
    return UpstreamError(f"the upstream's answer is of a strange shape: {error!r}")
