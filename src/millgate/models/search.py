"""Searx: web search through SearXNG's JSON API; what it finds are untrusted chunks that carry their address.

GET {url}/search?q=...&format=json gives {"results": [{"url", "title", "content"}, ...]}. A result without an
address or without text is left out, repeats are left out, and at most `limit` come back. Needs the extra `http`.
"""

from collections.abc import Sequence

from millgate.errors import ConfigError, UpstreamError
from millgate.models.http_json import Endpoint, call_json
from millgate.models.web_results import MAX_QUERY, web_chunks
from millgate.protocols import WebSearch
from millgate.types import Chunk
from millgate.types.policy import OptionalAddress, Policy, Positive, Tuning


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
        from millgate.models.mcp_search import McpSearch  # noqa: PLC0415 - loads only when asked for

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
