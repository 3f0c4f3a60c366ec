"""Steps: what the proxy does with one exchange, a function a step, in the order in which `Proxy._answer` calls them.

A step reads what the steps before it have put into the Exchange, and adds its own. Those about caps on spending are in
fuse_steps.py, and those about the provider's cache in cache_steps.py.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from uuid import uuid4

import orjson

from millgate.calls.bugs import surviving
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import last_results
from millgate.circles.steps import ending
from millgate.errors import ConfigError, LoopError, MillgateError, PartialCallError
from millgate.guard.dialects.dialect import Dialect, InvalidRequest, OwnAnswer
from millgate.guard.policy import GuardPolicy
from millgate.guard.resume import Message
from millgate.keys import KEYLESS
from millgate.service.conversation_state import ConversationState, answer_key
from millgate.service.edge.body import read_apart
from millgate.service.proxy.exchange import Exchange, Observer
from millgate.service.proxy.fold_steps import choose_group, find_start, stop_folding
from millgate.service.proxy.guarded import GuardedAnswer
from millgate.service.proxy.inject import MAX_QUERY, find_blocks
from millgate.service.proxy.kept_windows import restore_windows
from millgate.service.proxy.passthrough import copy, copy_counted, copy_noting
from millgate.service.proxy.prepare import Known, Policies, prepare
from millgate.service.proxy.proxy_request import ProxyRequest, parse_request
from millgate.service.proxy.session_name import session_of
from millgate.service.proxy.sse import encode
from millgate.service.proxy.transport import NOT_REACHED, Response, codings_of, header
from millgate.service.proxy.upstreams import REFUSED, Upstreams, names_any
from millgate.sessions.compaction.policy import CompactionPolicy
from millgate.sessions.conversation import Conversations
from millgate.sessions.folding.policy import FoldPolicy
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.text.bounded_json import HUGE
from millgate.types import Context, Request
from millgate.types.policy import ProxyPolicy

# Bytes of a request whose conversation and tokens are read in a thread: that takes a millisecond and more.
LARGE = 200_000
SEVERED = b"severed:"  # before the digest of reasoning that was cut
HOUR_S = 3600
# An agent that cannot use an answer says so and asks again at once: the answer and one or two messages more. A person
# reads first and takes longer.
FOLLOW_UP_MESSAGES, FOLLOW_UP_S = 3, 30.0
STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator wants done with requests."""

    proxy: ProxyPolicy
    circles: CirclesPolicy = field(default_factory=CirclesPolicy)
    fold: FoldPolicy = field(default_factory=FoldPolicy)
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)


# Read, and choose the upstream


async def read(
    exchange: Exchange, body: bytes, policy: ProxyPolicy, conversations: ConversationState
) -> None:
    """Parse the request: its model, its conversation, its options, its session."""
    dialect, call = exchange.dialect, exchange.call
    dialect.read_target(exchange.path, exchange.query)
    request = await read_apart(body, parse_request, exchange.headers, body, dialect, policy)
    name = dialect.reference_field
    id = request.fields.get(name) if name else None
    if isinstance(id, str) and id:
        stored = await conversations.stored_answer(exchange.caller.tenant, id)
        request = request if stored == id else request.with_fields({name: stored})
    exchange.original = request
    exchange.request = request = await _drop_severed_reasoning(request, dialect, conversations)
    call.model, call.length = request.model, request.options.window
    call.key = exchange.caller.key
    call.tool_results = last_results(request.messages)
    call.session = session_of(exchange.headers, request.fields, request.messages, api=dialect.path)
    texts = (dialect.human_text(message) for message in reversed(request.messages))
    call.query = next((text for text in texts if text and not text.isspace()), "")[:MAX_QUERY]


async def _drop_severed_reasoning(
    request: ProxyRequest, dialect: Dialect, conversations: ConversationState
) -> ProxyRequest:
    """The request without reasoning that we cut in an earlier answer: nobody has signed it, so the API refuses it."""
    found = dialect.unsigned_reasoning(request.messages)
    known = await conversations.get_all([SEVERED + key for key, *_ in found]) if found else {}
    gone = {(at, place) for key, at, place in found if SEVERED + key in known}
    if not gone:
        return request
    messages: list[Message] = []
    for at, message in enumerate(request.messages):
        if all(at != where for where, _ in gone):
            messages.append(message)
            continue
        parts = [part for n, part in enumerate(message["content"]) if (at, n) not in gone]
        messages += [{**message, "content": parts}] if parts else []
    return request.with_messages(messages, dialect)


