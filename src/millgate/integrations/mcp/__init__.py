"""The MCP server: seven tools and two kinds of resources over an open gate. Needs the extra `mcp`.

`server` speaks the protocol, `tools` holds the tools, `fitting` keeps a result within its budget, `resources` reads
traces and documents, and `stdio` runs it all for one client. The service mounts the same server over HTTP.
"""
