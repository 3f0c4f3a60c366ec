"""One service, two tenants: the key decides whose data a request sees."""

import asyncio

import httpx2

from headgate import Headgate
from headgate.service.app import create


async def main() -> None:
    with Headgate.open(":memory:") as hg:
        keys = {
            name: hg.for_tenant(name).keys.create(scopes=("read", "write"))
            for name in ("acme", "globex")
        }
        transport = httpx2.ASGITransport(create(hg))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            row = {"documents": [{"id": "price", "text": "Acme pays 12 euros a unit."}]}
            for name, key in keys.items():
                headers = {"authorization": f"Bearer {key.token}"}
                if name == "acme":
                    await client.post("/v1/documents", json=row, headers=headers)
                asked = {"query": "what does a unit cost?"}
                answer = await client.post("/v1/context", json=asked, headers=headers)
                print(name, answer.json()["sources"])


asyncio.run(main())