def choose_upstream(exchange: Exchange, upstreams: Upstreams) -> None:
    """Find the upstream that has the model, or that a header names."""
    request, call = exchange.request, exchange.call
    name, upstream = upstreams.find(request.model, request.options.upstream)
    exchange.upstream_name, exchange.upstream = name, upstream
    call.upstream, call.server = name, upstream.url
    exchange.reply_headers |= {"x-millgate-upstream": name, "x-millgate-call": call.id}


# What is known of the conversation


async def recall(
    exchange: Exchange, conversations: Conversations, remembered: ConversationState
) -> None:
    """Find what is known of the conversation: the request that this one goes on with."""
    original = exchange.original
    if len(original.body) > HUGE:
        return
    with surviving("reading what is kept of a caller's windows"):
        await restore_windows(exchange.owner, conversations, remembered)
    with surviving("finding the conversation"):
        if len(original.body) > LARGE:
            await asyncio.to_thread(_recall, exchange, conversations)
        else:
            _recall(exchange, conversations)


def _recall(exchange: Exchange, conversations: Conversations) -> None:
    owner, session = exchange.owner, exchange.call.session
    known = conversations.of_session(owner, session)
    before = known[-1].original if known else None
    exchange.prompt = read_prompt(exchange.original.fields, betas=exchange.betas, before=before)
    exchange.last = conversations.find(owner, session, exchange.prompt)


async def inject_context(
    exchange: Exchange, remembered: ConversationState, observer: Observer | None
) -> None:
    """Find the block of context for each question, if the request or the settings ask for it."""
    gate, caller, call = exchange.gate, exchange.caller, exchange.call
    if gate is None or not exchange.request.options.context:
        return

    async def build(question: Request) -> Context:
        # The client may have named none; the trace then stands beside the call that it was made for.
        context = await gate.acontext_for(
            replace(question, session=question.session or call.session)
        )
        if observer is not None:
            observer.count_context(context)
        return context

    # what a compaction left standing had its context before
    compacted = exchange.window.found if exchange.window else None
    with surviving("the injection of a context", but=MillgateError):
        exchange.blocks["context"], headers = await find_blocks(
            exchange.request,
            exchange.dialect,
            build,
            caller.tenant,
            remembered,
            asker=caller.key or KEYLESS,
            begin=compacted.at if compacted else 0,
        )
        call.context_trace = headers.get("x-millgate-trace", "")
        call.context_tokens = int(headers.get("x-millgate-context-tokens", "0"))
        exchange.reply_headers |= headers


async def prepare_request(
    exchange: Exchange,
    conversations: Conversations,
    folds: ConversationState,
    settings: Settings,
) -> None:
    """Take the one step that changes the request; `call` says what was done."""
    request, call, caller = exchange.request, exchange.call, exchange.caller
    policies = Policies(
        request.options.circles or settings.circles.for_key(caller.key),
        fold=choose_group(exchange, settings.fold),
        repair=settings.proxy.repair,
    )
    with surviving("the state of a fold"):
        if policies.fold == "on":
            policies = replace(policies, fold_start=await find_start(exchange, folds))
    with surviving("the preparation of a request"):
        known = Known(
            exchange.dialect,
            prompt=exchange.prompt,
            betas=exchange.betas,
            last=exchange.last,
            is_compacted=exchange.window is not None and exchange.window.found is not None,
            followers=conversations.lend(exchange.last),
            blocks=[blocks for blocks in exchange.blocks.values() if blocks is not None],
        )
        if len(request.body) > LARGE:
            exchange.prepared = await asyncio.to_thread(prepare, request, known, policies)
        else:
            exchange.prepared = prepare(request, known, policies)
    done = exchange.prepared
    if done is None:
        return
    exchange.request, call.circles, call.fold, call.repaired = (
        done.request,
        done.circles,
        done.fold,
        done.repaired,
    )
    exchange.reply_headers |= done.headers
    call.sent = (
        done.request.body if len(done.request.body) <= HUGE else b""
    )  # reading it takes seconds
    if call.fold is not None and call.fold.has_stopped and call.fold.group == "on":
        await stop_folding(exchange, folds)


