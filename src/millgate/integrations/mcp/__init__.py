"""The MCP server: seven tools and two kinds of resources over an open gate. Needs the extra `mcp`.

`tools` holds the tools, `server` speaks the protocol, `resources` reads traces and documents, and `early` answers a
client's first messages while all of that is loaded.
"""
