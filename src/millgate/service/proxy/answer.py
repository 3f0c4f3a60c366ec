"""Answer: what the client gets of a model's answer: under the guard, over as many calls as it takes, or as it came.

An answer that is not streamed goes through the same guard. Without a loop, or if it cannot be read, it is passed on as
it came. A loop in it is cut, and the model asked to go on. What comes out is the last call's reply with the text of all
calls in it, under the id of the first, and the usage summed over all calls.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
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
from millgate.service.conversation_state import answer_key
from millgate.service.edge.byte_budget import Share
from millgate.service.proxy.exchange import Exchange, run_apart
from millgate.service.proxy.http_client import HttpResponse, codings_of, header, read_all
from millgate.service.proxy.relay import SHAPE_ERRORS, Relay, figures_of
from millgate.service.proxy.send import REFUSED, ask, names_any, returned_headers
from millgate.service.proxy.sse import Splitter, is_stream, parse, payload
from millgate.text.bounded_json import loads
from millgate.text.tokens import estimate_tokens, tokens_by_size

Texts = dict[str, list[str]]
IDENTITY = ("id", "created", "created_at", "model", "responseId", "modelVersion")  # of an answer
BODILESS = (204, 205, 304)
SEVERED = b"severed:"  # before the digest of reasoning that was cut
HOUR_S = 3600
# An agent that cannot use an answer says so and asks again at once: the answer and one or two messages more. A person
# reads first and takes longer.
FOLLOW_UP_MESSAGES, FOLLOW_UP_S = 3, 30.0
# Bytes of an event or an answer that is read for its usage; what a larger one spent is not known. The answer of the
# longest model, 128 000 tokens, has half of it.
MAX_COUNTED_BYTES = 1 << 20
# bytes of an error that are read; those of the known providers have under two thousand
ERROR_BYTES = 65_536
PASSING = (408, 409, 425, 429)  # refusals that say: ask again later


# The step


async def relay(exchange: Exchange, response: HttpResponse) -> None:
    """Give the answer to the client, through the guard if it is watched: all but the end of the reply."""
    answer, headers = None, exchange.reply_headers
    if exchange.is_watched and exchange.call.answered:
        with surviving("the start of the guard"):
            answer = await _begin_guard(exchange)
    if answer is None:
        headers["x-millgate-guard"] = "off"
        if exchange.call.unwatched:
            headers["x-millgate-guard-reason"] = exchange.call.unwatched
        await copy(exchange, response, reads=True)
        return
    headers["x-millgate-guard"] = "on"
    remembered = exchange.proxy.remembered
    try:
        response = await answer.run(response)
    except BaseException as error:
        if isinstance(error, PartialCallError):  # the client asks again
            await remembered.put(b"looped:" + _request_digest(exchange), b"1")
        await response.close()
        raise
    # a client that has the last event may ask again at once, or be gone
    await asyncio.shield(remembered.put_all(_what_to_remember(exchange)))
    await exchange.proxy.upstreams.release(response)


def _what_to_remember(exchange: Exchange) -> dict[bytes, bytes]:
    """What later requests of the conversation need of an answer."""
    call, request = exchange.call, _request_digest(exchange)
    values = {SEVERED + key: b"1" for key in exchange.dialect.severed_reasoning}
    if call.error == LoopError.__name__:
        now = time.time()
        values[_failed_key(request, now)] = b"%d" % now
    if call.answer:
        values[b"cut:" + request] = call.answer.encode()
    call.response_id, stored = exchange.dialect.answer_ids
    if call.response_id != stored:
        values[answer_key(exchange.caller.tenant, call.response_id)] = stored.encode()
    return values


async def _begin_guard(exchange: Exchange) -> "GuardedAnswer":
    """The guard of this answer, which knows how the same request ended before, and the one that it may follow."""
    now, length = time.time(), len(exchange.request.messages)
    same, *before = (_request_digest(exchange, gone) for gone in range(FOLLOW_UP_MESSAGES + 1))
    looped = b"looped:" + same
    failed = [_failed_key(same, now), _failed_key(same, now - HOUR_S)]
    follows = [_failed_key(request, now) for request in before]
    # agents leave an answer that was cut out of the next request, and may quote it there
    cut = {length - gone: b"cut:" + request for gone, request in enumerate(before, 1) if gone < length}  # fmt: skip
    known = await exchange.proxy.remembered.get_all([looped, *failed, *follows, *cut.values()])
    return GuardedAnswer(
        exchange,
        earlier_loops=looped in known,
        has_failed=any(key in known for key in failed)
        or any(now - float(known[key]) < FOLLOW_UP_S for key in follows if key in known),
        left_out={at: known[key].decode() for at, key in cut.items() if key in known},
    )


def _failed_key(request: bytes, when: float) -> bytes:
    """The key of a request that failed altogether in this hour.

    It is known for an hour or two: a person who asks the same on another day is not a retry.
    """
    return b"failed:%d:" % (when // HOUR_S) + request


def _request_digest(exchange: Exchange, gone: int = 0) -> bytes:
    """By what the retry of a request is known whose answer looped: the end of the same conversation.

    Other fields may differ: some clients do not stream their retry. `gone` messages at the end do not count.
    """
    messages, model = exchange.request.messages, exchange.request.model
    messages = messages[: max(0, len(messages) - gone)]
    end = orjson.dumps((*exchange.owner, model, len(messages), messages[-2:]), default=dict)
    return blake2b(end, digest_size=16).digest()


# Under the guard


class GuardedAnswer:
    """The answer of an exchange so far, and how the model is asked to go on.

    `earlier_loops` says that a tool call looped when the client asked the same before. `left_out` has answers to the
    request before its last messages (see StreamMachine). `has_failed` says that all of the answer did, whatever was
    tried: then its loop is cut, and the model is not asked again.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        earlier_loops: bool = False,
        has_failed: bool = False,
        left_out: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._exchange, self._call, self._dialect = exchange, exchange.call, exchange.dialect
        self._fields, self._usage = exchange.request.fields, UsageSum()
        dialect, fields, facts = exchange.dialect, self._fields, exchange.proxy.upstreams.facts
        self._refuses_sampling = (
            self._call.upstream,
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
            words_only=self._refuses_sampling in facts
            or not dialect.sampling_overrides(SAMPLING[0], fields),
        )
        exchange.call.report = self._machine.report

    async def run(self, response: HttpResponse) -> HttpResponse:
        """From the first response to all but the end of the reply: the last response, which the caller releases."""
        call, machine, usage = self._call, self._machine, self._usage
        try:
            with self._exchange.proxy.budget.share() as share:
                if await is_stream(response, asked=self._dialect.streams(self._fields)):
                    return await self._stream(response, share)
                await self._answer(response, share)
                return response
        except MillgateError:
            if machine.report.state is State.IDLE:  # nothing of the answer came
                machine.fail()
            raise
        finally:
            machine.leave()
            call.note_usage(usage)
            # the tokens of all calls: as the upstream reported them, else estimated
            lacks_input, lacks_output = usage.gaps()
            generated = machine.generated_tokens if lacks_output else 0
            call.output_tokens += generated
            call.unreported_prompts += lacks_input
            call.estimated = usage.has_estimates or generated > 0
            if machine.report.cuts:
                call.answer = machine.text

    async def _stream(self, response: HttpResponse, share: Share) -> HttpResponse:
        exchange, reply = self._exchange, self._exchange.reply
        reply.head(response.status, returned_headers(response), exchange.reply_headers)
        reply.takes_events = True
        relay = Relay(
            self._dialect,
            self._machine,
            self._fields,
            policy=exchange.proxy.policy,
            call_again=self._call_again,
            write=reply.write,
            share=share,
            usage=self._usage,
            hides_usage=bool(exchange.usage_fields),
        )
        try:
            return await relay.run(response)
        finally:
            self._call.error = relay.fault

    async def _answer(self, response: HttpResponse, share: Share) -> None:
        machine, reply, headers = self._machine, self._exchange.reply, self._exchange.reply_headers
        machine.hold_calls_whole()  # nothing is out before all of it is read
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

        try:
            body = await guard_answer(
                body, self._dialect, machine, self._usage, call_again, fields=self._fields
            )
        except MillgateError:
            raise
        except Exception as error:  # noqa: BLE001  a bug: the client gets the answer as it came
            bugs.report(error, "the guard of an answer")
            machine.forget(bugs.describe(error))
            machine.end()
        if machine.report.state is State.FAILED:
            self._call.error = LoopError.__name__
        headers["x-millgate-rollbacks"] = str(machine.report.rollbacks)
        reply.head(response.status, returned_headers(response), headers)
        reply.put(body)

    async def _read(self, response: HttpResponse, share: Share) -> tuple[bytes, bool]:
        """The body of an answer, and whether that is all of it: the rest is left if it is too large to be held."""
        body, limit = bytearray(), self._exchange.proxy.policy.max_answer_bytes
        while data := await response.read():
            body += data
            if len(body) > limit or not share.try_hold(len(data)):
                return bytes(body), False
        return bytes(body), True

    async def _pass_large(self, begun: bytes, response: HttpResponse) -> None:
        """Pass on an answer that cannot be held, as it comes. Its usage is not read but estimated from its size."""
        reply, headers = self._exchange.reply, self._exchange.reply_headers
        self._call.unwatched = "the answer is too large to be held"
        headers["x-millgate-guard"] = "off"
        headers["x-millgate-guard-reason"] = self._call.unwatched
        reply.head(response.status, returned_headers(response), headers)
        data, size = begun, 0
        while data:
            await reply.write(data)
            size += len(data)
            data = await response.read() or b""
        self._usage.note(self._dialect.estimate_usage(0, int(tokens_by_size(size))))

    # Asking again

    async def _call_again(self, call: Call) -> HttpResponse:
        """Call the model once more, to go on; by words alone if it refuses what is changed."""
        dialect, fields, machine = self._dialect, self._fields, self._machine
        if machine.last_attempt and (rescued := await self._ask_rescue()):
            return rescued
        sampling = dialect.sampling_overrides(call.sampling or {}, fields)
        if sampling and machine.words_only:  # the rescue was tried in vain
            call, sampling = machine.reword(), {}
        changed: dict[str, Any] = sampling | (dialect.answer_now(fields) if call.answer_now else {})
        response = await self._ask(self._further_fields(call, changed))
        if response.status in REFUSED and changed:
            with suppress(UpstreamError):  # the status alone says that it refused
                if names_any(await read_all(response, ERROR_BYTES), sampling):
                    self._exchange.proxy.upstreams.facts.add(*self._refuses_sampling)
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
        dialect, fields = self._dialect, self._fields
        used = estimate_tokens(self._machine.text)
        more: dict[str, Any] = {**dialect.remaining_limit(fields, used), **(changed or {})}
        if more and (name := dialect.config_field):
            more = {name: {**(fields.get(name) or {}), **more}}
        return {**dialect.replace_conversation(call.messages), **more}

    async def _ask(self, changed: Mapping[str, Any]) -> HttpResponse:
        exchange = self._exchange
        body = exchange.request.with_fields({**changed, **exchange.usage_fields}).body
        with self._call.waiting():
            return await ask(exchange, exchange.upstream, body, plain=True)

    async def _ask_rescue(self) -> HttpResponse | None:
        """The last try at another upstream; None if there is none, or if it does not answer.

        It gets its own key and never the client's. It cannot take over an answer that builds on a stored one, nor one
        whose model stands in the path.
        """
        exchange, fields = self._exchange, self._fields
        name = exchange.guard.rescue_upstream
        upstream = exchange.proxy.policy.upstreams.get(name)
        if upstream is None or "model" not in fields or fields.get(self._dialect.reference_field):
            return None
        named = (model for model in upstream.models if not {"*", "?", "["} & set(model))
        model = next(named, exchange.request.model)
        changed = {"model": model, **self._further_fields(self._machine.reword())}
        body = exchange.request.with_fields(changed).body
        try:
            with self._call.waiting():
                response = await ask(exchange, upstream, body, plain=True, own_key_only=True)
        except UpstreamError:
            return None
        if response.status != 200:
            await response.close()
            return None
        self._call.rescued_by = name
        return response


