"""What a call is held and booked as, and what the reply says if the store cannot count."""

import pytest

from millgate.errors import PausedError, StoreError, UpstreamError
from millgate.guard.dialects.usage import CachedInput, estimate_prompt
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy.exchange import LARGE, Exchange, ProxyState
from millgate.service.proxy.steps import count_prompt, fuse, settle
from millgate.spending.limits import CapStatus
from millgate.spending.prices import Prices
from millgate.spending.spending import FusePolicy, Hold
from millgate.testing import strict
from millgate.types import Amount
from millgate.types.policy import ProxyPolicy


class Request:
    model, fields, body = "m", {"prompt": "When are refunds paid?"}, b"{}"


PROMPT = estimate_prompt(Request.fields)
CAPPED = FusePolicy(caps={"session": {"tokens": 100}}, output_tokens=700)


class Dialect:
    def __init__(self, limit):
        self.limit = limit

    def token_limit(self, fields):
        return self.limit

    def answers(self, fields):
        return 1


class Book:
    """Spending that says what it is told to; it is its own gate."""

    def __init__(self, held=None, error=None, policy=CAPPED):
        self.held, self.error, self.asked, self.booked = held, error, [], []
        self.policy, self.spending, self.prices = policy, self, Prices()

    async def ahold(self, session, key, amount):
        self.asked.append((session, key, amount.tokens))
        if self.error:
            raise self.error
        return self.held

    async def asettle(self, held, spent):
        if self.error:
            raise self.error
        self.booked.append(spent.tokens)
        return ("read",)


def exchange_over(book, limit=1, hold=None, **facts):
    state = RequestState("r", "POST", caller=Caller("t", frozenset(), "k"))
    scope = {"method": "POST", "path": "/v1/x", "headers": [], "millgate": state}
    call = ModelCall("/v1/x", session="s", **facts)
    exchange = Exchange.begin(
        scope, None, Dialect(limit), call, ProxyState(ProxyPolicy(), gate_for=lambda _: book)
    )
    exchange.request, exchange.hold = Request, hold
    return exchange


def hold_of(state="open"):
    return Hold((), Amount(60), (CapStatus("session", "s", state, 10, 100, "tokens"),))


@pytest.mark.parametrize(("limit", "tokens"), [(50, PROMPT + 50), (0, PROMPT + 700)])
async def test_a_call_is_held_at_its_prompt_and_its_limit_or_the_usual_output(limit, tokens):
    book = Book(hold_of())
    exchange = exchange_over(book, limit)
    await fuse(exchange)
    assert book.asked == [("s", "k", tokens)]
    assert (exchange.hold, exchange.reply_headers) == (book.held, {})
    assert exchange.call.cap_statuses == book.held.statuses


async def test_without_a_cap_nothing_is_held():
    book = Book(policy=FusePolicy())
    exchange = exchange_over(book)
    await fuse(exchange)
    assert (exchange.hold, exchange.reply_headers, book.asked) == (None, {}, [])


async def test_a_warning_is_a_header_and_a_refusal_is_raised():
    exchange = exchange_over(Book(hold_of("warn")))
    await fuse(exchange)
    assert list(exchange.reply_headers) == ["x-millgate-fuse"]
    refused = exchange_over(Book(hold_of("paused")))
    with pytest.raises(PausedError):
        await fuse(refused)
    assert refused.hold is None


async def test_a_store_that_cannot_count_is_said_and_an_error_of_the_call_goes_before():
    book = Book(error=StoreError("gone"))
    exchange = exchange_over(book)
    await fuse(exchange)
    assert exchange.hold is None
    assert exchange.reply_headers == {"x-millgate-degraded": "fuse: gone"}
    exchange.hold = hold_of()
    await settle(exchange)
    assert exchange.call.error == "not booked: gone"
    exchange.call.error = "the upstream broke off"
    await settle(exchange)
    assert exchange.call.error == "the upstream broke off"


async def test_what_cannot_be_booked_costs_no_answer(caplog):
    for error in (OSError("disk"), UpstreamError("busy")):
        exchange = exchange_over(Book(error=error), hold=hold_of())
        await settle(exchange)
        assert exchange.call.error.startswith("not booked: ")
    exchange = exchange_over(Book(error=ValueError("a bug")), hold=hold_of())
    with strict(False):
        await settle(exchange)
    assert exchange.call.error == "not booked: ValueError: a bug"
    assert "bug in a cap on spending" in caplog.text


@pytest.mark.parametrize(("facts", "booked"), [({"input_tokens": 7, "output_tokens": 5}, 12), ({}, 0), ({"is_spend_unknown": True}, 60)])  # fmt: skip
async def test_booked_is_what_a_call_spent_and_its_likely_size_if_that_is_unknown(facts, booked):
    book = Book()
    exchange = exchange_over(book, hold=hold_of(), **facts)
    await settle(exchange)
    assert book.booked == [booked]
    assert exchange.call.cap_statuses == ("read",)


async def test_cached_input_counts_once():
    book, cached = Book(), CachedInput(within=4, read=3, written=2)
    await settle(exchange_over(book, hold=hold_of(), input_tokens=10, output_tokens=1, cached_input=cached))  # fmt: skip
    assert book.booked == [10 + 3 + 2 + 1]


async def test_the_prompt_of_a_call_is_counted_once():
    call = ModelCall("/")
    large = type("Large", (), {"body": b" " * (LARGE + 1), "fields": {"prompt": "word " * 1_000}})
    assert await count_prompt(large, call) == estimate_prompt(large.fields)
    assert await count_prompt(Request, call) == estimate_prompt(large.fields)
