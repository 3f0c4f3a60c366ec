"""A served gate with a few requests behind it, and a browser to look at it with."""

import pytest
from tests.dashboard.browser import running
from tests.service.clients import served

from millgate.gateway import Millgate
from millgate.settings import Settings

ROWS = [
    {"id": "policy", "title": "Refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "label", "title": "Steps", "text": "Send the order number and a photo of the label."},
    {"id": "limits", "title": "Limits", "text": "Refunds above 500 euros are checked by a second person."},
    {"id": "log", "title": "Refund log", "text": "refund ok " * 60},
    {"id": "parcels", "title": "Shipping", "text": "Parcels are sent by rail within two days."},
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with running() as browser:
        yield browser


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Of a service on a port of its own, with a store of its own."""
    return Settings(store=str(tmp_path_factory.mktemp("store")), service={"port": 0, "log": False})


@pytest.fixture(scope="module")
def gate(settings):
    with Millgate.open(settings=settings) as gate:
        gate.add(ROWS)
        yield gate


@pytest.fixture(scope="module")
def base(settings, gate):
    """The address of the service."""
    with served(settings) as (url, _):
        yield url
