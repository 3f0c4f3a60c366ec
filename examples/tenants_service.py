"""One service, two tenants: the API key decides whose data a request sees."""

import asyncio

import httpx2

from millgate import Millgate
from millgate.service.app import create

DOCUMENTS = {"documents": [{"id": "price", "text": "Acme pays 12 euros a unit."}]}
QUESTION = {"query": "what does a unit cost?"}


async def main() -> None:
    with Millgate.open(":memory:") as gate:
        # `millgate keys create --tenant acme --scope read --scope write` does the same
        acme = gate.for_tenant("acme").keys.create(scopes=("read", "write")).token
        globex = gate.for_tenant("globex").keys.create(scopes=("read",)).token
        transport = httpx2.ASGITransport(create(gate))  # yours is a URL: `millgate serve`
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.post("/v1/documents", json=DOCUMENTS, headers=bearer(acme))
            for name, token in (("acme", acme), ("globex", globex)):
                answer = await client.post("/v1/context", json=QUESTION, headers=bearer(token))
                print(name, answer.json()["sources"])


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


asyncio.run(main())