async def guard_answer(
    body: bytes,
    dialect: Dialect,
    machine: StreamMachine,
    usage: UsageSum,
    call_again: Callable[[Call], Awaitable[bytes]],
    *,
    fields: Fields,
) -> bytes:
    """The reply that the client gets for the first call's reply; `usage` holds that of all calls."""
    texts: Texts = {CONTENT: [], REASONING: []}
    read = partial(_read, dialect, machine, usage, texts)
    machine.start()
    try:
        first, calls = await run_apart(body, read, body)
    except UpstreamError:
        machine.end()
        return body
    answer = first
    while machine.stalled:
        usage.sever(dialect.estimate_usage(estimate_prompt(fields), machine.severed_tokens))
        try:
            reply = await call_again(machine.resume())
        except PartialCallError:
            raise
        except LoopError:
            # the clean text of an answer that kept looping, with its closing words, as a model would end it
            text = "".join((*texts[CONTENT], machine.closing_words))
            ended = dialect.own_answer(OwnAnswer(text, "", uuid4().hex, int(time.time())))
            ended |= pick(first or {}, *IDENTITY)
            total = usage.total(dialect.usage(ended) or {}, figures_of(machine))
            return orjson.dumps(dialect.with_usage(ended, total))
        usage.begin()
        answer, calls = await run_apart(reply, read, reply)
    if not machine.report.cuts or answer is None or first is None:
        return body
    with _known_shape():
        joined = {name: "".join(parts) for name, parts in texts.items()}
        whole = dialect.join(answer, joined, calls, first)
        if usage:
            last = dialect.usage(answer) or {
                **dialect.estimate_usage(estimate_prompt(fields), machine.generated_tokens),
                "estimated": True,
            }
            whole = dialect.with_usage(whole, usage.total(last, figures_of(machine)))
    return orjson.dumps(whole)


