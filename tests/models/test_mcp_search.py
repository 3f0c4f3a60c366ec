import sys
from pathlib import Path

import pytest
from tests.models.conftest import printing_its_port

from millgate.errors import InputError, UpstreamError
from millgate.models.search import McpSearch

SCRIPT = str(Path(__file__).with_name("search_server.py"))


@pytest.fixture(scope="module")
def url():
    """The address of a server that has one of each kind."""
    with printing_its_port(SCRIPT) as port:
        yield f"http://127.0.0.1:{port}"


def over_stdio(kind, *, timeout_s=120.0, **how):
    """The search of a server that may take its time to start, as on a busy machine."""
    return McpSearch([sys.executable, SCRIPT, kind], timeout_s=timeout_s, **how)


def over_http(url, kind, **how):
    return McpSearch(f"{url}/{kind}/mcp", timeout_s=120.0, **how)


async def check(search, count):
    found = await search.search("red foxes", limit=4)
    assert len(found) == count
    assert all(chunk.source == "web" and chunk.metadata["untrusted"] for chunk in found)
    assert all(chunk.metadata["url"].startswith("https://example.org/") for chunk in found)
    assert "red foxes" in found[0].text


@pytest.mark.parametrize(("kind", "count"), [("good", 4), ("text", 3), ("prose", 1), ("many", 4)])
async def test_any_search_tool_gives_untrusted_chunks(url, kind, count):
    await check(over_http(url, kind), count)


async def test_a_command_line_is_started_for_a_search():
    await check(over_stdio("good"), 4)


async def test_a_page_without_addresses_gives_nothing(url):
    assert await over_http(url, "html").search("x", limit=3) == []


@pytest.mark.parametrize(
    ("kind", "said"), [("fails", "tool 'search_in_vain' failed"), ("none", "no search tool")]
)
async def test_a_server_that_misbehaves_is_an_upstream_error(url, kind, said):
    with pytest.raises(UpstreamError, match=said):
        await over_http(url, kind).search("x", limit=3)


async def test_a_server_that_dies_is_an_upstream_error():
    with pytest.raises(UpstreamError, match="failed"):
        await over_stdio("dies").search("x", limit=3)


async def test_a_slow_tool_is_cut_off():
    with pytest.raises(UpstreamError, match="within 3 s"):
        await over_stdio("slow", timeout_s=3).search("x", limit=3)


async def test_a_tool_that_is_not_there_is_named(url):
    with pytest.raises(UpstreamError, match="no tool 'lookup'"):
        await over_http(url, "good", tool="lookup").search("x", limit=3)


async def test_a_command_that_is_not_there_is_an_upstream_error():
    with pytest.raises(UpstreamError, match="MCP search failed"):
        await McpSearch("no-such-command-here --now").search("x", limit=3)


async def test_a_url_that_nobody_serves_is_an_upstream_error():
    with pytest.raises(UpstreamError):
        await McpSearch("http://127.0.0.1:9/mcp", timeout_s=5).search("x", limit=3)


def test_an_empty_server_is_refused():
    with pytest.raises(InputError):
        McpSearch("")
