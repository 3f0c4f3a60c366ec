"""Real MCP servers, built with the `mcp` package: searches that answer well or badly, by kind.

python search_server.py KIND     serves one over stdio
python search_server.py          serves each at /KIND/mcp, and prints the port
"""

import json
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager

from mcp.server.mcpserver import MCPServer


def hits(query, count):
    return [
        {"url": f"https://example.org/{n}", "title": f"Hit {n}", "snippet": f"{query} number {n}"}
        for n in range(count)
    ]


def web_search(query: str, max_results: int = 10) -> list[dict[str, str]]:
    """Search the web."""
    return hits(query, max_results)


def search_text(q: str) -> str:
    """Search the web, answered as JSON text."""
    return json.dumps({"results": hits(q, 3)})


def search_prose(q: str) -> str:
    """Search the web, answered as prose."""
    return f"See https://example.org/a for {q}."


def search_html(q: str) -> str:
    """Search the web, answered as a page without an address."""
    return "<html>captcha</html>"


def search_many(query: str) -> list[dict[str, str]]:
    """Search the web, too well."""
    return hits(query, 10_000)


def search_in_vain(query: str) -> str:
    """Search the web, in vain."""
    raise ValueError("the index is gone")


def search_later(query: str) -> str:
    """Search the web, later."""
    time.sleep(30)
    return "late"


def add(a: int, b: int) -> int:
    """No search at all."""
    return a + b


TOOLS = {
    "good": (web_search, None),
    "text": (search_text, False),
    "prose": (search_prose, False),
    "html": (search_html, False),
    "many": (search_many, None),
    "fails": (search_in_vain, None),
    "slow": (search_later, None),
    "none": (add, None),
}


def build(kind):
    server = MCPServer("search for tests")
    tool, structured = TOOLS[kind]
    server.add_tool(tool, structured_output=structured)
    return server


def serve_all():
    import socket

    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    apps = {kind: build(kind).streamable_http_app() for kind in TOOLS}

    @asynccontextmanager
    async def lifespan(_):
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    routes = [Mount(f"/{kind}", app) for kind, app in apps.items()]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(Starlette(routes=routes, lifespan=lifespan), log_level="critical")
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    if not sys.argv[1:]:
        serve_all()
    elif sys.argv[1] == "dies":
        sys.exit(3)
    else:
        build(sys.argv[1]).run("stdio")
