"""Steps: what the proxy does with one exchange, a function a step, in the order in which `Proxy._answer` calls them.

A step reads what the steps before it have put into the Exchange, and adds its own. Those about compactions are in
compaction_steps.py, those that ask the upstream and relay its answer in send.py and answer.py.

What a conversation sent before folding was switched on stays as it was, since the provider may hold it in its cache. So
the first request that is folded says where folding begins, and the conversation's state keeps that.

What a call cost is worked out here, once, for its trace, the metrics and the caps alike. Under a cap in money a model
without a price counts as the dearest one of its provider: else it would pass the cap for nothing. On a server of the
user's own network it is free, if nobody is known to provide it.
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from uuid import uuid4

from millgate.calls.bugs import EXPECTED, LOGGER, describe, report, surviving
from millgate.circles.reader import last_results, opening
from millgate.circles.steps import ending
from millgate.errors import MillgateError, StoreError
from millgate.guard.dialects.dialect import Dialect, OwnAnswer, digest
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.usage import estimate_prompt
from millgate.guard.resume import Message
from millgate.keys import KEYLESS
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.body import read_apart
from millgate.service.observe.model_call import FoldGroup, ModelCall
from millgate.service.proxy.answer import SEVERED
from millgate.service.proxy.compaction_steps import restore_windows
from millgate.service.proxy.exchange import Exchange, run_apart
from millgate.service.proxy.http_client import codings_of
from millgate.service.proxy.inject import MAX_QUERY, find_blocks
from millgate.service.proxy.prepare import Known, Policies, find_unseen, prepare
from millgate.service.proxy.request import (
    ProxyRequest,
    fields_of,
    named_session,
    parse_request,
    session_of,
)
from millgate.service.proxy.sse import encode, encode_data
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.sessions.prompt_cache.segments import TTL_S, read_prompt
from millgate.spending.limits import Cap
from millgate.spending.prices import Price, Prices, is_table_loaded
from millgate.spending.spending import amount_of
from millgate.text.bounded_json import HUGE
from millgate.transcript.parts import is_from_model, texts_of
from millgate.transcript.words import asks_for_title
from millgate.types import Amount, Context, Request
from millgate.types.notes import Stage

STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
FOLDED = b"fold:"  # before the digest of a conversation: where its folding begins
STOPPED = b"fold stopped:"  # before the digest of a session in which folding stopped
NEVER = 1 << 30  # begins behind every conversation
# Paths that only count tokens or judge a text, for which providers take no money.
FREE = ("/count_tokens", "/input_tokens", ":countTokens", "/moderations")


# Read, and choose the upstream


async def read(exchange: Exchange, body: bytes) -> None:
    """Parse the request: its model, its conversation, its options, its session."""
    dialect, call, remembered = exchange.dialect, exchange.call, exchange.proxy.remembered
    dialect.read_target(exchange.path, exchange.query)
    policy = exchange.proxy.policy
    request = await read_apart(body, parse_request, exchange.headers, body, dialect, policy)
    name = dialect.reference_field
    id = request.fields.get(name) if name else None
    if isinstance(id, str) and id:
        stored = await remembered.stored_answer(exchange.caller.tenant, id)
        request = request if stored == id else request.with_fields({name: stored})
    exchange.original = request
    exchange.request = request = await _drop_severed_reasoning(request, dialect, remembered)
    call.model, call.length = request.model, request.options.window
    call.key = exchange.caller.key
    call.tool_results = last_results(request.messages)
    call.session = session_of(exchange.headers, request.fields, request.messages, api=dialect.path)
    texts = (dialect.human_text(message) for message in reversed(request.messages))
    call.query = next((text for text in texts if text and not text.isspace()), "")[:MAX_QUERY]


async def _drop_severed_reasoning(
    request: ProxyRequest, dialect: Dialect, remembered: ConversationState
) -> ProxyRequest:
    """The request without reasoning that we cut in an earlier answer: nobody has signed it, so the API refuses it."""
    found = dialect.unsigned_reasoning(request.messages)
    known = await remembered.get_all([SEVERED + key for key, *_ in found]) if found else {}
    gone = {(at, place) for key, at, place in found if SEVERED + key in known}
    if not gone:
        return request
    messages: list[Message] = []
    for at, message in enumerate(request.messages):
        if all(at != where for where, _ in gone):
            messages.append(message)
        elif parts := [part for n, part in enumerate(message["content"]) if (at, n) not in gone]:
            messages.append({**message, "content": parts})
    return request.with_messages(messages, dialect)


def choose_upstream(exchange: Exchange) -> None:
    """Find the upstream that has the model, or that a header names."""
    request, call = exchange.request, exchange.call
    found = exchange.proxy.upstreams.find(request.model, request.options.upstream)
    call.upstream, exchange.upstream = found
    call.server = exchange.upstream.url
    exchange.reply_headers |= {"x-millgate-upstream": call.upstream, "x-millgate-call": call.id}


# What is known of the conversation


async def recall(exchange: Exchange) -> None:
    """Find what is known of the conversation: the request that this one goes on with."""
    if len(exchange.original.body) > HUGE:
        return
    with surviving("reading what is kept of a caller's windows"):
        await restore_windows(exchange)
    with surviving("finding the conversation"):
        await run_apart(exchange.original.body, _recall, exchange)


def _recall(exchange: Exchange) -> None:
    owner, session = exchange.owner, exchange.call.session
    conversations = exchange.proxy.conversations
    known = conversations.of_session(owner, session)
    before = known[-1].original if known else None
    exchange.prompt = read_prompt(exchange.original.fields, betas=exchange.betas, before=before)
    exchange.last = conversations.find(owner, session, exchange.prompt)


async def inject_context(exchange: Exchange) -> None:
    """Find the block of context for each question, if the request or the settings ask for it.

    A call for a title gets none. A call without tools, in a session whose other calls have tools, keeps the blocks that
    its conversation has and gets no other.
    """
    gate, caller, call, proxy = exchange.gate, exchange.caller, exchange.call, exchange.proxy
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
        if proxy.observer is not None:
            proxy.observer.count_context(context)
        return context

    with surviving("the injection of a context", but=MillgateError):
        # what a compaction left standing had its context before
        compacted = exchange.window.found if exchange.window else None
        known = proxy.conversations.of_session(exchange.owner, call.session)
        is_side_call = not fields.get("tools") and any(
            element.kind == "tool" for one in known for element in one.original.elements
        )
        exchange.blocks["context"], block = await find_blocks(
            exchange.request,
            exchange.dialect,
            build,
            caller.tenant,
            proxy.remembered,
            asker=caller.key or KEYLESS,
            begin=None if is_side_call else compacted.at if compacted else 0,
        )
        call.context_trace, call.context_tokens = block.trace, block.tokens
        if exchange.blocks["context"] is not None:
            exchange.reply_headers |= block.headers()


# Change the request


async def prepare_request(exchange: Exchange) -> None:
    """Take the one step that changes the request; `call` says what was done."""
    request, call, proxy = exchange.request, exchange.call, exchange.proxy
    folds = proxy.folds or proxy.remembered
    policies = Policies(
        request.options.circles or proxy.circles.for_key(exchange.caller.key),
        fold=_choose_group(exchange),
        repair=proxy.policy.repair,
    )
    with surviving("the state of a fold"):
        if policies.fold == "on":
            policies = replace(policies, fold_start=await _find_start(exchange, folds))
    with surviving("the preparation of a request"):
        known = Known(
            exchange.dialect,
            prompt=exchange.prompt,
            betas=exchange.betas,
            last=exchange.last,
            is_compacted=exchange.window is not None and exchange.window.found is not None,
            followers=proxy.conversations.lend(exchange.last),
            blocks=[blocks for blocks in exchange.blocks.values() if blocks is not None],
        )
        done = exchange.prepared = await run_apart(request.body, prepare, request, known, policies)
        exchange.request, call.circles, call.fold = done.request, done.circles, done.fold
        call.repaired, call.unknown_parts = done.repaired, done.unknown_parts
        exchange.reply_headers |= done.headers
        # reading it takes seconds if it is huge
        call.sent = done.request.body if len(done.request.body) <= HUGE else b""
        if call.fold is not None and call.fold.has_stopped and call.fold.group == "on":
            # no later conversation of the session is folded
            await folds.put(STOPPED + digest(_owner_of_fold(exchange)), b"1")


def _choose_group(exchange: Exchange) -> FoldGroup | None:
    """Whether the request is folded, only measured, or neither, by the settings and its header."""
    request, call, policy = exchange.request, exchange.call, exchange.proxy.fold
    mode = request.options.fold or policy.mode_for(
        upstream=call.upstream, key=call.key, session=call.session
    )
    if mode == "off" or len(request.body) > HUGE:
        return None
    return "holdout" if mode == "on" and policy.is_held_out(call.session) else mode


def _owner_of_fold(exchange: Exchange) -> str:
    return "\0".join((*exchange.owner, exchange.call.session))


async def _find_start(exchange: Exchange, folds: ConversationState) -> int:
    """The first message of a conversation that may be folded, decided when it is first seen.

    All of a new conversation may be. Of one that has begun without folding only what the model has not seen. None of
    one whose session stopped folding, or whose state cannot be kept: it must be the same for every request.
    """
    owner, messages = _owner_of_fold(exchange), exchange.original.messages
    key, stopped = FOLDED + digest(f"{owner}\0{opening(messages)}"), STOPPED + digest(owner)
    known = await folds.get_all([key, stopped])
    if key not in known:
        start = find_unseen(messages) if any(map(is_from_model, messages)) else 0
        if stopped in known or folds.failure:
            start = NEVER
        if folds.failure:
            exchange.reply_headers["x-millgate-degraded"] = f"fold: {folds.failure}"
        known[key] = await folds.put(key, b"%d" % start)
    return int(known[key])


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
        await reply.write(encode_data(dialect.done))


# Caps on spending: hold the likely size of a call before it goes out, and book its real size when it is over


async def fuse(exchange: Exchange) -> None:
    """Hold the call's likely size under the caps of its accounts; PausedError or BusyError at a cap."""
    if exchange.gate is None:
        return
    spending, call, request = exchange.gate.spending, exchange.call, exchange.request
    if caps := spending.policy.caps_of(call.session, exchange.caller.key):
        output = exchange.dialect.token_limit(request.fields) or spending.policy.output_tokens
        output *= exchange.dialect.answers(request.fields)
        await _hold(exchange, caps, count_prompt(request, call), output)
    elif not is_table_loaded():
        # its cost is asked for at its end: import the lists while the model answers
        asyncio.get_running_loop().run_in_executor(None, spending.prices.find, call.model)


