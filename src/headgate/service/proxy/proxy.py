"""Proxy: change one URL, and loops are over.

chat and messages go through the gate: context in where it is asked for, the guard on what comes out. Everything else
under /v1 that is not ours is passed on as it is. Each method is an ASGI application.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from headgate.errors import HeadgateError, UpstreamError
from headgate.guard.policy import GuardPolicy
from headgate.guard.report import GuardReport
from headgate.guard.resume import Call
from headgate.guard.rollback import Session
from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.body import ClientGone, read_body
from headgate.service.proxy.answer import guarded
from headgate.service.proxy.asgi import Reply, attended
from headgate.service.proxy.inflate import plain
from headgate.service.proxy.inject import Gate, inject
from headgate.service.proxy.passthrough import copy, pass_on
from headgate.service.proxy.relay import Relay
from headgate.service.proxy.request import Ask, ask_of
from headgate.service.proxy.speech import ChatSpeech, MessagesSpeech, Speech, status_of
from headgate.service.proxy.transport import Answer, header
from headgate.service.proxy.upstreams import Upstreams, replied, whole
from headgate.text.tokens import estimate_tokens

STREAM = b"text/event-stream"
END_S = (
    0.25  # how long the end of an answer is waited for, so that its connection can be used again
)
REFUSED = (400, 422)  # what upstreams say to sampling they do not know

Observe = Callable[[Scope, GuardReport], None]


class Sent(NamedTuple):
    """One exchange with the model: what was asked, of whom, by whom."""

    speech: Speech
    ask: Ask
    upstream: UpstreamPolicy
    scope: Scope


class Proxy:
    """The door in front of the models.

    `gate` builds contexts (Headgate.acontext_for), `tenant` says whose a request is, `observe` gets the guard's report of
    every answer.
    """

    def __init__(
        self,
        policy: ProxyPolicy,
        guard: GuardPolicy | None = None,
        *,
        gate: Gate | None = None,
        tenant: Callable[[Scope], str] = lambda _: "default",
        observe: Observe | None = None,
    ) -> None:
        self.policy, self.guard = policy, guard or GuardPolicy()
        self.upstreams = Upstreams(policy, tick_s=self.guard.keep_alive_s)
        self._gate, self._tenant, self._observe = gate, tenant, observe

    async def close(self) -> None:
        """Close the connections to the upstreams."""
        await self.upstreams.close()

    async def chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        """OpenAI's chat completions."""
        await self._serve(ChatSpeech(), scope, receive, send)

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Anthropic's messages."""
        await self._serve(MessagesSpeech(), scope, receive, send)

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything else."""
        speech: Speech = MessagesSpeech() if "/messages" in scope["path"] else ChatSpeech()
        reply = Reply(send)

        async def work(body: bytes) -> None:
            await pass_on(self.upstreams, scope, body, reply)

        await self._attend(speech, reply, scope, receive, work)

    async def _serve(self, speech: Speech, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self.rest(scope, receive, send)
            return
        reply = Reply(send)

        async def work(body: bytes) -> None:
            await self._exchange(speech, scope, body, reply)

        await self._attend(speech, reply, scope, receive, work)

    async def _attend(
        self,
        speech: Speech,
        reply: Reply,
        scope: Scope,
        receive: Receive,
        work: Any,  # noqa: ANN401  # async (bytes) -> None
    ) -> None:
        """Read the body, do the work, and tell what goes wrong in the way of the API."""
        try:
            limit = self.policy.max_body_bytes
            body = await read_body(scope, receive, limit=limit, setting="proxy.max_body_bytes")
            await attended(receive, work(body))
        except ClientGone:
            return
        except HeadgateError as error:
            if reply.begun:
                await reply.end(speech.broken(error))
                return
            param = getattr(error, "param", None)
            await reply.json(status_of(error), speech.error(error, param))

    async def _exchange(self, speech: Speech, scope: Scope, body: bytes, reply: Reply) -> None:
        ask = ask_of(scope["headers"], body, self.policy)
        name, upstream = self.upstreams.find(ask.model, ask.knobs.upstream)
        told = {"x-headgate-upstream": name}
        if ask.knobs.context and self._gate is not None:
            ask, more = await inject(ask, self._gate, self._tenant(scope))
            told |= more
        guard = self._watched(ask)
        answer = await self.upstreams.send(upstream, scope, ask.body, plain=guard)
        try:
            if not guard or answer.status != 200:
                await self._raw(answer, upstream, reply, told | {"x-headgate-guard": "off"})
                await answer.close()
                return
            answer = plain(answer)
            told["x-headgate-guard"] = "on"
            answer = await self._guarded(Sent(speech, ask, upstream, scope), answer, reply, told)
        except BaseException:
            await answer.close()
            raise
        self.upstreams.release(answer)

    def _watched(self, ask: Ask) -> bool:
        """Whether the guard watches; several choices at once cannot be asked for again."""
        return self.guard.enabled and ask.knobs.guard and ask.fields.get("n") in (None, 1)

    async def _raw(
        self, answer: Answer, upstream: UpstreamPolicy, reply: Reply, told: Mapping[str, str]
    ) -> None:
        """Pass an answer on as it is."""
        await copy(answer, reply, told, upstream.idle_s)

    async def _guarded(
        self, sent: Sent, answer: Answer, reply: Reply, told: dict[str, str]
    ) -> Answer:
        session = self._session(sent)
        serve = (
            self._stream
            if header(answer.headers, b"content-type").startswith(STREAM)
            else self._answer
        )
        try:
            answer = await serve(sent, session, answer, reply, told)
        finally:
            session.leave()
            if self._observe is not None:
                self._observe(sent.scope, session.report)
        await reply.end()
        return answer

    def _session(self, sent: Sent) -> Session:
        fields, wire = sent.ask.fields, sent.speech.wire
        limit = wire.limit(fields) if _numbers(fields) else 0
        return Session(
            sent.ask.messages,
            policy=self.guard,
            structured=wire.structured(fields),
            max_tokens=limit,
        )

    async def _stream(
        self, sent: Sent, session: Session, answer: Answer, reply: Reply, told: dict[str, str]
    ) -> Answer:
        reply.head(answer.status, replied(answer), told)
        options = sent.ask.fields.get("stream_options")
        relay = Relay(
            sent.speech,
            session,
            policy=self.policy,
            idle_s=sent.upstream.idle_s,
            again=lambda call: self._again(sent, session, call),
            write=reply.write,
            usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
        )
        return await relay.run(answer)

    async def _answer(
        self, sent: Sent, session: Session, answer: Answer, reply: Reply, told: dict[str, str]
    ) -> Answer:
        limit, idle_s = self.policy.max_answer_bytes, sent.upstream.idle_s
        headers = replied(answer)
        body = await whole(answer, limit, idle_s)

        async def again(call: Call) -> bytes:
            further = await self._again(sent, session, call)
            try:
                return await whole(further, limit, idle_s)
            finally:
                await further.close()

        body = await guarded(body, sent.speech, session, again)
        told["x-headgate-rollbacks"] = str(session.report.rollbacks)
        reply.head(answer.status, headers, told)
        reply.put(body)
        return answer

    async def _again(self, sent: Sent, session: Session, call: Call) -> Answer:
        """Call the model once more, to go on; without changed sampling where it does not take it."""
        speech, fields = sent.speech, sent.ask.fields
        left = speech.limited(fields, estimate_tokens(session.text)) if _numbers(fields) else {}
        changed = speech.wire.sampling(call.sampling or {}, fields) if _numbers(fields) else {}
        answer = await self._ask(sent, {"messages": call.messages, **left, **changed})
        if answer.status in REFUSED and changed:
            await answer.close()
            answer = await self._ask(sent, {"messages": call.messages, **left})
        if answer.status != 200:
            status = answer.status
            await answer.close()
            raise UpstreamError(f"the upstream answered {status} when it was asked to go on")
        return plain(answer)

    async def _ask(self, sent: Sent, fields: Mapping[str, Any]) -> Answer:
        body = sent.ask.changed(**fields).body
        return await self.upstreams.send(sent.upstream, sent.scope, body, plain=True)


def _numbers(fields: Mapping[str, Any]) -> bool:
    """Whether what the guard would change are numbers; anything else is for the upstream to refuse."""
    names = (
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "frequency_penalty",
        "presence_penalty",
        "top_p",
    )
    return all(isinstance(fields.get(name), int | float | None) for name in names)
