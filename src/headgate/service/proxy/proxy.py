"""Proxy: change one URL, and loops are over.

Requests of the APIs that the guard knows go through the gate: context in where it is asked for, the guard on what comes
out. Everything else under /v1 that is not ours is passed on as it is. Each app here is an ASGI application.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from hashlib import blake2b
from math import ceil
from pathlib import Path
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.errors import BusyError, ConfigError, HeadgateError, PartialCallError
from headgate.guard.calls import is_plain
from headgate.guard.climb_cache import ClimbCache
from headgate.guard.dialects import dialect_for
from headgate.guard.dialects.dialect import Dialect, InvalidRequest
from headgate.guard.dialects.error_codes import status_of
from headgate.guard.fuse import Hold
from headgate.guard.policy import CirclesPolicy, GuardPolicy
from headgate.keys import KEYLESS
from headgate.policy import ProxyPolicy
from headgate.service.body import ClientGone, read_apart, read_body
from headgate.service.byte_budget import ByteBudget
from headgate.service.problems import drop_traceback
from headgate.service.proxy.asgi import Reply, break_connection, run_while_connected
from headgate.service.proxy.circles import apply_ladder, describe, end_turn
from headgate.service.proxy.decoding import codings_of
from headgate.service.proxy.fuse import Fuse, count_prompt
from headgate.service.proxy.guarded import GuardedExchange, Target
from headgate.service.proxy.inject import Gate, inject
from headgate.service.proxy.model_call import ModelCall
from headgate.service.proxy.passthrough import copy, pass_on
from headgate.service.proxy.refusals import REFUSED, ExpiringSet, names_any
from headgate.service.proxy.remembered import Remembered
from headgate.service.proxy.request import ProxyRequest, parse_request
from headgate.service.proxy.sessions import session_of
from headgate.service.proxy.sse import encode, is_stream
from headgate.service.proxy.transport import Response
from headgate.service.proxy.upstreams import MayUse, Upstreams, request_path
from headgate.service.proxy.usage_tap import UsageTap
from headgate.text.bounded_json import HUGE

MAX_QUERY = 100_000  # characters of a question that its trace keeps
LARGE = 200_000  # bytes of a request whose conversation is read in a thread

Observe = Callable[[Scope, ModelCall], None]
SendBody = Callable[[bytes], Awaitable[Response]]
Work = Callable[[bytes], Coroutine[None, None, None]]


class Proxy:
    """The door in front of the models.

    `gate` builds contexts (Headgate.acontext_for), `tenant` says whose a request is, `may_use` which upstreams
    its sender may use with a held key, `observe` gets every call when it is over, `folder` or `remembered` holds
    injected blocks, `circles` is the ladder for agents that repeat their tool calls, `fuse` counts what calls spend,
    `key` says by which key a request came, `budget` bounds what answers hold in memory.
    """

    def __init__(
        self,
        policy: ProxyPolicy,
        guard: GuardPolicy | None = None,
        *,
        gate: Gate | None = None,
        tenant: Callable[[Scope], str] = lambda _: "default",
        may_use: MayUse = lambda _, __: True,
        observe: Observe | None = None,
        folder: Path | None = None,
        remembered: Remembered | None = None,
        circles: CirclesPolicy | None = None,
        fuse: Fuse | None = None,
        key: Callable[[Scope], str] = lambda _: "",
        budget: ByteBudget | None = None,
    ) -> None:
        self.policy, self.guard = policy, guard or GuardPolicy()
        self._circles, self._fuse, self._key = circles or CirclesPolicy(), fuse, key
        self._climbs = ClimbCache()
        by_model = [
            str(changes.get("rescue_upstream", "")) for changes in self.guard.models.values()
        ]
        for rescue in (self.guard.rescue_upstream, *by_model):
            if rescue and rescue not in policy.upstreams:
                raise ConfigError(
                    f"guard.rescue_upstream is {rescue!r}, which is no upstream",
                    hint=f"upstreams: {', '.join(sorted(policy.upstreams)) or 'none'}",
                )
        self.upstreams = Upstreams(policy, may_use=may_use, budget=budget)
        self._remembered = remembered or Remembered(folder / "proxy.db" if folder else None)
        self._known = ExpiringSet()
        self._gate, self._tenant, self._observe = gate, tenant, observe

    async def close(self) -> None:
        """Close the connections to the upstreams."""
        await self.upstreams.close()
        self._remembered.close()

    def app_for(self, kind: type[Dialect]) -> ASGIApp:
        """The application for the path of an API."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":
                await self.rest(scope, receive, send)
                return
            reply, dialect = Reply(send), kind()
            call = ModelCall(kind.path, kind.operation)
            work = partial(self._exchange, dialect, scope, reply, call)
            await self._serve(dialect, reply, scope, receive, work, call=call)

        return app

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything else."""
        reply, call = Reply(send), ModelCall("/v1/*")
        dialect = dialect_for(scope["path"])

        async def work(body: bytes) -> None:
            path = await self._stored_path(dialect, request_path(scope))
            call.model, call.upstream = await pass_on(self.upstreams, scope, body, reply, path)

        await self._serve(dialect, reply, scope, receive, work, call=call)

    async def _serve(
        self,
        dialect: Dialect,
        reply: Reply,
        scope: Scope,
        receive: Receive,
        work: Work,
        *,
        call: ModelCall,
    ) -> None:
        """Read the body, do the work, tell what goes wrong in the way of the API, and report the call.

        The call is reported before the end of its reply: whoever has the reply finds the call counted.
        """
        last = b""
        try:
            limit = self.policy.max_body_bytes
            body = await read_body(scope, receive, limit=limit, setting="proxy.max_body_bytes")
            await run_while_connected(receive, work(body))
        except ClientGone:
            self._report(scope, call, reply)
            return
        except PartialCallError as error:
            call.error = type(error).__name__
            self._report(scope, call, reply)
            await reply.break_off()
            await break_connection(scope, receive)
            return
        except HeadgateError as error:
            drop_traceback(error)
            call.error = type(error).__name__
            if reply.begun and not reply.takes_events:
                # an error in the middle of JSON would be read as a part of it
                self._report(scope, call, reply)
                await break_connection(scope, receive)
                return
            if reply.begun:
                event = dialect.error_event(error)
                last = encode(event, name=dialect.event_name(event))
            else:
                said = dialect.error(error, getattr(error, "param", None))
                reply.put_json(status_of(error), said, _error_headers(error, call))
        except BaseException as error:
            call.error = type(error).__name__
            self._report(scope, call, reply)
            raise
        self._report(scope, call, reply)
        await reply.end(last)

    def _report(self, scope: Scope, call: ModelCall, reply: Reply) -> None:
        call.status = reply.status
        call.end(reply.begun_at)
        if self._observe is not None:
            self._observe(scope, call)

    async def _exchange(
        self, dialect: Dialect, scope: Scope, reply: Reply, call: ModelCall, body: bytes
    ) -> None:
        request = await read_apart(
            body, parse_request, scope["headers"], body, dialect, self.policy
        )
        call.model = request.model
        name, upstream = self.upstreams.find(request.model, request.options.upstream)
        call.upstream, call.server = name, upstream.url
        request = await self._stored_reference(dialect, request)
        questions = (dialect.human_text(message) for message in reversed(request.messages))
        found = next((text for text in questions if text and not text.isspace()), "")
        call.query = found[:MAX_QUERY]
        call.session = session_of(scope["headers"], request.fields, request.messages)
        headers = {"x-headgate-upstream": name, "x-headgate-call": call.id}
        if request.options.context and self._gate is not None:
            tenant, key = self._tenant(scope), self._key(scope)
            request, more = await inject(
                request, dialect, self._gate, tenant, self._remembered, asker=key or KEYLESS
            )
            call.context_trace = more.get("x-headgate-trace", "")
            headers |= more
        policy = request.options.circles or self._circles.for_key(self._key(scope))
        if len(request.body) > LARGE and not is_plain(request.messages):
            # reading it takes milliseconds, and longer where it is hostile
            request, call.climb = await asyncio.to_thread(
                apply_ladder, request, dialect, policy, self._climbs
            )
        else:
            request, call.climb = apply_ladder(request, dialect, policy, self._climbs)
        if call.climb.marks or call.climb.ended:
            headers["x-headgate-circles"] = describe(call.climb)
        call.sent = request.body if len(request.body) <= HUGE else b""  # reading it takes seconds
        call.length = request.options.window
        if call.climb.ended:
            await end_turn(dialect, request, call.climb.ended, reply, headers)
            return
        target = Target(name, upstream, self._known)
        held: Hold | None = None
        if self._fuse is not None:
            held, told = await self._fuse.hold(scope, request, dialect, call)
            headers |= told
        asks = dialect.ask_usage(request.fields) if held else {}
        ask = partial(self._ask, dialect, scope, request, reply, call, target=target)
        try:
            await ask(headers=headers, is_capped=held is not None, asks=asks)
        finally:
            await asyncio.shield(self._settle(scope, request, call, held))

    async def _settle(
        self, scope: Scope, request: ProxyRequest, call: ModelCall, held: Hold | None
    ) -> None:
        """The call is over: estimate the prompts that nobody told the tokens of, and book what was spent."""
        if call.untold_prompts:
            call.input_tokens += call.untold_prompts * await count_prompt(request, call)
            call.estimated = True
        if self._fuse is not None and held is not None:
            await self._fuse.settle(scope, held, call)

    async def _ask(
        self,
        dialect: Dialect,
        scope: Scope,
        request: ProxyRequest,
        reply: Reply,
        call: ModelCall,
        *,
        target: Target,
        headers: dict[str, str],
        is_capped: bool,
        asks: Mapping[str, Any],
    ) -> None:
        """Ask the model, and give its answer to the client, under the guard where that is wanted."""
        guard = self._guard_for(request)
        watched = self._is_watched(guard, dialect, request, call)
        send = partial(self._send, scope, target, call, plain=watched or is_capped)
        response, asks = await self._send_asking(send, request, target, asks)
        call.answered = response.status == 200
        codings = codings_of(response.headers) if watched and call.answered else []
        if codings:  # unasked, and unknown: else it would be plain by now
            watched = False
            call.unwatched = f"the answer is compressed: {b', '.join(codings).decode('latin-1')}"
        try:
            if not watched or not call.answered:
                headers["x-headgate-guard"] = "off"
                if call.unwatched:
                    headers["x-headgate-guard-reason"] = call.unwatched
                if is_capped and call.answered:
                    await self._copy_counted(
                        dialect, request, response, reply, call, headers=headers, hides=bool(asks)
                    )
                else:
                    await copy(response, reply, headers)
                await response.close()
                return
            headers["x-headgate-guard"] = "on"
            looped = _looped_key(f"{self._tenant(scope)}\0{self._key(scope)}", request)
            exchange = GuardedExchange(
                dialect,
                request,
                target,
                self.upstreams,
                guard,
                scope=scope,
                call=call,
                earlier_loops=await self._remembered.get(looped) is not None,
                asks=asks,
            )
            try:
                response = await exchange.run(response, reply, headers)
            except PartialCallError:
                await self._remembered.put(looped, b"1")
                raise
        except BaseException:
            await response.close()
            raise
        await self.upstreams.release(response)
        await self._remember_answer(dialect, call)

    async def _send(
        self, scope: Scope, target: Target, call: ModelCall, body: bytes, *, plain: bool
    ) -> Response:
        with call.waiting():
            return await self.upstreams.send(target.upstream, scope, body, plain=plain)

    async def _send_asking(
        self, send: SendBody, request: ProxyRequest, target: Target, asks: Mapping[str, Any]
    ) -> tuple[Response, Mapping[str, Any]]:
        """The response, and the fields that were added to the request.

        An upstream that refuses them is asked again without, and the next time at once: what we add may not cost the
        client its answer.
        """
        known, who = target.known, (target.name, request.model)
        if not asks or (*who, "refuses usage") in known:
            return await send(request.body), {}
        response = await send(request.with_added(asks))
        if response.status not in REFUSED:
            if response.status == 200:
                known.add(*who, "takes usage")
            return response, asks
        is_named = names_any(await response.peek(), asks)
        if not is_named and (*who, "takes usage") in known:
            return response, asks
        await response.close()
        response = await send(request.body)
        if is_named or response.status == 200:
            known.add(*who, "refuses usage")
        return response, {}

    async def _copy_counted(
        self,
        dialect: Dialect,
        request: ProxyRequest,
        response: Response,
        reply: Reply,
        call: ModelCall,
        *,
        headers: dict[str, str],
        hides: bool,
    ) -> None:
        """Pass an answer on unwatched, and read what it spent."""
        call.is_untold = call.estimated = True
        if codings_of(response.headers):
            await copy(response, reply, headers)
            return
        streams = await is_stream(response, request.fields)
        tap = UsageTap(dialect, is_stream=streams, hides=hides)
        try:
            await copy(response, reply, headers, tap)
        finally:
            call.is_untold = call.estimated = any(tap.usage.gaps())
            call.input_tokens, call.output_tokens = tap.usage.tokens()
            call.cached_input = tap.usage.cached_input()

    def _guard_for(self, request: ProxyRequest) -> GuardPolicy:
        """The guard's policy for this model, with the changes of the headers."""
        guard = self.guard.for_model(request.model)
        try:
            return guard.replace(request.options.guard_changes)
        except ConfigError as error:
            raise InvalidRequest(f"x-headgate-guard-*: {error}") from error

    @staticmethod
    def _is_watched(
        guard: GuardPolicy, dialect: Dialect, request: ProxyRequest, call: ModelCall
    ) -> bool:
        if not guard.enabled or not request.options.guard:
            return False
        call.unwatched = dialect.why_unwatched(request.fields)
        return not call.unwatched

    # Answers that an upstream stores. After a rollback the client knows one by the id of its first call, and the
    # upstream by that of the last: whoever names the first means the last.

    async def _remember_answer(self, dialect: Dialect, call: ModelCall) -> None:
        known, stored = dialect.answer_ids
        call.response_id = known
        if known != stored:
            await self._remembered.put(_answer_key(known), stored.encode())

    async def _stored_id(self, id: str) -> str:
        stored = await self._remembered.get(_answer_key(id))
        return stored.decode() if stored else id

    async def _stored_reference(self, dialect: Dialect, request: ProxyRequest) -> ProxyRequest:
        name = dialect.reference_field
        id = request.fields.get(name) if name else None
        stored = await self._stored_id(id) if isinstance(id, str) and id else id
        return request if stored == id else request.with_fields({name: stored})

    async def _stored_path(self, dialect: Dialect, path: str) -> str:
        """A path below that of an API, such as /v1/responses/ID, with the id that the upstream knows."""
        start = f"{dialect.path}/"
        if not dialect.reference_field or not path.startswith(start):
            return path
        id, slash, rest = path.removeprefix(start).partition("/")
        return f"{start}{await self._stored_id(id)}{slash}{rest}"


def _answer_key(id: str) -> bytes:
    return b"answer:" + orjson.dumps(id)


def _looped_key(owner: str, request: ProxyRequest) -> bytes:
    """By what the retry of a request is known whose tool call looped: the end of the same conversation.

    Other fields may differ: some clients do not stream their retry.
    """
    messages = request.messages
    end = orjson.dumps((owner, request.model, len(messages), messages[-2:]), default=dict)
    return b"looped:" + blake2b(end, digest_size=16).digest()


def _error_headers(error: HeadgateError, call: ModelCall) -> dict[str, str]:
    """The call, so that it can be asked why; and when to come again, where that is known."""
    headers = {"x-headgate-call": call.id}
    if isinstance(error, BusyError):
        headers["retry-after"] = str(ceil(error.retry_after))
    return headers
