"""Peer: which user opened a connection to us on the loopback address.

Linux lists every connection with the user of its socket. Elsewhere `lsof` lists those that the user may see, which are
the user's own.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED = "0000000000000000FFFF0000"  # before an IPv4 address in the second table
_LSOF_S = 5.0

Endpoint = tuple[str, int]


async def is_owner(ours: Endpoint, theirs: Endpoint) -> bool:
    """Whether the other end of a connection is a process of this user, or of root, who may do everything anyway."""
    if _TABLES[0].exists():
        uid = _find_uid(ours, theirs)
        return uid is not None and uid in (os.getuid(), 0)
    return await _ask_lsof(theirs)


async def can_tell() -> bool:
    """Whether this system says who opened a connection: a connection of our own must be seen as ours."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = listener.getsockname()[:2]
        with socket.create_connection(ours) as own:
            return await is_owner(ours, own.getsockname()[:2])


def _find_uid(ours: Endpoint, theirs: Endpoint) -> int | None:
    """The user of the socket that is bound to `theirs` and connected to `ours`."""
    local, remote = _hex(theirs), _hex(ours)
    for fields in _rows():
        ends = (fields[1].removeprefix(_MAPPED), fields[2].removeprefix(_MAPPED))
        if ends == (local, remote):
            return int(fields[7])
    return None


def _rows() -> Iterator[list[str]]:
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        yield from (line.split() for line in lines)


def _hex(endpoint: Endpoint) -> str:
    """An address as the tables write it: its number in the machine's own byte order."""
    number = int.from_bytes(socket.inet_aton(endpoint[0]), sys.byteorder)
    return f"{number:08X}:{endpoint[1]:04X}"


async def _ask_lsof(theirs: Endpoint) -> bool:
    """Whether a process of this user holds this end of a connection."""
    asked = f"-iTCP@{theirs[0]}:{theirs[1]}"
    try:
        process = await asyncio.create_subprocess_exec(
            "lsof", "-nP", "-a", "-u", str(os.getuid()), asked, "-Fn",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return False
    try:
        async with asyncio.timeout(_LSOF_S):
            found, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    # each connection is listed as LOCAL->REMOTE, and ours are in the list too, with the ends the other way round
    return f"n{theirs[0]}:{theirs[1]}->".encode() in found
