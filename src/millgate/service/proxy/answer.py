"""Answer: what the client gets of a model's answer: under the guard, over as many calls as it takes, or as it came.

An answer that is not streamed goes through the same guard. Without a loop, or if it cannot be read, it is passed on as
it came. A loop in it is cut, and the model asked to go on. What comes out is the last call's reply with the text of all
calls in it, under the id of the first, and the usage summed over all calls.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import chain
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import orjson

from millgate.calls import bugs
from millgate.calls.bugs import surviving
from millgate.errors import LoopError, MillgateError, PartialCallError, UpstreamError
from millgate.guard.channels import CONTENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import Dialect, Event, Fields, OwnAnswer, pick
from millgate.guard.dialects.usage import UsageSum, estimate_prompt, hide_usage
from millgate.guard.machine import StreamMachine
from millgate.guard.policy import SAMPLING
from millgate.guard.report import State
from millgate.guard.resume import Call
from millgate.service.conversation_state import ConversationState, answer_key
from millgate.service.edge.byte_budget import Share
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.relay import SHAPE_ERRORS, Relay
from millgate.service.proxy.send import (
    REFUSED,
    Upstreams,
    names_any,
    read_refusal,
    returned_headers,
)
from millgate.service.proxy.sse import Splitter, is_stream, parse, payload
from millgate.service.proxy.transport import Response, codings_of, header
from millgate.text.bounded_json import loads
from millgate.text.tokens import estimate_tokens, tokens_by_size

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


BODILESS = (204, 205, 304)
SEVERED = b"severed:"  # before the digest of reasoning that was cut
HOUR_S = 3600
# An agent that cannot use an answer says so and asks again at once: the answer and one or two messages more. A person
# reads first and takes longer.
FOLLOW_UP_MESSAGES, FOLLOW_UP_S = 3, 30.0
# Bytes of an event or an answer that is read for its usage; what a larger one spent is not known. The answer of the
# longest model, 128 000 tokens, has half of it.
MAX_COUNTED_BYTES = 1 << 20
PASSING = (408, 409, 425, 429)  # refusals that say: ask again later


class GuardedAnswer:
    """The answer of an exchange so far, and how the model is asked to go on.

    `earlier_loops` says that a tool call looped when the client asked the same before. `left_out` has answers to the
    request before its last messages (see StreamMachine). `has_failed` says that all of the answer did, whatever was
    tried: then its loop is cut, and the model is not asked again.
    """

    def __init__(
        self,
        exchange: Exchange,
        upstreams: Upstreams,
        *,
        earlier_loops: bool = False,
        has_failed: bool = False,
        left_out: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._exchange, self._upstreams, self._call = exchange, upstreams, exchange.call
        self._dialect, self._request = exchange.dialect, exchange.request
        self._usage = UsageSum()
        dialect, fields = exchange.dialect, exchange.request.fields
        self._refuses_sampling = (
            exchange.upstream_name,
            exchange.request.model,
            "refuses sampling",
        )
        self._machine = StreamMachine(
            exchange.request.messages,
            policy=exchange.guard.replace({"max_rollbacks": 0}) if has_failed else exchange.guard,
            structured=dialect.is_structured(fields),
            earlier_loops=earlier_loops,
            left_out=left_out,
            max_tokens=dialect.token_limit(fields),
            how=dialect.resume,
            words_only=self._refuses_sampling in upstreams.facts
            or not dialect.sampling_overrides(SAMPLING[0], fields),
        )
        exchange.call.report = self._machine.report

    async def run(self, response: Response) -> Response:
        """From the first response to all but the end of the reply: the last response, which the caller releases."""
        try:
            asked = self._dialect.streams(self._request.fields)
            if await is_stream(response, asked=asked):
                return await self._stream(response)
            await self._answer(response)
        except MillgateError:
            if self._machine.report.state is State.IDLE:  # nothing of the answer came
                self._machine.fail()
            raise
        finally:
            self._machine.leave()
            self._note_tokens()
            if self._machine.report.cuts:
                self._call.answer = self._machine.text
        return response

    async def _stream(self, response: Response) -> Response:
        reply = self._exchange.reply
        reply.head(response.status, returned_headers(response), self._exchange.reply_headers)
        reply.takes_events = True
        with self._upstreams.budget.share() as share:
            relay = Relay(
                self._dialect,
                self._machine,
                self._request.fields,
                policy=self._upstreams.policy,
                call_again=self._call_again,
                write=reply.write,
                share=share,
                usage=self._usage,
                hides_usage=bool(self._exchange.usage_fields),
            )
            try:
                return await relay.run(response)
            finally:
                self._call.error = relay.fault

    async def _answer(self, response: Response) -> None:
        self._machine.hold_calls_whole()  # nothing is out before all of it is read
        headers = self._exchange.reply_headers
        with self._upstreams.budget.share() as share:
            body, is_whole = await self._read(response, share)
            if not is_whole:
                await self._pass_large(body, response)
                return

            async def call_again(call: Call) -> bytes:
                further = await self._call_again(call)
                try:
                    body, is_whole = await self._read(further, share)
                finally:
                    await further.close()
                if not is_whole:
                    raise UpstreamError("the answer of a further call is too large to be held")
                return body

            fields, first = self._request.fields, body
            try:
                body = await guard_answer(
                    first, self._dialect, self._machine, self._usage, call_again, fields=fields
                )
            except MillgateError:
                raise
            except Exception as error:  # noqa: BLE001  a bug: the client gets the answer as it came
                bugs.report(error, "the guard of an answer")
                self._machine.forget(bugs.describe(error))
                self._machine.end()
        if self._machine.report.state is State.FAILED:
            self._call.error = LoopError.__name__
        headers["x-millgate-rollbacks"] = str(self._machine.report.rollbacks)
        self._exchange.reply.head(response.status, returned_headers(response), headers)
        self._exchange.reply.put(body)

    async def _read(self, response: Response, share: Share) -> tuple[bytes, bool]:
        """The body of an answer, and whether that is all of it: the rest is left if it is too large to be held."""
        body, limit = bytearray(), self._upstreams.policy.max_answer_bytes
        while data := await response.read():
            body += data
            if len(body) > limit or not share.try_hold(len(data)):
                return bytes(body), False
        return bytes(body), True

    async def _pass_large(self, begun: bytes, response: Response) -> None:
        """Pass on an answer that cannot be held, as it comes. Its usage is not read but estimated from its size."""
        reply, headers = self._exchange.reply, self._exchange.reply_headers
        self._call.unwatched = "the answer is too large to be held"
        headers["x-millgate-guard"] = "off"
        headers["x-millgate-guard-reason"] = self._call.unwatched
        reply.head(response.status, returned_headers(response), headers)
        await reply.write(begun)
        size = len(begun)
        while data := await response.read():
            await reply.write(data)
            size += len(data)
        self._usage.note(self._dialect.estimate_usage(0, int(tokens_by_size(size))))

    def _note_tokens(self) -> None:
        """The tokens of all calls: as the upstream reported them, else estimated."""
        call, usage = self._call, self._usage
        call.note_usage(usage)
        lacks_input, lacks_output = usage.gaps()
        generated = self._machine.generated_tokens if lacks_output else 0
        call.output_tokens += generated
        call.unreported_prompts += lacks_input
        call.estimated = usage.has_estimates or generated > 0

    # Asking again

    async def _call_again(self, call: Call) -> Response:
        """Call the model once more, to go on; by words alone if it refuses what is changed."""
        dialect, fields, machine = self._dialect, self._request.fields, self._machine
        if machine.last_attempt and (rescued := await self._ask_rescue()):
            return rescued
        sampling = dialect.sampling_overrides(call.sampling or {}, fields)
        if sampling and machine.words_only:  # the rescue was tried in vain
            call, sampling = machine.reword(), {}
        changed: dict[str, Any] = sampling | (dialect.answer_now(fields) if call.answer_now else {})
        response = await self._ask(self._further_fields(call, changed))
        if response.status in REFUSED and changed:
            if names_any(await read_refusal(response), sampling):
                self._upstreams.facts.add(*self._refuses_sampling)
            response = await self._ask(self._further_fields(machine.reword()))
        if response.status == 200:
            return response
        status = response.status
        await response.close()
        what = f"the upstream answered {status} when it was asked to go on"
        if not 400 <= status < 500 or status in PASSING:
            raise UpstreamError(what)
        machine.fail()  # it would answer the same each time
        raise LoopError(f"the model looped, and {what}", text=machine.text)

    def _further_fields(
        self, call: Call, changed: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The fields of a further call: its conversation, what is left of the token limit, and what is changed."""
        dialect, fields = self._dialect, self._request.fields
        used = estimate_tokens(self._machine.text)
        more: dict[str, Any] = {**dialect.remaining_limit(fields, used), **(changed or {})}
        if more and (name := dialect.config_field):
            more = {name: {**(fields.get(name) or {}), **more}}
        return {**dialect.replace_conversation(call.messages), **more}

    async def _ask(self, changed: Mapping[str, Any]) -> Response:
        exchange = self._exchange
        body = self._request.with_fields({**changed, **exchange.usage_fields}).body
        with self._call.waiting():
            return await self._upstreams.send(exchange, exchange.upstream, body, plain=True)

    async def _ask_rescue(self) -> Response | None:
        """The last try at another upstream; None if there is none, or if it does not answer.

        It gets its own key and never the client's. It cannot take over an answer that builds on a stored one, nor one
        whose model stands in the path.
        """
        name = self._exchange.guard.rescue_upstream
        upstream = self._upstreams.policy.upstreams.get(name)
        fields = self._request.fields
        if upstream is None or "model" not in fields or fields.get(self._dialect.reference_field):
            return None
        named = (model for model in upstream.models if not {"*", "?", "["} & set(model))
        model = next(named, self._request.model)
        changed = {"model": model, **self._further_fields(self._machine.reword())}
        body = self._request.with_fields(changed).body
        try:
            with self._call.waiting():
                response = await self._upstreams.send(
                    self._exchange, upstream, body, plain=True, own_key_only=True
                )
        except UpstreamError:
            return None
        if response.status != 200:
            await response.close()
            return None
        self._call.rescued_by = name
        return response


