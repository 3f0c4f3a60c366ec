"""A real MCP server over stdio, built with the `mcp` package: searches that answer well or badly, by name."""

import json
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("search for tests")
KIND = sys.argv[1] if len(sys.argv) > 1 else "good"


def hits(query, count):
    return [
        {"url": f"https://example.org/{n}", "title": f"Hit {n}", "snippet": f"{query} number {n}"}
        for n in range(count)
    ]


if KIND == "good":

    @server.tool()
    def web_search(query: str, max_results: int = 10) -> list[dict[str, str]]:
        """Search the web."""
        return hits(query, max_results)

elif KIND == "text":

    @server.tool(structured_output=False)
    def search_text(q: str) -> str:
        """Search the web, answered as JSON text."""
        return json.dumps({"results": hits(q, 3)})

elif KIND == "prose":

    @server.tool(structured_output=False)
    def search_prose(q: str) -> str:
        """Search the web, answered as prose."""
        return f"See https://example.org/a for {q}."

elif KIND == "html":

    @server.tool(structured_output=False)
    def search_html(q: str) -> str:
        """Search the web, answered as a page without an address."""
        return "<html>captcha</html>"

elif KIND == "many":

    @server.tool()
    def search_many(query: str) -> list[dict[str, str]]:
        """Search the web, too well."""
        return hits(query, 10_000)

elif KIND == "fails":

    @server.tool()
    def search(query: str) -> str:
        """Search the web, in vain."""
        raise ValueError("the index is gone")

elif KIND == "slow":

    @server.tool()
    def search(query: str) -> str:
        """Search the web, later."""
        time.sleep(30)
        return "late"

else:

    @server.tool()
    def add(a: int, b: int) -> int:
        """No search at all."""
        return a + b


if __name__ == "__main__":
    if KIND == "dies":
        sys.exit(3)
    server.run("stdio")
