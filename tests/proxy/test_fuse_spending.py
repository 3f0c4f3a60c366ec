"""What a call is held and booked as, and what is said where the store cannot count."""

import pytest

from headgate.errors import PausedError, StoreError
from headgate.guard.dialects.usage import CachedInput, estimate_prompt
from headgate.guard.fuse import CapStatus, FusePolicy, Hold
from headgate.service.proxy.fuse import LARGE, Fuse, _spent, count_prompt
from headgate.service.proxy.model_call import ModelCall
from headgate.types import Amount


class Request:
    model, fields, body = "m", {"prompt": "When are refunds paid?"}, b"{}"


PROMPT = estimate_prompt(Request.fields)


class Dialect:
    def __init__(self, limit):
        self.limit = limit

    def token_limit(self, fields):
        return self.limit


class Book:
    """Spending that says what it is told to."""

    def __init__(self, held=None, error=None):
        self.held, self.error, self.asked, self.booked = held, error, [], []

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


def fuse_over(book, **caps):
    return Fuse(FusePolicy(caps=caps or {"session": {"tokens": 100}}, output_tokens=700), lambda _: book, lambda _: "k")  # fmt: skip


def hold_of(state="open"):
    return Hold((), Amount(60), (CapStatus("session", "s", state, 10, 100, "tokens"),))


@pytest.mark.parametrize(("limit", "tokens"), [(50, PROMPT + 50), (0, PROMPT + 700)])
async def test_a_call_is_held_at_its_prompt_and_its_limit_or_the_usual_output(limit, tokens):
    book, call = Book(hold_of()), ModelCall("/v1/x", session="s")
    held, headers = await fuse_over(book).hold({}, Request, Dialect(limit), call)
    assert book.asked == [("s", "k", tokens)]
    assert (held, headers) == (book.held, {})
    assert call.cap_statuses == book.held.statuses


async def test_without_a_cap_nothing_is_held():
    book = Book()
    fuse = Fuse(FusePolicy(), lambda _: book, lambda _: "k")
    assert await fuse.hold({}, Request, Dialect(1), ModelCall("/v1/x", session="s")) == (None, {})
    assert book.asked == []


async def test_a_warning_is_a_header_and_a_refusal_is_raised():
    told = (await fuse_over(Book(hold_of("warn"))).hold({}, Request, Dialect(1), ModelCall("/", session="s")))[1]  # fmt: skip
    assert list(told) == ["x-headgate-fuse"]
    refused = Book(hold_of("paused"))
    with pytest.raises(PausedError):
        await fuse_over(refused).hold({}, Request, Dialect(1), ModelCall("/", session="s"))


async def test_a_store_that_cannot_count_is_said_and_an_error_of_the_call_goes_before():
    book, call = Book(error=StoreError("gone")), ModelCall("/", session="s")
    fuse = fuse_over(book)
    assert await fuse.hold({}, Request, Dialect(1), call) == (None, {"x-headgate-degraded": "fuse: gone"})  # fmt: skip
    await fuse.settle({}, hold_of(), call)
    assert call.error == "not booked: gone"
    call.error = "the upstream broke off"
    await fuse.settle({}, hold_of(), call)
    assert call.error == "the upstream broke off"


@pytest.mark.parametrize(("facts", "booked"), [({"input_tokens": 7, "output_tokens": 5}, 12), ({}, 0), ({"is_untold": True}, 60)])  # fmt: skip
async def test_booked_is_what_a_call_spent_and_its_likely_size_where_nobody_knows(facts, booked):
    book = Book()
    call = ModelCall("/", session="s", **facts)
    await fuse_over(book).settle({}, hold_of(), call)
    assert book.booked == [booked]
    assert call.cap_statuses == ("read",)


def test_cached_input_counts_once():
    call = ModelCall("/", input_tokens=10, output_tokens=1, cached_input=CachedInput(within=4, read=3, written=2))  # fmt: skip
    assert _spent(None, call).tokens == 10 + 3 + 2 + 1


async def test_the_prompt_of_a_call_is_counted_once():
    call = ModelCall("/")
    large = type("Large", (), {"body": b" " * (LARGE + 1), "fields": {"prompt": "word " * 1_000}})
    assert await count_prompt(large, call) == estimate_prompt(large.fields)
    assert await count_prompt(Request, call) == estimate_prompt(large.fields)
