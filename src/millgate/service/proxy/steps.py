"""Steps: what the proxy does with one exchange, a function a step, in the order in which `Proxy._answer` calls them.

A step reads what the steps before it have put into the Exchange, and adds its own. Those about caps on spending are in
fuse_steps.py.

What a conversation sent before folding was switched on stays as it was, since the provider may hold it in its cache. So
the first request that is folded says where folding begins, and the conversation's state keeps that.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from uuid import uuid4

from millgate.calls.bugs import surviving
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import last_results, opening
from millgate.circles.steps import ending
from millgate.errors import MillgateError
from millgate.guard.dialects.dialect import Dialect, OwnAnswer, digest
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.resume import Message
from millgate.keys import KEYLESS
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.body import read_apart
from millgate.service.observe.model_call import FoldGroup, ModelCall
from millgate.service.proxy.answer import SEVERED
from millgate.service.proxy.compaction_steps import restore_windows
from millgate.service.proxy.exchange import Exchange, Observer
from millgate.service.proxy.inject import MAX_QUERY, find_blocks
from millgate.service.proxy.prepare import Known, Policies, find_unseen, prepare
from millgate.service.proxy.request import ProxyRequest, parse_request, session_of
from millgate.service.proxy.send import Upstreams
from millgate.service.proxy.sse import encode
from millgate.sessions.compaction.policy import CompactionPolicy
from millgate.sessions.conversation import Conversations
from millgate.sessions.folding.policy import FoldPolicy
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.text.bounded_json import HUGE
from millgate.transcript.parts import is_from_model, texts_of
from millgate.transcript.words import asks_for_title
from millgate.types import Context, Request
from millgate.types.policy import ProxyPolicy

# Bytes of a request whose conversation and tokens are read in a thread: that takes a millisecond and more.
LARGE = 200_000
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
    exchange: Exchange,
    conversations: Conversations,
    remembered: ConversationState,
    observer: Observer | None,
) -> None:
    """Find the block of context for each question, if the request or the settings ask for it.

    A call for a title gets none. A call without tools, in a session whose other calls have tools, keeps the blocks that
    its conversation has and gets no other.
    """
    gate, caller, call = exchange.gate, exchange.caller, exchange.call
    fields = exchange.request.fields
    if gate is None or not exchange.request.options.context:
        return
    said = [*exchange.dialect.preamble(fields), *texts_of(next(iter(exchange.request.messages), None))]  # fmt: skip
    if not fields.get("tools") and any(map(asks_for_title, said)):
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
    begin = compacted.at if compacted else 0
    with surviving("the injection of a context", but=MillgateError):
        exchange.blocks["context"], headers = await find_blocks(
            exchange.request,
            exchange.dialect,
            build,
            caller.tenant,
            remembered,
            asker=caller.key or KEYLESS,
            begin=None if _is_side_call(exchange, conversations) else begin,
        )
        call.context_trace = headers.get("x-millgate-trace", "")
        call.context_tokens = int(headers.get("x-millgate-context-tokens", "0"))
        exchange.reply_headers |= headers


def _is_side_call(exchange: Exchange, conversations: Conversations) -> bool:
    """Whether a call has no tools, and other calls of its session have."""
    if exchange.request.fields.get("tools"):
        return False
    known = conversations.of_session(exchange.owner, exchange.call.session)
    return any(element.kind == "tool" for one in known for element in one.original.elements)


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
    exchange.request, call.circles, call.fold = done.request, done.circles, done.fold
    call.repaired, call.unknown_parts = done.repaired, done.unknown_parts
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


FOLDED = b"fold:"  # before the digest of a conversation: where its folding begins
STOPPED = b"fold stopped:"  # before the digest of a session in which folding stopped
NEVER = 1 << 30  # begins behind every conversation


def choose_group(exchange: Exchange, policy: FoldPolicy) -> FoldGroup | None:
    """Whether the request is folded, only measured, or neither, by the settings and its header."""
    request, call = exchange.request, exchange.call
    mode = request.options.fold or policy.mode_for(
        upstream=exchange.upstream_name, key=call.key, session=call.session
    )
    if mode == "off" or len(request.body) > HUGE:
        return None
    return "holdout" if mode == "on" and policy.is_held_out(call.session) else mode


async def find_start(exchange: Exchange, folds: ConversationState) -> int:
    """The first message of a conversation that may be folded, decided when it is first seen.

    All of a new conversation may be. Of one that has begun without folding only what the model has not seen. None of
    one whose session stopped folding, or whose state cannot be kept: it must be the same for every request.
    """
    owner, messages = exchange.conversation_owner, exchange.original.messages
    key, stopped = FOLDED + digest(f"{owner}\0{opening(messages)}"), STOPPED + digest(owner)
    known = await folds.get_all([key, stopped])
    if key not in known:
        is_new = not any(map(is_from_model, messages))
        start = 0 if is_new else find_unseen(messages)
        if stopped in known or folds.failure:
            start = NEVER
        if folds.failure:
            exchange.reply_headers["x-millgate-degraded"] = f"fold: {folds.failure}"
        known[key] = await folds.put(key, b"%d" % start)
    return int(known[key])


async def stop_folding(exchange: Exchange, folds: ConversationState) -> None:
    """Fold no later conversation of the session."""
    await folds.put(STOPPED + digest(exchange.conversation_owner), b"1")


def judge_cache(exchange: Exchange) -> None:
    """Judge what the provider says that it read."""
    call = exchange.call
    observed = exchange.prepared.observation if exchange.prepared else None
    if observed is None or not call.answered:
        return
    with surviving("the cache witness"):
        call.cache_observation, call.cache_counts = observed, counts_of(call, exchange.dialect)
        call.cache_judgment = observed.judge(
            call.cache_counts, time.time(), diagnosis=call.cache_diagnosis
        )


def counts_of(call: ModelCall, dialect: Dialect) -> CacheCounts | None:
    """The input of the client's request as the provider counted it; None if it did not."""
    tokens, cached = call.first_input
    if not tokens and not cached.read and not cached.written:
        return None
    # OpenAI counts what it read within its input, Anthropic beside it
    return CacheCounts(
        cached.within + cached.read,
        cached.written,
        tokens - cached.within,
        is_automatic=not isinstance(dialect, MessagesDialect),
    )
