"""Searx: web search through SearXNG's JSON API; what it finds are untrusted chunks that carry their address.

GET {url}/search?q=...&format=json gives {"results": [{"url", "title", "content"}, ...]}. A result without an
address or without text is left out, repeats are left out, and at most `limit` come back. Needs the extra `http`.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from headgate.errors import ConfigError, UpstreamError
from headgate.models.http_json import Endpoint, call
from headgate.policy import Policy, Positive
from headgate.protocols import WebSearch
from headgate.types import Chunk

MAX_QUERY = 500  # characters; search engines refuse or cut longer ones
MAX_TEXT = 4_000  # characters of one result; more is a page, not a snippet


class SearchPolicy(Policy):
    """Where to look when a collection does not know; nowhere by default."""

    searx: str = ""
    """URL of a SearXNG server that answers JSON."""
    mcp: str = ""
    """URL or command line of an MCP server with a search tool."""
    tool: str = ""
    """Which of its tools; empty: the first whose name holds 'search'."""
    timeout_s: Positive = 8.0
    """How long to wait for a search."""


def searcher(policy: SearchPolicy) -> WebSearch | None:
    """The search that the policy names; None when it names none."""
    if policy.searx and policy.mcp:
        raise ConfigError("search.searx and search.mcp are both set", hint="keep one of them")
    if policy.searx:
        return Searx(policy.searx, timeout_s=policy.timeout_s)
    if policy.mcp:
        from headgate.models.mcp_search import McpSearch  # noqa: PLC0415 - loads only when asked for

        return McpSearch(policy.mcp, tool=policy.tool, timeout_s=policy.timeout_s)
    return None


class Searx:
    """Asks one SearXNG server; `categories`, `language` and the like go into `params`."""

    def __init__(
        self, url: str, *, timeout_s: float = 8.0, params: Mapping[str, str] | None = None
    ) -> None:
        self._endpoint = Endpoint(url.rstrip("/") + "/search", timeout_s=timeout_s)
        self._params = dict(params or {})

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]:
        """The first `limit` results as chunks of source "web"."""
        if limit <= 0 or not query.strip():
            return []
        asked = {**self._params, "q": query[:MAX_QUERY], "format": "json"}
        answer = await call(self._endpoint, params=asked)
        if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
            raise UpstreamError(
                f"{self._endpoint.url} answered JSON without a list of results",
                hint="is this a SearXNG server with 'json' among its search formats?",
            )
        return web_chunks(answer["results"], limit)


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
    """The first of the named fields that is a text."""
    for name in names:
        value = result.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""
