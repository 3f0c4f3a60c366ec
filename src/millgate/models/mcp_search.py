"""McpSearch: the search tool of any MCP server as a web search.

The server is a URL (streamable HTTP) or a command line (stdio); it is started for one search and ended after it.
The tool's own schema says which argument takes the query. Results are read from structured content,
else from text that is JSON, else each text block with an address in it becomes one chunk. Needs the extra `mcp`.
"""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from millgate.errors import InputError, MissingExtra, UpstreamError
from millgate.models.web_results import MAX_QUERY, web_chunks
from millgate.types import Chunk

QUERY_NAMES = ("query", "q", "search", "search_query", "text", "input", "keywords", "question")
LIMIT_NAMES = ("limit", "count", "max_results", "num_results", "top_k", "n", "k")
MAX_SERVERS = 4  # searches at a time; the others wait, within their timeout
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")


class McpSearch:
    """Calls `tool` (default: the first whose name holds "search") of the server at `server`."""

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        tool: str = "",
        timeout_s: float = 15.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not server:
            raise InputError("the MCP server is empty", hint="give a URL or a command line")
        self._server = server
        self._tool = tool
        self._timeout_s = timeout_s
        self._slots_of: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )
        self._env = dict(env) if env is not None else None

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]:
        """The first `limit` results as chunks of source "web"."""
        if limit <= 0 or not query.strip():
            return []
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._slots(), self._client() as client:
                    return await self._ask(client, query[:MAX_QUERY], limit)
        except TimeoutError as error:
            raise UpstreamError(
                f"the MCP search gave no answer within {self._timeout_s:g} s",
                hint="is the server up? raise the timeout, or turn search off",
            ) from error

    def _slots(self) -> asyncio.Semaphore:
        """A semaphore that bounds how many servers run at once: each search of a command line starts a process."""
        loop = asyncio.get_running_loop()
        return self._slots_of.setdefault(loop, asyncio.Semaphore(MAX_SERVERS))

    async def _ask(self, client: Any, query: str, limit: int) -> list[Chunk]:  # noqa: ANN401
        tool = _choose((await client.list_tools()).tools, self._tool)
        answer = await client.call_tool(tool.name, _arguments(tool, query, limit))
        texts = [block.text for block in answer.content if getattr(block, "text", None)]
        if answer.is_error:
            raise UpstreamError(f"the search tool {tool.name!r} failed")
        return web_chunks(_results(answer.structured_content, texts), limit)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        """A connected client; the library's errors are raised as UpstreamError."""
        try:
            mcp, httpx2 = import_module("mcp"), import_module("httpx2")
        except ImportError as error:
            raise MissingExtra("mcp", extra="mcp") from error
        known = (mcp.MCPError, httpx2.HTTPError, OSError, ValueError, RuntimeError)
        try:
            async with mcp.Client(self._target(mcp)) as client:
                yield client
        except known as error:
            raise UpstreamError(f"the MCP search failed: {error}") from error
        except BaseExceptionGroup as group:
            if group.split((*known, UpstreamError))[1] is not None:
                raise
            first = _first(group)
            if isinstance(first, UpstreamError):
                raise first from group
            raise UpstreamError(f"the MCP search failed: {first}") from group

    def _target(self, mcp: Any) -> Any:  # noqa: ANN401
        """A URL unchanged, a command line as a process that writes its log where this process does.

        The library would take the standard error that it met first, which has no file in a notebook.
        """
        if isinstance(self._server, str) and self._server.startswith(("http://", "https://")):
            return self._server
        words = shlex.split(self._server) if isinstance(self._server, str) else list(self._server)
        process = mcp.StdioServerParameters(command=words[0], args=words[1:], env=self._env)
        return mcp.stdio_client(process, errlog=sys.__stderr__)


def _choose(tools: Sequence[Any], name: str) -> Any:  # noqa: ANN401
    """The tool of that name, or, without a name, the first that searches."""
    for tool in tools:
        if tool.name == name or (not name and "search" in tool.name.lower()):
            return tool
    known = ", ".join(tool.name for tool in tools) or "none"
    raise UpstreamError(
        f"the MCP server has no tool {name!r}" if name else "the MCP server has no search tool",
        hint=f"its tools: {known}",
    )


def _arguments(tool: Any, query: str, limit: int) -> dict[str, Any]:  # noqa: ANN401
    """The query, and the limit if the tool takes one, under the names in the tool's schema."""
    schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
    fields = schema.get("properties", {})
    strings = [name for name, field in fields.items() if field.get("type", "string") == "string"]
    named = [name for name in QUERY_NAMES if name in strings]
    required = [name for name in schema.get("required", ()) if name in strings]
    arguments: dict[str, Any] = {(named or required or strings or ["query"])[0]: query}
    for name in LIMIT_NAMES:
        if name in fields:
            arguments[name] = limit
            break
    return arguments


def _results(structured: object, texts: Sequence[str]) -> Iterable[object]:
    """Rows with address and text, from the structured content or else from the texts."""
    rows = _rows(structured)
    if rows:
        return rows
    found: list[object] = []
    for text in texts:
        try:
            found += _rows(orjson.loads(text))
        except orjson.JSONDecodeError:
            address = _ADDRESS.search(text)
            if address:
                found.append({"url": address.group(), "content": text})
    return found


def _rows(value: object) -> list[object]:
    """The list of results in a JSON value: the value itself, or the first list one level down."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        if "url" in value:
            return [value]
        for inner in value.values():
            if isinstance(inner, list):
                return inner
    return []


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error inside a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