def _read(
    dialect: Dialect, machine: StreamMachine, usage: UsageSum, texts: Texts, reply: bytes
) -> tuple[dict[str, Any] | None, int]:
    """The answer in a reply, which the guard has seen then, and how many of its tool calls stand."""
    answer = _parse(reply)
    with _known_shape():
        pieces = dialect.pieces(answer) if answer else []
        usage.note(dialect.usage(answer or {}))
        usage.note_diagnosis(answer or {})
    out: list[Piece] = []
    for piece in pieces:
        out += machine.feed(piece)
        if machine.report.state is not State.GENERATING:  # or the client has left
            break
    else:
        out += machine.end()
    for piece in out:
        if piece.channel in texts:
            texts[piece.channel].append(piece.text)
    return answer, len({piece.call for piece in out if piece.channel == TOOL})


@contextmanager
def _known_shape() -> Iterator[None]:
    """What is read inside may have another shape than its API has."""
    try:
        yield
    except SHAPE_ERRORS as error:
        raise UpstreamError(f"the upstream's answer is of a strange shape: {error!r}") from error


def _parse(body: bytes) -> dict[str, Any] | None:
    """The object in a reply; None if it is another JSON value, which passes unchanged."""
    try:
        found = loads(body)
    except orjson.JSONDecodeError as error:
        start = body[:120].decode("utf-8", "replace").strip()
        raise UpstreamError(f"the upstream's answer is not JSON: {start or '(nothing)'}") from error
    return found if isinstance(found, dict) else None


