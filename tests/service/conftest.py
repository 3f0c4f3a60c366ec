"""A gate with a few documents, an app over it, and clients for both."""

import httpx2
import pytest

from headgate.gateway import Headgate
from headgate.service.app import create
from headgate.settings import Settings

ROWS = [
    {"id": "refunds", "title": "Refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "shipping", "title": "Shipping", "text": "Parcels are sent by rail within two days."},
    {"id": "support", "title": "Support", "text": "Write to support about refunds and parcels."},
]


@pytest.fixture
def gate():
    with Headgate.open(settings=Settings(store=":memory:")) as gate:
        gate.add(ROWS)
        yield gate


@pytest.fixture
def app(gate):
    return create(gate)


@pytest.fixture
async def client(app):
    async with connected(app) as client:
        yield client


def connected(app, *, key="", address="127.0.0.1", host="localhost", raising=True):
    """A client of an app in this process, from some address, with a key or without."""
    transport = httpx2.ASGITransport(app, client=(address, 1), raise_app_exceptions=raising)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)
