"""Steps: what the proxy does with one exchange, a function a step, in the order in which `Proxy._answer` calls them.

A step reads what the steps before it have put into the Exchange, and adds its own. Those about caps on spending are in
fuse_steps.py, and those about the provider's cache in cache_steps.py.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from uuid import uuid4

from millgate.calls.bugs import surviving
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import last_results
from millgate.circles.steps import ending
from millgate.errors import MillgateError
from millgate.guard.dialects.dialect import Dialect, OwnAnswer
from millgate.guard.resume import Message
from millgate.keys import KEYLESS
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.body import read_apart
from millgate.service.proxy.answer import SEVERED
from millgate.service.proxy.exchange import Exchange, Observer
from millgate.service.proxy.fold_steps import choose_group, find_start, stop_folding
from millgate.service.proxy.inject import MAX_QUERY, find_blocks
from millgate.service.proxy.kept_windows import restore_windows
from millgate.service.proxy.prepare import Known, Policies, prepare
from millgate.service.proxy.request import ProxyRequest, parse_request, session_of
from millgate.service.proxy.send import Upstreams
from millgate.service.proxy.sse import encode
from millgate.sessions.compaction.policy import CompactionPolicy
from millgate.sessions.conversation import Conversations
from millgate.sessions.folding.policy import FoldPolicy
from millgate.sessions.prompt_cache.segments import read_prompt
from millgate.text.bounded_json import HUGE
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
