"""StoreContract: what every store promises, as tests.

Inherit from it and give a `store` fixture that yields an empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): ...
"""

from collections.abc import Iterator

import pytest

from headgate.protocols import Store
from headgate.testing.content import ContentContract
from headgate.testing.intake import IntakeContract
from headgate.testing.keys import KeysContract
from headgate.testing.ledger import LedgerContract


class StoreContract(ContentContract, IntakeContract, LedgerContract, KeysContract):
    """Everything a store promises; give a `store` fixture and inherit."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """An empty store; every test class that keeps this contract gives its own."""
        raise AssertionError("override the `store` fixture with one that yields an empty store")