async def fuse_passed_on(exchange: Exchange, body: bytes) -> None:
    """The same for a request of another API, as embeddings: its prompt is held, for no text comes back."""
    if exchange.gate is None or exchange.method != "POST":
        return
    spending, call = exchange.gate.spending, exchange.call
    fields = await read_apart(body, fields_of, exchange.headers, body)
    call.session = named_session(exchange.headers, fields)
    if caps := spending.policy.caps_of(call.session, exchange.caller.key):

        async def count() -> int:
            if exchange.path.endswith(FREE):
                return 0
            if codings_of(exchange.headers):  # a packed byte is rarely more than a token
                return len(body)
            return await read_apart(body, estimate_prompt, fields)

        await _hold(exchange, caps, count(), 0)


async def _hold(
    exchange: Exchange, caps: Sequence[Cap], prompt: Awaitable[int], output: int
) -> None:
    """Hold what a call will likely take, and say in the reply's headers how its accounts stand."""
    assert exchange.gate is not None
    spending, call, headers = exchange.gate.spending, exchange.call, exchange.reply_headers
    try:
        size = await prompt
        price = await _find_price(call, spending.prices, size, caps)
        likely = amount_of(price, input_tokens=size, output_tokens=output)
        work = spending.ahold(call.session, exchange.caller.key, likely)
        holding = asyncio.ensure_future(work)
        try:
            hold = await asyncio.shield(holding)
        except asyncio.CancelledError:
            # The client has left. The thread that holds goes on all the same, so what it holds is released.
            if (hold := await holding).refusal is None:
                await spending.asettle(hold, Amount())
            raise
    except Exception as error:
        _note_uncounted(exchange, error)
        headers["x-millgate-degraded"] = f"fuse: {describe(error)}"
        if spending.policy.fail_closed:
            raise StoreError(
                f"what this call spends cannot be counted: {describe(error)}",
                hint="fuse.fail_closed refuses such calls",
            ) from error
        return
    call.cap_statuses = hold.statuses
    if hold.refusal is not None:
        raise hold.refusal
    exchange.hold = hold
    said = [status.describe() for status in hold.warnings]
    if call.priced_as:
        said.append(f"{call.model} has no price and counts as {call.priced_as}: set it in [prices]")
        LOGGER.warning("under a cap in money, %s", said[-1])
    if said:
        headers["x-millgate-fuse"] = "; ".join(said)


