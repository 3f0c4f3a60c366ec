"""Cache steps: judge what the provider read from its cache."""

import time

from millgate.calls.bugs import surviving
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.service.observe.model_call import ModelCall
from millgate.service.proxy.exchange import Exchange
from millgate.sessions.prompt_cache.judgment import CacheCounts


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
