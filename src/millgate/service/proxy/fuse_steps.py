"""Fuse steps: where spending is capped, hold the likely size of a call before it goes out, and book its real size when
it is over. Both ask `Spending` (spending/spending.py), the one place where caps are checked and booked.

What a call cost is worked out here too, once, for its trace, the metrics and the caps alike. Under a cap in money a
model without a price counts as the dearest one of its provider: else it would pass the cap for nothing. On a server of
the user's own network it is free, if nobody is known to provide it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from millgate.calls.bugs import EXPECTED, LOGGER, describe, report
from millgate.errors import StoreError
from millgate.guard.dialects.usage import estimate_prompt
from millgate.service.edge.body import read_apart
from millgate.service.observe.model_call import ModelCall
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.request import ProxyRequest, fields_of, named_session
from millgate.service.proxy.transport import codings_of
from millgate.sessions.prompt_cache.segments import TTL_S
from millgate.spending.limits import Cap
from millgate.spending.prices import Price, Prices, is_table_loaded
from millgate.spending.spending import Hold, Spending, amount_of
from millgate.types import Amount
from millgate.types.notes import Stage

# Bytes of a request whose tokens are counted in a thread: that takes a millisecond and more.
LARGE = 200_000


async def fuse(exchange: Exchange) -> None:
    """Hold the call's likely size under the caps of its accounts; PausedError or BusyError at a cap."""
    if exchange.gate is None:
        return
    spending, call, request = exchange.gate.spending, exchange.call, exchange.request
    if caps := spending.policy.caps_of(call.session, exchange.caller.key):
        output = exchange.dialect.token_limit(request.fields) or spending.policy.output_tokens

        async def count() -> tuple[int, int]:
            return await count_prompt(request, call), output * exchange.dialect.answers(
                request.fields
            )

        await _hold(exchange, spending, caps, count)
    elif (
        not is_table_loaded()
    ):  # its cost is asked for at its end: import the lists while the model answers
        asyncio.get_running_loop().run_in_executor(None, spending.prices.find, call.model)


async def fuse_passed_on(exchange: Exchange, body: bytes) -> None:
    """The same for a request of another API, as embeddings: its prompt is held, for no text comes back."""
    if exchange.gate is None or exchange.method != "POST":
        return
    spending, call = exchange.gate.spending, exchange.call
    fields = await read_apart(body, fields_of, exchange.headers, body)
    call.session = named_session(exchange.headers, fields)
    if caps := spending.policy.caps_of(call.session, exchange.caller.key):
        is_free = _is_free(exchange.path)

        async def count() -> tuple[int, int]:
            if is_free:
                return 0, 0
            if codings_of(exchange.headers):  # a packed byte is rarely more than a token
                return len(body), 0
            return await read_apart(body, estimate_prompt, fields), 0

        await _hold(exchange, spending, caps, count)


def _is_free(path: str) -> bool:
    """Whether a path only counts tokens or judges a text, for which providers take no money."""
    return path.endswith(("/count_tokens", "/input_tokens", ":countTokens", "/moderations"))


async def _hold(
    exchange: Exchange,
    spending: Spending,
    caps: Sequence[Cap],
    count: Callable[[], Awaitable[tuple[int, int]]],
) -> None:
    """Hold what a call will likely take, and say in the reply's headers how its accounts stand."""
    call, headers = exchange.call, exchange.reply_headers
    try:
        size, output = await count()
        price = await _find_price(call, spending.prices, size, caps)
        hold = await _hold_amount(
            exchange, spending, amount_of(price, input_tokens=size, output_tokens=output)
        )
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


async def _hold_amount(exchange: Exchange, spending: Spending, likely: Amount) -> Hold:
    holding = asyncio.ensure_future(
        spending.ahold(exchange.call.session, exchange.caller.key, likely)
    )
    try:
        return await asyncio.shield(holding)
    except asyncio.CancelledError:
        # The client has left. The thread that holds goes on all the same, so what it holds is released.
        if (hold := await holding).refusal is None:
            await spending.asettle(hold, Amount())
        raise


async def _find_price(
    call: ModelCall, prices: Prices, size: int, caps: Sequence[Cap] = ()
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
    """The tokens of a call's prompt, estimated once; in a thread if that takes a millisecond or more."""
    if call.prompt_tokens is None:
        if len(request.body) > LARGE:
            call.prompt_tokens = await asyncio.to_thread(estimate_prompt, request.fields)
        else:
            call.prompt_tokens = estimate_prompt(request.fields)
    return call.prompt_tokens


async def settle(exchange: Exchange) -> None:
    """Estimate the prompts whose tokens no upstream reported, price the call, and book what it spent."""
    call, hold = exchange.call, exchange.hold
    if call.unreported_prompts:
        call.input_tokens += call.unreported_prompts * await count_prompt(exchange.request, call)
        call.estimated = True
    gate, price = exchange.gate, None
    try:
        if _counted(call):
            prices = gate.spending.prices if gate else Prices()
            price = await _find_price(call, prices, _size(call), hold.caps if hold else ())
            _note_costs(call, None if call.priced_as else price)
        if gate is not None and hold is not None:
            spent = hold.amount if call.is_spend_unknown else _amount_spent(call, price)
            call.cap_statuses = await gate.spending.asettle(hold, spent)
    except Exception as error:  # noqa: BLE001  a bug must not cost an answer that the client has
        call.error = call.error or f"not booked: {describe(error)}"
        _note_uncounted(exchange, error)


def _counted(call: ModelCall) -> int:
    """The tokens of a call's input, over all its tries."""
    return call.input_tokens + call.cached_input.read + call.cached_input.written


def _size(call: ModelCall) -> int:
    """The tokens of the client's own request, by which providers choose among their prices."""
    tokens, cached = call.first_input
    return tokens + cached.read + cached.written or call.prompt_tokens or 0


def _note_costs(call: ModelCall, price: Price | None) -> None:
    """What the call cost, what of it a broken cache cost, and what folding saved."""
    if price is None:
        return
    call.cost = cost_of(call, price)
    seen = call.cache_observation
    if call.cache_judgment is not None and seen is not None:
        call.cache_cost = call.cache_judgment.cost(price, long=seen.sent.ttl_s > TTL_S)
    if call.fold is not None and call.answered:
        call.fold.price(price, call.cache_counts)


def cost_of(call: ModelCall, price: Price) -> float:
    """What a call cost, with all its tries."""
    cached, seen = call.cached_input, call.cache_observation
    is_long = seen is not None and seen.sent.ttl_s > TTL_S
    return price.cost(
        fresh=max(0, call.input_tokens - cached.within),
        read=cached.within + cached.read,
        written=cached.written,
        hour=cached.hour or (cached.written if is_long else 0),
        output=call.output_tokens,
    )


def _amount_spent(call: ModelCall, price: Price | None) -> Amount:
    """What a call spent; nothing if the upstream refused it."""
    money = cost_of(call, price) if price else 0.0
    return Amount(_counted(call) + call.output_tokens, round(1e6 * money))
