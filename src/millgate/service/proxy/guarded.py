"""Guarded: one answer under the guard, streamed or whole, over as many calls of the model as it takes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from millgate.calls import bugs
from millgate.errors import LoopError, MillgateError, UpstreamError
from millgate.guard.dialects.usage import UsageSum
from millgate.guard.machine import StreamMachine
from millgate.guard.policy import SAMPLING
from millgate.guard.report import State
from millgate.guard.resume import Call
from millgate.service.edge.byte_budget import Share
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.relay import Relay
from millgate.service.proxy.sse import is_stream
from millgate.service.proxy.transport import Response
from millgate.service.proxy.upstreams import (
    REFUSED,
    Upstreams,
    names_any,
    read_refusal,
    returned_headers,
)
from millgate.service.proxy.whole_answer import guard_answer
from millgate.text.tokens import estimate_tokens, tokens_by_size

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
        call.input_tokens, call.output_tokens = usage.tokens()
        call.cached_input = usage.cached_input()
        call.first_input, call.cache_diagnosis = usage.first_input(), usage.cache_diagnosis
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
