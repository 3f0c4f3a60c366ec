"""For every test: no deadline, since times on a shared machine mean nothing; the same examples on every CI run.

Bugs are raised, not survived: a stage that fails for no reason from outside fails the test that runs it.
"""

import os

import pytest
from hypothesis import settings

from headgate.testing import strict

settings.register_profile("headgate", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("headgate")


@pytest.fixture(autouse=True, scope="session")
def raise_bugs():
    with strict():
        yield


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server; see tests/postgres_server.py."""
    from tests.postgres_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres):
    """The address of a store without a row."""
    from tests.postgres_server import empty

    empty(postgres)
    return postgres.url
