"""Over stdio: one client, which started this process and ends it by closing the pipe.

While it serves, standard output carries the protocol alone: whatever else is printed goes to standard error.
early.py has answered the client's first messages by then.
"""

import os
from contextlib import suppress
from typing import Any, cast
from uuid import uuid4

import anyio
from mcp.server.stdio import stdio_server

from millgate.gateway import Millgate
from millgate.integrations.mcp.access import Access
from millgate.integrations.mcp.early import EarlyClient
from millgate.integrations.mcp.server import build
from millgate.integrations.mcp.tools import Style
from millgate.keys import SCOPES


def serve(
    gate: Millgate,
    *,
    collection: str = "main",
    structured: bool = False,
    client: EarlyClient | None = None,
) -> None:
    """Serve one client until it closes its end. The client may do all that the user of the process may."""
    access = Access(
        gate,
        frozenset(SCOPES),
        collection=collection,
        local=True,
        session=f"mcp-{uuid4().hex[:12]}",
        cwd=os.getcwd(),  # noqa: PTH109  (a string is wanted)
    )
    server = build(lambda _: access, style=Style(structured=structured))

    async def run() -> None:
        pipe = cast("Any", anyio.wrap_file(cast("Any", client))) if client else None
        async with stdio_server(pipe, pipe) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    with suppress(KeyboardInterrupt):
        try:
            anyio.run(run)
        except* (BrokenPipeError, ConnectionResetError):
            pass  # the client is gone: no one would read an error