# As it came


class UsageTap:
    """Reads the usage of one answer that passes."""

    def __init__(self, dialect: Dialect, *, is_stream: bool, hides: bool) -> None:
        self.usage = UsageSum()
        self.hides = hides
        self._dialect, self._is_stream = dialect, is_stream
        self._splitter = Splitter()
        self._body = b""
        self._is_reading = True

    def feed(self, data: bytes) -> bytes:
        """Take a part of the answer in; what goes on to the client."""
        if not self._is_reading:
            return data
        if not self._is_stream:
            self._body += data
            self._is_reading = len(self._body) <= MAX_COUNTED_BYTES
            return data
        out = b"".join(map(self._pass, self._splitter.feed(data)))
        if self._splitter.pending > MAX_COUNTED_BYTES:
            self._is_reading = False
            out += self._splitter.end()
        return out if self.hides else data  # nothing waits for the end of its event

    def end(self) -> bytes:
        """The answer is over: what is left of it for the client."""
        if self._is_stream:
            rest = self._pass(self._splitter.end())
            return rest if self.hides else b""
        if self._is_reading:
            self._note(self._body)
        return b""

    def _pass(self, event: bytes) -> bytes:
        found = None
        if b'"usage"' in event:
            with suppress(UpstreamError):  # of too many lines
                found = self._note(payload(event))
        return hide_usage(event, found, self._dialect) if found and self.hides else event

    def _note(self, data: bytes) -> Event | None:
        """The object in some JSON, its usage noted; None if it is not an object."""
        try:
            found = parse(data)
        except UpstreamError:
            return None
        with surviving("reading the usage of an answer"):
            self.usage.note(self._dialect.usage(found))
            self.usage.note_diagnosis(found)
        return found


