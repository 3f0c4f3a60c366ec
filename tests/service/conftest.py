"""A gate with a few documents, an app over it, and clients for both."""

from contextlib import ExitStack

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings

ROWS = [
    {"id": "refunds", "title": "Refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "shipping", "title": "Shipping", "text": "Parcels are sent by rail within two days."},
    {"id": "support", "title": "Support", "text": "Write to support about refunds and parcels."},
]


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        gate.add(ROWS)
        yield gate


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def app(gate):
    return create(gate)


@pytest.fixture
async def client(app):
    async with connected(app) as client:
        yield client
