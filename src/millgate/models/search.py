"""Search: what to ask when a collection does not know; what it finds are untrusted chunks that carry their address.

`Searx` asks SearXNG's JSON API (extra `http`): GET {url}/search?q=...&format=json gives {"results": [{"url", "title",
"content"}, ...]}. `McpSearch` asks the search tool of any MCP server (extra `mcp`): a URL (streamable HTTP), or a
command line (stdio), which is started for one search and ended after it. The tool's own schema says which argument
takes the query. Its results are read from structured content, else from text that is JSON, else each text block with an
address in it becomes one chunk.
A result without an address or without text is left out, repeats are left out, and at most `limit` come back.
"""

import asyncio
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from millgate.errors import ConfigError, InputError, MissingExtra, UpstreamError
from millgate.models.http_json import Endpoint, call_json
from millgate.protocols import WebSearch
from millgate.types import Chunk
from millgate.types.policy import OptionalAddress, Policy, Positive, Tuning

MAX_QUERY = 500  # characters; search engines refuse or cut longer ones
MAX_TEXT = 4_000  # characters of one result; more is a page, not a snippet
MAX_SERVERS = 4  # searches of a command line at a time; the others wait, within their timeout
QUERY_NAMES = ("query", "q", "search", "search_query", "text", "input", "keywords", "question")
LIMIT_NAMES = ("limit", "count", "max_results", "num_results", "top_k", "n", "k")
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]]+")


class SearchPolicy(Policy):
    """Where to look when a collection does not know; nowhere by default."""

    searx: OptionalAddress = ""
    """URL of a SearXNG server that answers JSON."""
    mcp: str = ""
    """URL or command line of an MCP server with a search tool."""
    tool: str = ""
    """Which of its tools; empty: the first whose name holds 'search'."""
    timeout_s: Tuning[Positive] = 8.0
    """How long to wait for a search."""


def searcher(policy: SearchPolicy) -> WebSearch | None:
    """The search that the policy names; None when it names none."""
    if policy.searx and policy.mcp:
        raise ConfigError("search.searx and search.mcp are both set", hint="keep one of them")
    if policy.searx:
        return Searx(policy.searx, timeout_s=policy.timeout_s)
    if policy.mcp:
        return McpSearch(policy.mcp, tool=policy.tool, timeout_s=policy.timeout_s)
    return None


class Searx:
    """Asks one SearXNG server."""

    def __init__(self, url: str, *, timeout_s: float = 8.0) -> None:
        self._endpoint = Endpoint(url.rstrip("/") + "/search", timeout_s=timeout_s)

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]:
        """The first `limit` results as chunks of source "web"."""
        if limit <= 0 or not query.strip():
            return []
        asked = {"q": query[:MAX_QUERY], "format": "json"}
        answer = await call_json(self._endpoint, params=asked)
        if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
            raise UpstreamError(
                f"{self._endpoint.url} answered JSON without a list of results",
                hint="is this a SearXNG server with 'json' among its search formats?",
            )
        return web_chunks(answer["results"], limit)


class McpSearch:
    """Calls `tool` (default: the first whose name holds "search") of the MCP server at `server`."""

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        tool: str = "",
        timeout_s: float = 15.0,
    ) -> None:
        if not server:
            raise InputError("the MCP server is empty", hint="give a URL or a command line")
        self._server = server
        self._tool = tool
        self._timeout_s = timeout_s
        # each search of a command line starts a process
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]:
        """The first `limit` results as chunks of source "web"."""
        if limit <= 0 or not query.strip():
            return []
        try:
            mcp, httpx2 = import_module("mcp"), import_module("httpx2")
        except ImportError as error:
            raise MissingExtra("mcp", extra="mcp") from error
        known = (mcp.MCPError, httpx2.HTTPError, OSError, ValueError, RuntimeError)
        loop = asyncio.get_running_loop()
        slots = self._slots.setdefault(loop, asyncio.Semaphore(MAX_SERVERS))
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                slots,
                mcp.Client(self._target(mcp)) as client,
            ):
                return await self._ask(client, query[:MAX_QUERY], limit)
        except TimeoutError as error:
            raise UpstreamError(
                f"the MCP search gave no answer within {self._timeout_s:g} s",
                hint="is the server up? raise the timeout, or turn search off",
            ) from error
        except (*known, BaseExceptionGroup) as error:
            group = BaseExceptionGroup("", [error])
            if group.split((*known, UpstreamError))[1] is not None:
                raise
            first = _first(error)
            if not isinstance(first, UpstreamError):
                first = UpstreamError(f"the MCP search failed: {first}")
            raise first from error

    def _target(self, mcp: Any) -> Any:  # noqa: ANN401
        """A URL unchanged, a command line as a process that writes its log where this process does.

        The library would take the standard error that it met first, which has no file in a notebook.
        """
        if isinstance(self._server, str) and self._server.startswith(("http://", "https://")):
            return self._server
        words = shlex.split(self._server) if isinstance(self._server, str) else list(self._server)
        process = mcp.StdioServerParameters(command=words[0], args=words[1:])
        return mcp.stdio_client(process, errlog=sys.__stderr__)

    async def _ask(self, client: Any, query: str, limit: int) -> list[Chunk]:  # noqa: ANN401
        tool = _choose((await client.list_tools()).tools, self._tool)
        answer = await client.call_tool(tool.name, _arguments(tool, query, limit))
        if answer.is_error:
            raise UpstreamError(f"the search tool {tool.name!r} failed")
        texts = [block.text for block in answer.content if getattr(block, "text", None)]
        return web_chunks(_results(answer.structured_content, texts), limit)


def _first(error: BaseException) -> BaseException:
    """The first single error inside a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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


def web_chunks(results: Iterable[object], limit: int) -> list[Chunk]:
    """Search results as untrusted chunks, each address once, at most `limit`."""
    found: dict[str, Chunk] = {}
    for result in results:
        if len(found) >= limit:
            break
        chunk = _chunk(result)
        if chunk is not None:
            found.setdefault(chunk.id, chunk)
    return list(found.values())


def _chunk(result: object) -> Chunk | None:
    if not isinstance(result, Mapping):
        return None
    address = _text(result, "url", "link", "href")
    text = _text(result, "content", "snippet", "text", "description")[:MAX_TEXT]
    if not address.startswith(("http://", "https://")) or not text:
        return None
    id = "web:" + sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    metadata = {"url": address, "untrusted": True}
    title = _text(result, "title", "name")[:300]
    return Chunk(id, text, document=address, source="web", title=title, metadata=metadata)


def _text(result: Mapping[str, object], *names: str) -> str:
    """The first of the named fields that holds a text."""
    for name in names:
        value = result.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""