async def end_turn(exchange: Exchange) -> None:
    """Answer in the model's place, streamed or whole, if a circle ended the turn: all but the end of the reply."""
    dialect, request, reply = exchange.dialect, exchange.request, exchange.reply
    circle = exchange.call.circles.ended
    assert circle is not None
    answer = OwnAnswer(ending(circle), request.model, uuid4().hex, int(time.time()))
    if not dialect.streams(request.fields):
        reply.put_json(200, dialect.own_answer(answer), exchange.reply_headers)
        return
    reply.head(200, STREAM, exchange.reply_headers)
    for event in dialect.own_events(answer, request.fields):
        await reply.write(encode(event, name=dialect.event_name(event)))
    if dialect.done:
        await reply.write(b"data: " + dialect.done + b"\n\n")


# Send


async def send(exchange: Exchange, upstreams: Upstreams, guard: GuardPolicy) -> Response:
    """Send the request to its upstream; the response, once its head has come."""
    exchange.guard = _guard_for(exchange.request, guard)
    exchange.is_watched = _is_watched(exchange)
    response = await _send_asking_usage(exchange, upstreams)
    prepared = exchange.prepared
    if prepared is not None and prepared.unrepaired is not None and response.status in REFUSED:
        # what we changed may not cost the client its answer
        await response.close()
        exchange.request, prepared.unrepaired = prepared.unrepaired, None
        exchange.call.repaired = ""
        exchange.reply_headers.pop("x-millgate-repaired", None)
        response = await _send_asking_usage(exchange, upstreams)
    exchange.call.answered = response.status == 200
    exchange.call.not_reached = header(response.headers, NOT_REACHED) == b"1"
    codings = codings_of(response.headers) if exchange.is_watched and response.status == 200 else []
    if codings:  # unasked, and unknown: else the body would be plain by now
        exchange.is_watched = False
        names = b", ".join(codings).decode("latin-1")
        exchange.call.unwatched = f"the answer is compressed: {names}"
    return response


def _guard_for(request: ProxyRequest, guard: GuardPolicy) -> GuardPolicy:
    """The guard's policy for this model, with the changes of the headers."""
    try:
        return guard.for_model(request.model).replace(request.options.guard_changes)
    except ConfigError as error:
        raise InvalidRequest(f"x-millgate-guard-*: {error}") from error


def _is_watched(exchange: Exchange) -> bool:
    if not exchange.guard.enabled or not exchange.request.options.guard:
        return False
    exchange.call.unwatched = exchange.dialect.why_unwatched(exchange.request.fields)
    return not exchange.call.unwatched


async def _send_asking_usage(exchange: Exchange, upstreams: Upstreams) -> Response:
    """Send the request, with fields that ask for usage if a cap needs it.

    An upstream that refuses these fields is asked again without them, and the next time at once: what we add may not
    cost the client its answer.
    """
    request, facts, who = exchange.request, upstreams.facts, (exchange.upstream_name, exchange.request.model)  # fmt: skip
    fields = exchange.dialect.ask_usage(request.fields) if exchange.hold else {}
    if not fields or (*who, "refuses usage") in facts:
        return await _send(exchange, upstreams, request.body)
    exchange.usage_fields = fields
    response = await _send(exchange, upstreams, request.with_added(fields))
    if response.status not in REFUSED:
        if response.status == 200:
            facts.add(*who, "takes usage")
        return response
    is_named = names_any(await response.peek(), fields)
    if not is_named and (*who, "takes usage") in facts:
        return response
    await response.close()
    exchange.usage_fields = {}
    response = await _send(exchange, upstreams, request.body)
    if is_named or response.status == 200:
        facts.add(*who, "refuses usage")
    return response


async def _send(exchange: Exchange, upstreams: Upstreams, body: bytes) -> Response:
    plain = exchange.is_watched or exchange.hold is not None
    with exchange.call.waiting():
        return await upstreams.send(exchange, exchange.upstream, body, plain=plain)


# Relay


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
        if exchange.hold is not None and call.answered:
            await copy_counted(exchange, response)
        elif call.answered:
            await copy_noting(exchange, response)
        else:
            await copy(response, exchange.reply, headers)
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