async def copy(exchange: Exchange, response: Response, *, reads: bool) -> None:
    """The answer to the client, byte for byte, all but the end of the reply. If it `reads`, what was spent is noted.

    A stream of chat completions reports its usage only if the request asks for it. If a cap needs it and the client did
    not ask, we do, and take out what comes of it: an event of its own at the end, and in all other events a usage that
    is null. So the client gets the bytes that it would have got otherwise.
    """
    call, reply, tap = exchange.call, exchange.reply, None
    reads = reads and call.answered
    # until it is over, and if it is not read, what a call under a cap spent is not known
    call.is_spend_unknown = call.estimated = reads and exchange.hold is not None
    if reads and not codings_of(response.headers):
        streams = await is_stream(response, asked=False)
        tap = UsageTap(exchange.dialect, is_stream=streams, hides=bool(exchange.usage_fields))
    returned = returned_headers(response)
    length = header(response.headers, b"content-length")
    if length and response.status not in BODILESS and not (tap and tap.hides):
        returned.append((b"content-length", length))
    reply.head(response.status, returned, exchange.reply_headers)
    try:
        while data := await response.read():
            if data := tap.feed(data) if tap else data:
                await reply.write(data)
        if tap and (data := tap.end()):
            await reply.write(data)
    finally:
        if tap:
            call.note_usage(tap.usage)
            gaps = tap.usage.gaps()  # vectors have no output
            is_unknown = any(gaps) if call.operation else all(gaps)
            call.is_spend_unknown = call.estimated = exchange.hold is not None and is_unknown


