"""Request bodies: read whole, and refused as soon as they are known to be too large."""

from collections.abc import Callable
from io import BytesIO

from starlette.types import Message, Receive, Scope

from headgate.errors import LimitError


class ClientGone(Exception):  # nobody is left to be answered
    """The client went away before its body was complete."""


async def read_body(
    scope: Scope,
    receive: Receive,
    *,
    limit: int,
    setting: str,
    take: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The whole body of a request; `take` is told of each part, and may refuse it.

    LimitError names the setting as soon as the announced or the received length exceeds the limit;
    ClientGone when the client disconnects first.
    """
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    too_large = LimitError(
        f"the body is larger than {limit:,} bytes", hint=f"the limit is {setting}"
    )
    if announced.isdigit() and int(announced) > limit:
        raise too_large
    whole, more = BytesIO(), True  # which grows in place and is given without a copy
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        more = message.get("more_body", False)
        if whole.tell() + len(part) > limit:
            raise too_large
        take(len(part))
        if not more and not whole.tell():
            return bytes(part)
        whole.write(part)
    return whole.getvalue()


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
