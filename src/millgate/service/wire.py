"""Wire: what all parts of the service share of HTTP: header lists, two statuses, and how a connection is reset."""

import socket
import struct
from contextlib import suppress

Headers = list[tuple[bytes, bytes]]
FIRST_ERROR = 400  # the lowest status that says that there is no answer
GONE = 499
"""As nginx logs it: who asked is gone, so that nobody got an answer. No model service says so."""


def reset_at_close(own: socket.socket | None) -> None:
    """Let a socket reset its connection when it is closed: what the peer of one that was reset would see."""
    if own is not None:
        with suppress(OSError):  # it may be gone already
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