# The step


async def relay(
    exchange: Exchange, response: Response, upstreams: Upstreams, conversations: ConversationState
) -> None:
    """Give the answer to the client, through the guard if it is watched: all but the end of the reply."""
    if exchange.is_watched and exchange.call.answered:
        await _relay_guarded(exchange, response, upstreams, conversations)
    else:
        await _relay_unwatched(exchange, response)


async def _relay_unwatched(exchange: Exchange, response: Response) -> None:
    headers, call = exchange.reply_headers, exchange.call
    headers["x-millgate-guard"] = "off"
    if call.unwatched:
        headers["x-millgate-guard-reason"] = call.unwatched
    try:
        await copy(exchange, response, reads=True)
    finally:
        await response.close()


async def _relay_guarded(
    exchange: Exchange, response: Response, upstreams: Upstreams, conversations: ConversationState
) -> None:
    answer: GuardedAnswer | None = None
    with surviving("the start of the guard"):
        answer = await _begin_guard(exchange, upstreams, conversations)
    if answer is None:
        await _relay_unwatched(exchange, response)
        return
    exchange.reply_headers["x-millgate-guard"] = "on"
    try:
        response = await answer.run(response)
    except BaseException as error:
        if isinstance(error, PartialCallError):  # the client asks again
            await conversations.put(_looped_key(exchange), b"1")
        await response.close()
        raise
    # a client that has the last event may ask again at once, or be gone
    await asyncio.shield(conversations.put_all(_what_to_remember(exchange)))
    await upstreams.release(response)


def _what_to_remember(exchange: Exchange) -> dict[bytes, bytes]:
    """What later requests of the conversation need of an answer."""
    values = {SEVERED + key: b"1" for key in exchange.dialect.severed_reasoning}
    if exchange.call.error == LoopError.__name__:
        now = time.time()
        values[_failed_key(exchange, now)] = b"%d" % now
    if exchange.call.answer:
        values[_cut_key(exchange)] = exchange.call.answer.encode()
    known, stored = exchange.dialect.answer_ids
    exchange.call.response_id = known
    if known != stored:
        values[answer_key(exchange.caller.tenant, known)] = stored.encode()
    return values


async def _begin_guard(
    exchange: Exchange, upstreams: Upstreams, conversations: ConversationState
) -> GuardedAnswer:
    """The guard of this answer, which knows how the same request ended before."""
    now = time.time()
    looped = _looped_key(exchange)
    failed = [_failed_key(exchange, now), _failed_key(exchange, now - HOUR_S)]
    before = [_failed_key(exchange, now, gone) for gone in range(1, FOLLOW_UP_MESSAGES + 1)]
    gone = range(1, min(FOLLOW_UP_MESSAGES + 1, len(exchange.request.messages)))
    cut = {len(exchange.request.messages) - n: _cut_key(exchange, n) for n in gone}
    earlier = await conversations.get_all([looped, *failed, *before, *cut.values()])
    follows = any(now - float(earlier[key]) < FOLLOW_UP_S for key in before if key in earlier)
    return GuardedAnswer(
        exchange,
        upstreams,
        earlier_loops=looped in earlier,
        has_failed=follows or any(key in earlier for key in failed),
        left_out={at: earlier[key].decode() for at, key in cut.items() if key in earlier},
    )


def _looped_key(exchange: Exchange) -> bytes:
    """The key of a request for which a tool call looped."""
    return b"looped:" + _request_digest(exchange)


def _failed_key(exchange: Exchange, when: float, gone: int = 0) -> bytes:
    """The key of a request that failed altogether in this hour, before the last `gone` messages came.

    It is known for an hour or two: a person who asks the same on another day is not a retry.
    """
    return b"failed:%d:" % (when // HOUR_S) + _request_digest(exchange, gone)


def _cut_key(exchange: Exchange, gone: int = 0) -> bytes:
    """The key of an answer that was cut: agents leave it out of the next request, and may quote it there."""
    return b"cut:" + _request_digest(exchange, gone)


def _request_digest(exchange: Exchange, gone: int = 0) -> bytes:
    """By what the retry of a request is known whose answer looped: the end of the same conversation.

    Other fields may differ: some clients do not stream their retry. `gone` messages at the end do not count.
    """
    messages, model = exchange.request.messages, exchange.request.model
    messages = messages[: max(0, len(messages) - gone)]
    end = orjson.dumps((*exchange.owner, model, len(messages), messages[-2:]), default=dict)
    return blake2b(end, digest_size=16).digest()
