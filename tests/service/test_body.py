"""A body is read whole, up to a limit, from whatever pieces it comes in; a large one is read in a thread."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import LimitError
from millgate.service.edge.body import ClientGone, read_apart, read_body, weigh
from millgate.service.edge.byte_budget import ORDINARY, ByteBudget, Share


def sending(pieces, end="http.request"):
    """A connection that sends some pieces; with another end, it breaks after them."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": end, "body": b"", "more_body": False})

    async def receive():
        return messages.pop(0)

    return receive


def scope(length=None):
    return {"headers": [] if length is None else [(b"content-length", length)]}


@given(st.lists(st.binary(max_size=8), max_size=8), st.integers(0, 40))
async def test_the_pieces_come_back_as_one_or_are_refused(pieces, limit):
    whole = b"".join(pieces)
    if len(whole) > limit:
        with pytest.raises(LimitError, match=r"a\.setting"):
            await read_body(scope(), sending(pieces), limit=limit, setting="a.setting")
    else:
        read = await read_body(scope(), sending(pieces), limit=limit, setting="a.setting")
        assert read == whole


async def test_an_announced_length_is_refused_before_anything_is_read():
    with pytest.raises(LimitError):
        await read_body(scope(b"11"), None, limit=10, setting="a.setting")


@pytest.mark.parametrize("length", [b"", b"-5", b"many", "\u00b2".encode("latin-1")])
async def test_a_length_that_is_no_number_is_not_believed(length):
    assert await read_body(scope(length), sending([b"ab"]), limit=2, setting="x") == b"ab"


async def test_a_client_that_goes_away_is_told_apart_from_one_that_sends_nothing():
    with pytest.raises(ClientGone):
        await read_body(scope(), sending([b"half"], "http.disconnect"), limit=9, setting="x")
    assert await read_body(scope(), sending([]), limit=9, setting="x") == b""


@pytest.mark.parametrize("length", [None, b"%d" % (3 * ORDINARY)])
async def test_a_large_body_holds_all_that_it_will_need_before_it_goes_on(length):
    share, held = Share(ByteBudget()), []
    pieces = [b"x" * ORDINARY] * 3
    source = sending(pieces)

    async def receive():
        held.append(share.held)
        return await source()

    most = 8 * ORDINARY
    body = await read_body(scope(length), receive, limit=most, setting="x", share=share)
    assert (len(body), share.held) == (3 * ORDINARY, 3 * ORDINARY)
    whole = 3 * ORDINARY if length else most  # one that does not tell may be as large as any
    assert held == [0, ORDINARY, whole, whole]


def test_a_body_of_many_values_weighs_more_than_its_bytes():
    prose = b'{"text": "%b"}' % (b"Refunds are paid, as a rule, within 14 days. " * 5_000)
    lists = b"[" + b"[]," * 70_000 + b"0]"
    assert weigh(prose) == len(prose)
    assert weigh(lists) > 9 * len(lists)
    assert weigh(lists[:9_000]) == 9_000, "whatever it holds, it is ordinary"


async def test_only_a_large_body_is_read_in_a_thread():
    here = threading.get_ident()
    assert await read_apart(b" " * ORDINARY, threading.get_ident) == here
    assert await read_apart(b" " * (ORDINARY + 1), threading.get_ident) != here
    assert await read_apart(b"[]," * 70_000, threading.get_ident) != here
