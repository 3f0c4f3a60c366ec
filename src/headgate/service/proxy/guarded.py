"""Guarded: one answer under the guard, streamed or whole, over as many calls as it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from headgate.errors import HeadgateError, UpstreamError
from headgate.guard.dialects.dialect import Dialect
from headgate.guard.dialects.usage import UsageSum
from headgate.guard.policy import SAMPLING, GuardPolicy
from headgate.guard.report import State
from headgate.guard.resume import Call
from headgate.guard.rollback import Session
from headgate.policy import UpstreamPolicy
from headgate.service.byte_budget import Share
from headgate.service.proxy.asgi import Reply
from headgate.service.proxy.model_call import ModelCall
from headgate.service.proxy.refusals import REFUSED, ExpiringSet, names_any, read_refusal
from headgate.service.proxy.relay import Relay
from headgate.service.proxy.request import ProxyRequest
from headgate.service.proxy.sse import is_stream
from headgate.service.proxy.transport import Response
from headgate.service.proxy.upstreams import Upstreams, returned_headers
from headgate.service.proxy.whole_answer import guard_answer
from headgate.text.tokens import estimate_tokens


@dataclass(slots=True)
class Target:
    """Whom a request goes to, and what is known of them."""

    name: str
    upstream: UpstreamPolicy
    known: ExpiringSet = field(default_factory=ExpiringSet)
    """What it refused or took lately, with which model."""


class GuardedExchange:
    """A client's request, its answer so far, and how the model is asked to go on."""

    def __init__(
        self,
        dialect: Dialect,
        request: ProxyRequest,
        target: Target,
        upstreams: Upstreams,
        guard: GuardPolicy,
        *,
        scope: Scope,
        call: ModelCall,
        earlier_loops: bool = False,
        asks: Mapping[str, Any] | None = None,
    ) -> None:
        self._dialect, self._request, self._target = dialect, request, target
        self._upstreams, self._guard, self._scope, self._call = upstreams, guard, scope, call
        self._asks = asks or {}  # for usage, which the client did not ask for
        self._usage = UsageSum()
        fields = request.fields
        words_only = (target.name, request.model, "refuses sampling") in target.known
        self._session = Session(
            request.messages,
            policy=guard,
            structured=dialect.is_structured(fields),
            earlier_loops=earlier_loops,
            max_tokens=dialect.token_limit(fields),
            how=dialect.resume,
            words_only=words_only or not dialect.sampling_overrides(SAMPLING[0], fields),
        )
        call.report = self._session.report

    async def run(self, response: Response, reply: Reply, headers: dict[str, str]) -> Response:
        """From the first response to all but the end of the reply: the last response, which the caller releases."""
        try:
            if await is_stream(response, self._request.fields):
                return await self._stream(response, reply, headers)
            await self._answer(response, reply, headers)
        except HeadgateError:
            if self._session.report.state is State.IDLE:  # nothing of the answer came
                self._session.fail()
            raise
        finally:
            self._session.leave()
            self._note_tokens()
            if self._session.report.cuts:
                self._call.answer = self._session.text
        return response

    async def _stream(self, response: Response, reply: Reply, headers: dict[str, str]) -> Response:
        reply.head(response.status, returned_headers(response), headers)
        reply.takes_events = True
        with self._upstreams.budget.share() as share:
            relay = Relay(
                self._dialect,
                self._session,
                self._request.fields,
                policy=self._upstreams.policy,
                call_again=self._call_again,
                write=reply.write,
                share=share,
                usage=self._usage,
                hides_usage=bool(self._asks),
            )
            try:
                return await relay.run(response)
            finally:
                if relay.has_error_event:
                    self._call.error = "upstream_error_event"

    async def _answer(self, response: Response, reply: Reply, headers: dict[str, str]) -> None:
        self._session.hold_calls_whole()  # nothing is out before all of it is read
        with self._upstreams.budget.share() as share:
            body, is_whole = await self._read(response, share)
            if not is_whole:
                self._call.unwatched = "the answer is too large to be held"
                headers |= {
                    "x-headgate-guard": "off",
                    "x-headgate-guard-reason": self._call.unwatched,
                }
                await self._pass_large(body, response, reply, headers)
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

            fields = self._request.fields
            body = await guard_answer(
                body, self._dialect, self._session, self._usage, call_again, fields=fields
            )
        headers["x-headgate-rollbacks"] = str(self._session.report.rollbacks)
        reply.head(response.status, returned_headers(response), headers)
        reply.put(body)

    async def _read(self, response: Response, share: Share) -> tuple[bytes, bool]:
        """The body of an answer, and whether that is all of it: the rest is left where there is no room for it."""
        body, limit = bytearray(), self._upstreams.policy.max_answer_bytes
        while data := await response.read():
            body += data
            if len(body) > limit or not share.try_hold(len(data)):
                return bytes(body), False
        return bytes(body), True

    async def _pass_large(
        self, begun: bytes, response: Response, reply: Reply, headers: dict[str, str]
    ) -> None:
        """Pass on an answer that cannot be held, as it comes. Nobody reads its usage, so its size is what is told."""
        reply.head(response.status, returned_headers(response), headers)
        await reply.write(begun)
        size = len(begun)
        while data := await response.read():
            await reply.write(data)
            size += len(data)
        self._usage.note(self._dialect.estimate_usage(0, size // 4))

    def _note_tokens(self) -> None:
        """The tokens of all calls: as the upstream reported them, else estimated."""
        call, usage = self._call, self._usage
        call.input_tokens, call.output_tokens = usage.tokens()
        call.cached_input = usage.cached_input()
        lacks_input, lacks_output = usage.gaps()
        generated = self._session.generated_tokens if lacks_output else 0
        call.output_tokens += generated
        call.untold_prompts += lacks_input
        call.estimated = usage.has_estimates or generated > 0

    # Asking again

    async def _call_again(self, call: Call) -> Response:
        """Call the model once more, to go on; by words alone where it refuses what is changed."""
        dialect, fields, session = self._dialect, self._request.fields, self._session
        if session.last_attempt and (rescued := await self._ask_rescue()):
            return rescued
        sampling = dialect.sampling_overrides(call.sampling or {}, fields)
        if sampling and session.words_only:  # the rescue was tried in vain
            call, sampling = session.reword(), {}
        changed: dict[str, Any] = sampling | (dialect.answer_now(fields) if call.answer_now else {})
        response = await self._ask({**self._going_on(call), **changed})
        if response.status in REFUSED and changed:
            if names_any(await read_refusal(response), sampling):
                self._target.known.add(self._target.name, self._request.model, "refuses sampling")
            response = await self._ask(self._going_on(session.reword()))
        if response.status != 200:
            status = response.status
            await response.close()
            raise UpstreamError(f"the upstream answered {status} when it was asked to go on")
        return response

    def _going_on(self, call: Call) -> dict[str, Any]:
        """The fields of a call that goes on: its conversation, and what is left of the token limit."""
        used = estimate_tokens(self._session.text)
        return {
            **self._dialect.replace_conversation(call.messages),
            **self._dialect.remaining_limit(self._request.fields, used),
        }

    async def _ask(self, changed: Mapping[str, Any]) -> Response:
        body = self._request.with_fields({**changed, **self._asks}).body
        with self._call.waiting():
            return await self._upstreams.send(self._target.upstream, self._scope, body, plain=True)

    async def _ask_rescue(self) -> Response | None:
        """The last try at another upstream; None where there is none, or it does not answer.

        It gets its own key and never the client's, and cannot take over an answer that builds on a stored one.
        """
        name = self._guard.rescue_upstream
        upstream = self._upstreams.policy.upstreams.get(name)
        if upstream is None or self._request.fields.get(self._dialect.reference_field):
            return None
        named = (model for model in upstream.models if not {"*", "?", "["} & set(model))
        model = next(named, self._request.model)
        changed = {"model": model, **self._going_on(self._session.reword())}
        body = self._request.with_fields(changed).body
        try:
            with self._call.waiting():
                response = await self._upstreams.send(
                    upstream, self._scope, body, plain=True, own_key_only=True
                )
        except UpstreamError:
            return None
        if response.status != 200:
            await response.close()
            return None
        self._call.rescued_by = name
        return response
