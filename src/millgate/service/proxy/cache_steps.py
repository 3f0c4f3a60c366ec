"""Cache steps: compare a request with the last one of its conversation, and judge what the provider read.

They only observe, unless the setting `proxy.repair` asks for more. If one fails, the request goes on, and the bug is
logged.
"""

import asyncio

from millgate.bugs import surviving
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.policy import ProxyPolicy
from millgate.prompt_cache.judgment import CacheCounts
from millgate.prompt_cache.repair import Repair, repair
from millgate.prompt_cache.witness import CacheWitness, Observation
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.model_call import ModelCall
from millgate.service.proxy.transport import header
from millgate.text.bounded_json import HUGE

# Bytes of a request that is compared in a thread: a window of 200 000 tokens takes about a millisecond.
LARGE = 500_000


async def repair_cache(exchange: Exchange, witness: CacheWitness, policy: ProxyPolicy) -> None:
    """Put back what broke the cache without a word to the model, as far as the setting allows it."""
    request = exchange.request
    if not policy.repair or len(request.body) > HUGE:
        return
    repaired: Repair | None = None
    with surviving("the repair of a prompt cache"):
        repaired = await asyncio.to_thread(_repair, exchange, witness, policy)
    if repaired is not None:
        exchange.unrepaired = request
        exchange.request = request.with_fields(repaired.fields)
        exchange.call.repaired = "; ".join(repaired.done)
        exchange.reply_headers["x-millgate-repaired"] = exchange.call.repaired


def _repair(exchange: Exchange, witness: CacheWitness, policy: ProxyPolicy) -> Repair | None:
    last = witness.find_sent(exchange.conversation_owner, exchange.original.fields)
    takes_marks = isinstance(exchange.dialect, MessagesDialect)
    if last is None:
        return None
    return repair(exchange.request.fields, last, policy.repair, takes_marks=takes_marks)


async def observe_cache(exchange: Exchange, witness: CacheWitness) -> None:
    """Find where the request stops extending the last one; the reply's header tells it."""
    if len(exchange.request.body) > HUGE:
        return
    with surviving("the cache witness"):
        if len(exchange.request.body) > LARGE:
            observed = await asyncio.to_thread(_observe, exchange, witness)
        else:
            observed = _observe(exchange, witness)
        exchange.call.cache_observation = observed
        if observed.difference is not None:
            exchange.reply_headers["x-millgate-cache"] = f"broken: {observed.difference.describe()}"
        elif observed.last is not None:
            exchange.reply_headers["x-millgate-cache"] = "extends the last request"


def judge_cache(exchange: Exchange, witness: CacheWitness) -> None:
    """Judge what the provider says that it read, and remember the request if the provider got it."""
    call = exchange.call
    if call.cache_observation is None or not call.answered:
        return
    with surviving("the cache witness"):
        call.cache_counts = counts_of(call, exchange.dialect)
        call.cache_judgment = witness.finish(call.cache_observation, call.cache_counts)


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


def _observe(exchange: Exchange, witness: CacheWitness) -> Observation:
    original, request = exchange.original, exchange.request
    betas = header(exchange.headers, b"anthropic-beta").decode("latin-1")
    sent = None if request is original else request.fields
    read = exchange.window.prompt if exchange.window else None
    return witness.observe(
        exchange.conversation_owner, original.fields, sent=sent, betas=betas, read=read
    )
