"""Whole answer: a reply that is not streamed, through the same guard.

Without a loop, or if it cannot be read, it is passed on as it came. A loop in it is cut, and the model asked to go on.
What comes out is the last call's reply with the text of all calls in it, under the id of the first, and the usage
summed over all calls.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4

import orjson

from millgate.errors import LoopError, PartialCallError, UpstreamError
from millgate.guard.channels import CONTENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import Dialect, Fields, OwnAnswer, pick
from millgate.guard.dialects.usage import UsageSum, estimate_prompt
from millgate.guard.machine import StreamMachine
from millgate.guard.report import State
from millgate.guard.resume import Call
from millgate.service.proxy.relay import SHAPE_ERRORS
from millgate.text.bounded_json import loads

CallAgain = Callable[[Call], Awaitable[bytes]]
Answer = dict[str, Any]
Texts = dict[str, list[str]]

SLICE = 65_536  # characters that the guard is given at a time
IDENTITY = ("id", "created", "created_at", "model", "responseId", "modelVersion")  # of an answer
LARGE = 200_000  # bytes of a reply that is read in a thread, so that other requests are served at the same time


async def guard_answer(
    body: bytes,
    dialect: Dialect,
    machine: StreamMachine,
    usage: UsageSum,
    call_again: CallAgain,
    *,
    fields: Fields,
) -> bytes:
    """The reply that the client gets for the first call's reply; `usage` holds that of all calls."""
    texts: Texts = {CONTENT: [], REASONING: []}

    read = partial(_read_apart, dialect, machine, usage, texts)
    machine.start()
    try:
        answer, calls = await read(body)
    except UpstreamError:
        machine.end()
        return body
    first = answer
    while machine.stalled:
        usage.sever(dialect.estimate_usage(estimate_prompt(fields), machine.severed_tokens))
        try:
            reply = await call_again(machine.resume())
        except LoopError as error:
            if isinstance(error, PartialCallError):
                raise
            return _end(first or {}, texts, dialect, machine, usage)
        usage.begin()
        answer, calls = await read(reply)
    if not machine.report.cuts or answer is None or first is None:
        return body
    joined_texts = {name: "".join(parts) for name, parts in texts.items()}
    try:
        joined = dialect.join(answer, joined_texts, calls, first)
        if usage:
            last = dialect.usage(answer) or {
                **dialect.estimate_usage(estimate_prompt(fields), machine.generated_tokens),
                "estimated": True,
            }
            joined = dialect.with_usage(joined, usage.total(last, _figures(machine)))
    except SHAPE_ERRORS as error:
        raise _shape_error(error) from error
    return orjson.dumps(joined)


def _end(
    first: Answer, texts: Texts, dialect: Dialect, machine: StreamMachine, usage: UsageSum
) -> bytes:
    """The clean text of an answer that kept looping, with its closing words, as a model would end it."""
    text = "".join((*texts[CONTENT], machine.closing_words))
    made = dialect.own_answer(OwnAnswer(text, "", uuid4().hex, int(time.time())))
    made |= pick(first, *IDENTITY)
    return orjson.dumps(
        dialect.with_usage(made, usage.total(dialect.usage(made) or {}, _figures(machine)))
    )


def _figures(machine: StreamMachine) -> dict[str, int]:
    return {"rollbacks": machine.report.rollbacks, "cut_chars": machine.report.cut_chars}


async def _read_apart(
    dialect: Dialect, machine: StreamMachine, usage: UsageSum, texts: Texts, reply: bytes
) -> tuple[Answer | None, int]:
    work = partial(_read, reply, dialect, machine, usage, texts)
    return await asyncio.to_thread(work) if len(reply) > LARGE else work()


def _read(
    reply: bytes, dialect: Dialect, machine: StreamMachine, usage: UsageSum, texts: Texts
) -> tuple[Answer | None, int]:
    """The answer in a reply, which the guard has seen then, and how many of its tool calls stand."""
    answer = _parse(reply)
    try:
        pieces = dialect.pieces(answer) if answer else []
        usage.note(dialect.usage(answer or {}))
        usage.note_diagnosis(answer or {})
    except SHAPE_ERRORS as error:
        raise _shape_error(error) from error
    return answer, _feed(machine, pieces, texts)


def _feed(machine: StreamMachine, pieces: list[Piece], texts: Texts) -> int:
    """Feed a reply to the guard and collect the texts it lets out; how many tool calls it lets out."""
    out: list[Piece] = []
    for piece in chain.from_iterable(map(_slices, pieces)):
        out += machine.feed(piece)
        if machine.report.state is not State.GENERATING:  # or the client has left
            break
    else:
        out += machine.end()
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
