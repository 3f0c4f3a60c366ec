"""A store on disk with a few documents, and a server over it in this process."""

from pathlib import Path

import pytest

from millgate.gateway import Millgate
from millgate.keys import SCOPES

ROWS = [
    {"id": "refunds", "title": "Refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "shipping", "title": "Shipping", "text": "Parcels are sent by rail within two days."},
    {"id": "support", "title": "Support", "text": "Write to support about refunds and parcels."},
]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and not item.path.name.startswith("test_mcp"):
            item.add_marker("lowest")


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        gate.add(ROWS)
        yield gate


@pytest.fixture
def server(gate):
    from millgate.integrations.mcp.server import build
    from millgate.integrations.mcp.tools import Access

    access = Access(gate, frozenset(SCOPES), local=True)
    return build(lambda _: access)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "kb"
    with Millgate.open(path) as gate:
        gate.add(ROWS)
    return path
