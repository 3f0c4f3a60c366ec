"""Fuse steps: where spending is capped, hold the likely size of a call before it goes out, and book its real size when
it is over. Both ask `Spending` (guard/fuse.py), the one place where caps are checked and booked.
"""

import asyncio

import orjson

from millgate.bugs import EXPECTED, describe, report, surviving
from millgate.errors import MillgateError, StoreError
from millgate.guard.dialects.usage import estimate_prompt
from millgate.guard.fuse import Spending, amount_of
from millgate.prices import Price
from millgate.service.body import read_apart
from millgate.service.proxy.exchange import Exchange, ProxyRequest
from millgate.service.proxy.model_call import ModelCall
from millgate.service.proxy.session_name import named_session
from millgate.service.proxy.transport import Headers, header
from millgate.text.bounded_json import loads
from millgate.types import Amount

# Bytes of a request whose tokens are counted in a thread: that takes a millisecond and more.
LARGE = 200_000


async def fuse(exchange: Exchange) -> None:
    """Hold the call's likely size under the caps of its accounts; PausedError or BusyError at a cap.

    If the store fails, the call goes on uncounted, and the reply says so: a broken counter must not stop work.
    """
    if exchange.gate is None:
        return
    spending, call, request = exchange.gate.spending, exchange.call, exchange.request
    if not spending.policy.caps_of(call.session, exchange.caller.key):
        return
    with surviving("a cap on spending", but=MillgateError):
        output = exchange.dialect.token_limit(request.fields) or spending.policy.output_tokens
        likely = amount_of(
            spending.prices.find(request.model),
            input_tokens=await count_prompt(request, call),
            output_tokens=output * exchange.dialect.answers(request.fields),
        )
        await _hold(exchange, spending, likely)


async def fuse_passed_on(exchange: Exchange, body: bytes, model: str) -> None:
    """The same for a request of another API, as embeddings: its prompt is held, for no text comes back."""
    if exchange.gate is None or exchange.method != "POST":
        return
    spending, call = exchange.gate.spending, exchange.call
    fields = await read_apart(body, _fields_of, exchange.headers, body)
    call.session = named_session(exchange.headers, fields)
    if not spending.policy.caps_of(call.session, exchange.caller.key):
        return
    is_free = _is_free(exchange.path)
    tokens = 0 if is_free else await read_apart(body, estimate_prompt, fields)
    price = spending.prices.find(model)
    await _hold(exchange, spending, amount_of(price, input_tokens=tokens, output_tokens=0))


def _fields_of(headers: Headers, body: bytes) -> dict[str, object]:
    """The fields of a JSON body; none of any other."""
    if b"json" not in header(headers, b"content-type").lower():
        return {}
    try:
        fields = loads(body)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _is_free(path: str) -> bool:
    """Whether a path only counts tokens or judges a text, for which providers take no money."""
    return path.endswith(("/count_tokens", "/input_tokens", ":countTokens", "/moderations"))


async def _hold(exchange: Exchange, spending: Spending, likely: Amount) -> None:
    call, key = exchange.call, exchange.caller.key
    holding = asyncio.ensure_future(spending.ahold(call.session, key, likely))
    try:
        hold = await asyncio.shield(holding)
    except asyncio.CancelledError:
        # The client has left. The thread that holds goes on all the same, so what it holds is released.
        if (hold := await holding).refusal is None:
            await spending.asettle(hold, Amount())
        raise
    except StoreError as error:
        exchange.reply_headers["x-millgate-degraded"] = f"fuse: {error.message}"
        return
    call.cap_statuses = hold.statuses
    if hold.refusal is not None:
        raise hold.refusal
    exchange.hold = hold
    if hold.warnings:
        warnings = "; ".join(status.describe() for status in hold.warnings)
        exchange.reply_headers["x-millgate-fuse"] = warnings


async def count_prompt(request: ProxyRequest, call: ModelCall) -> int:
    """The tokens of a call's prompt, estimated once; in a thread if that takes a millisecond or more."""
    if call.prompt_tokens is None:
        if len(request.body) > LARGE:
            call.prompt_tokens = await asyncio.to_thread(estimate_prompt, request.fields)
        else:
            call.prompt_tokens = estimate_prompt(request.fields)
    return call.prompt_tokens


async def settle(exchange: Exchange) -> None:
    """Estimate the prompts whose tokens no upstream reported, and book what the call spent."""
    call, hold = exchange.call, exchange.hold
    if call.unreported_prompts:
        call.input_tokens += call.unreported_prompts * await count_prompt(exchange.request, call)
        call.estimated = True
    if exchange.gate is None or hold is None:
        return
    spending = exchange.gate.spending
    spent = hold.amount if call.is_spend_unknown else spent_by(call, spending.prices.find(call.model))  # fmt: skip
    try:
        call.cap_statuses = await spending.asettle(hold, spent)
    except EXPECTED as error:
        call.error = call.error or f"not booked: {describe(error)}"
    except Exception as error:  # noqa: BLE001  a bug must not cost an answer that the client has
        call.error = call.error or f"not booked: {describe(error)}"
        report(error, "booking what a model call spent")


def spent_by(call: ModelCall, price: Price | None) -> Amount:
    """What a call spent; nothing if the upstream refused it."""
    cached = call.cached_input
    return amount_of(
        price,
        input_tokens=call.input_tokens + cached.read + cached.written,
        output_tokens=call.output_tokens,
        cached_tokens=cached.within + cached.read,
        written_tokens=cached.written,
    )
