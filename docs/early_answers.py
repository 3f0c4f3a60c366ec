"""Recorded answers: what the server answers to a client's first messages, in each version of the protocol.

Only for writing and checking early_answers.json; a served client does not load it. `make docs` writes it too.

    python docs/early_answers.py        writes src/millgate/integrations/mcp/early_answers.json anew
"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import anyio
import orjson
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from millgate import __version__
from millgate.integrations.mcp.early import FILE, MODERN, VERSION
from millgate.integrations.mcp.server import build
from millgate.integrations.mcp.tools import Access

_CLIENT = {"name": "client", "version": "1"}


def record() -> bytes:
    """The file's content, as the library answers now: each result once, and which of them answers what."""
    return asyncio.run(_answers()).replace(__version__.encode(), VERSION.encode())


async def _answers() -> bytes:
    results: list[Any] = []
    answers: dict[str, int] = {}
    for asked, result in (await _ask_all()).items():
        if result not in results:
            results.append(result)
        answers[asked] = results.index(result)
    kept = {"answers": answers, "results": results}
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2) + b"\n"


async def _ask_all() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": _CLIENT}
        asked: list[tuple[str, dict[str, Any]]] = [("initialize", hello), ("tools/list", {})]
        found |= await _ask(asked, version)
    for version in MODERN_PROTOCOL_VERSIONS:
        meta = {
            MODERN: version,
            "io.modelcontextprotocol/clientInfo": _CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        asked = [("server/discover", {"_meta": meta}), ("tools/list", {"_meta": meta})]
        found |= await _ask(asked, version)
    return found


async def _ask(asked: list[tuple[str, dict[str, Any]]], version: str) -> dict[str, Any]:
    """The results of these requests over one connection."""
    access = cast("Access", SimpleNamespace(local=True))
    server = build(lambda _: access)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](8)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](8)
    found: dict[str, Any] = {}
    async with (
        to_server, incoming, outgoing, from_server, anyio.create_task_group() as group,
    ):  # fmt: skip
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        for id, (method, params) in enumerate(asked):
            await to_server.send(_message({"id": id, "method": method, "params": params}))
            reply = (await from_server.receive()).message
            data = orjson.loads(reply.model_dump_json(by_alias=True, exclude_unset=True))
            found[f"{method} {version}"] = data["result"]
            if method == "initialize":
                await to_server.send(_message({"method": "notifications/initialized"}))
        group.cancel_scope.cancel()
    return found


def _message(fields: dict[str, Any]) -> SessionMessage:
    data = orjson.dumps({"jsonrpc": "2.0", **fields})
    return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))


if __name__ == "__main__":
    FILE.write_bytes(record())