# As it came


async def copy(exchange: Exchange, response: HttpResponse, *, reads: bool) -> None:
    """The answer to the client, byte for byte, all but the end of the reply. If it `reads`, what was spent is noted.

    A stream of chat completions reports its usage only if the request asks for it. If a cap needs it and the client did
    not ask, we do, and take out what comes of it: an event of its own at the end, and in all other events a usage that
    is null. So the client gets the bytes that it would have got otherwise.
    """
    call, reply, tap = exchange.call, exchange.reply, None
    reads = reads and call.answered
    # until it is over, and if it is not read, what a call under a cap spent is not known
    call.is_spend_unknown = call.estimated = reads and exchange.hold is not None
    try:
        if reads and not codings_of(response.headers):
            streams = await is_stream(response, asked=False)
            tap = UsageTap(exchange.dialect, is_stream=streams, hides=bool(exchange.usage_fields))
        returned = returned_headers(response)
        length = header(response.headers, b"content-length")
        if length and response.status not in BODILESS and not (tap and tap.hides):
            returned.append((b"content-length", length))
        reply.head(response.status, returned, exchange.reply_headers)
        while data := await response.read():
            if data := tap.feed(data) if tap else data:
                await reply.write(data)
        if tap and (data := tap.end()):
            await reply.write(data)
    finally:
        await response.close()
        if tap:
            call.note_usage(tap.usage)
            gaps = tap.usage.gaps()  # vectors have no output
            is_unknown = any(gaps) if call.operation else all(gaps)
            call.is_spend_unknown = call.estimated = exchange.hold is not None and is_unknown


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