async def _find_price(
    call: ModelCall, prices: Prices, size: int, caps: Sequence[Cap]
) -> Price | None:
    """The price of a call's model; if it has none and a cap is in money, what it counts as."""
    # in a thread: the first price of a process takes a second
    price = await asyncio.to_thread(prices.find, call.model, input_tokens=size, url=call.server)
    if price is None and any(cap.micros is not None for cap in caps):
        call.priced_as, price = prices.dearest(call.model, input_tokens=size, url=call.server)
    return price


def _note_uncounted(exchange: Exchange, error: Exception) -> None:
    """A call is not counted under its caps: say so in the log, and leave it to the metrics."""
    exchange.call.uncounted = describe(error)
    if isinstance(error, EXPECTED):
        LOGGER.warning("a model call is not counted under its cap: %s", describe(error))
        return
    exchange.call.bug = Stage.FUSE
    report(error, "a cap on spending")


async def count_prompt(request: ProxyRequest, call: ModelCall) -> int:
    """The tokens of a call's prompt, estimated once."""
    if call.prompt_tokens is None:
        call.prompt_tokens = await run_apart(request.body, estimate_prompt, request.fields)
    return call.prompt_tokens


async def settle(exchange: Exchange) -> None:
    """Estimate the prompts whose tokens no upstream reported, price the call, and book what it spent."""
    call, hold, gate, cost = exchange.call, exchange.hold, exchange.gate, 0.0
    if call.unreported_prompts:
        call.input_tokens += call.unreported_prompts * await count_prompt(exchange.request, call)
        call.estimated = True
    counted = call.input_tokens + call.cached_input.read + call.cached_input.written
    try:
        if counted:
            prices, (first, cached) = gate.spending.prices if gate else Prices(), call.first_input
            # of the client's own request, by which providers choose among their prices
            size = first + cached.read + cached.written or call.prompt_tokens or 0
            if price := await _find_price(call, prices, size, hold.caps if hold else ()):
                cost = _note_costs(call, price)
        if gate is not None and hold is not None:
            spent = Amount(counted + call.output_tokens, round(1e6 * cost))
            call.cap_statuses = await gate.spending.asettle(
                hold, hold.amount if call.is_spend_unknown else spent
            )
    except Exception as error:  # noqa: BLE001  a bug must not cost an answer that the client has
        call.error = call.error or f"not booked: {describe(error)}"
        _note_uncounted(exchange, error)


def _note_costs(call: ModelCall, price: Price) -> float:
    """What the call cost with all its tries. Noted is that, what a broken cache cost, and what folding saved."""
    cached, seen = call.cached_input, call.cache_observation
    is_long = seen is not None and seen.sent.ttl_s > TTL_S
    cost = price.cost(
        fresh=max(0, call.input_tokens - cached.within),
        read=cached.within + cached.read,
        written=cached.written,
        hour=cached.hour or (cached.written if is_long else 0),
        output=call.output_tokens,
    )
    if not call.priced_as:
        call.cost = cost
        if call.cache_judgment is not None:
            call.cache_cost = call.cache_judgment.cost(price, long=is_long)
        if call.fold is not None and call.answered:
            call.fold.price(price, call.cache_counts)
    return cost


# When the answer is over


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
