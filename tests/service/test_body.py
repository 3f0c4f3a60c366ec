"""A body is read whole, up to a limit, from whatever pieces it comes in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import LimitError
from headgate.service.body import ClientGone, read_body


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
