"""Request bodies: read whole within a limit and a byte budget, weighed, and parsed in a thread if they are large."""

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import ParamSpec, TypeVar

from starlette.types import Message, Receive, Scope

from millgate.errors import LimitError
from millgate.service.edge.byte_budget import ORDINARY, Share
from millgate.text.bounded_json import estimate_marks

P = ParamSpec("P")
R = TypeVar("R")

USUAL = 16  # bytes of ordinary JSON for each of its values; more values than that weigh extra
VALUE = 64  # bytes that each of them takes once it is parsed, as an empty object does


class ClientGone(Exception):
    """The client went away before its body was complete."""


async def read_body(
    scope: Scope, receive: Receive, *, limit: int, setting: str, share: Share | None = None
) -> bytes:
    """The whole body of a request, held in a share of the byte budget if one is given.

    LimitError names the setting as soon as the announced or the received length exceeds the limit; BusyError if
    the budget has too few bytes free; ClientGone if the client disconnects first.
    """
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    expected = int(announced) if announced.isdigit() else limit
    if expected > limit:
        raise _too_large(limit, setting)
    whole, more = BytesIO(), True  # which grows in place and is given without a copy
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        more = message.get("more_body", False)
        size = whole.tell() + len(part)
        if size > limit:
            raise _too_large(limit, setting)
        if share is not None and size > share.held:
            await share.hold(_step(size, expected if more else size) - share.held)
        if not more and not whole.tell():
            return bytes(part)
        whole.write(part)
    if share is not None and share.held > whole.tell():
        share.drop(share.held - whole.tell())
    return whole.getvalue()


def _step(size: int, expected: int) -> int:
    """How much to hold of a body that has `size` bytes by now.

    A large one takes all that it will need at once: two that wait for each other in the middle would wait in vain.
    """
    return max(size, expected) if size > ORDINARY else size


def _too_large(limit: int, setting: str) -> LimitError:
    # made anew where it is raised: an error that its own frame holds would keep the body until the next collection
    return LimitError(f"the body is larger than {limit:,} bytes", hint=f"the limit is {setting}")


def weigh(body: bytes) -> int:
    """About what a body takes once it is parsed: its bytes, and more if it holds unusually many values."""
    if len(body) * VALUE <= ORDINARY:
        return len(body)  # ordinary whatever it holds
    return len(body) + VALUE * max(0, estimate_marks(body) - len(body) // USUAL)


async def read_apart(body: bytes, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do what reads a body; in a thread if that takes so long that others would wait."""
    if weigh(body) <= ORDINARY:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


class BufferedReceive:
    """Returns a body that was read already, then whatever the connection sends."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        """The next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
