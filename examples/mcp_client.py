"""Ask Millgate over MCP: start `millgate mcp` on a small store, list its tools, and get a context."""

import asyncio
import os
import sys
import tempfile

from mcp import Client, StdioServerParameters

from millgate import Millgate


async def main() -> None:
    with tempfile.TemporaryDirectory() as store:
        with Millgate.open(store) as gate:
            gate.add([{"id": "refunds", "text": "Refunds are paid within 14 days to the card."}])
        arguments = ["-m", "millgate", "mcp", "--store", store]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with Client(server) as agent:
            print(*(tool.name for tool in (await agent.list_tools()).tools))
            answer = await agent.call_tool("get_context", {"query": "how are refunds paid?"})
            print(answer.content[0].text)


asyncio.run(main())
