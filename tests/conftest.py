"""For every test: the same cases in every run, and no deadline, since times on a shared machine mean nothing.

Bugs are raised, not survived: a stage that fails for no reason from outside fails the test that runs it.
"""

import os
import signal
from collections import Counter

import pytest
from hypothesis import settings

from millgate.testing import strict

# `make test` draws few examples, `make test-all` two hundred (--hypothesis-profile=large), both always the same
settings.register_profile("small", deadline=None, derandomize=True, database=None, max_examples=20)
settings.register_profile("large", deadline=None, derandomize=True, database=None, max_examples=200)
settings.load_profile("small")

# What a run that may skip nothing still skips (SKIP_NOTHING=1, as .ci/run sets it): what this machine cannot have.
ALLOWED_SKIPS = (
    "the C library is not glibc",
    "this machine has no IPv6",
    "names no distributed store on Citus",
)

# What a test asks for says what it is.
MARKED = {"browser": "browser", "postgres": "postgres", "citus": "citus"}

# What starts in the background inherits that SIGINT is ignored, and under nohup SIGHUP, and so do the programs that
# tests start and interrupt. A handler is not inherited: they begin as in the foreground.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items):
    for item in items:
        for fixture, marker in MARKED.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)


def pytest_terminal_summary(terminalreporter):
    """Each reason for which something was skipped, in one line."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"skipped {count}: {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _fail_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _fail_skipped((yield))


def _fail_skipped(report):
    """The report of what was skipped, as a failure in a run that may skip nothing."""
    reason = str(report.longrepr)
    if (
        os.environ.get("SKIP_NOTHING")
        and report.skipped
        and not hasattr(report, "wasxfail")
        and not any(allowed in reason for allowed in ALLOWED_SKIPS)
    ):
        report.outcome, report.longrepr = "failed", f"skipped in a run that may skip nothing: {reason}"  # fmt: skip
    return report


@pytest.fixture(autouse=True)
def keep_signals():
    """A test that leaves a signal ignored fails: each program that a later test starts would ignore it too."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    left = {number: signal.getsignal(number) for number in before}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert left == before


@pytest.fixture(autouse=True, scope="session")
def raise_bugs():
    with strict():
        yield


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server; see tests/postgres_server.py."""
    from tests.postgres_server import named_server, running_server

    if (named := named_server()) is not None:
        yield named
        return
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def citus(postgres):
    """A cluster with the tables of a store spread over it; see bench/citus.sh."""
    from tests.postgres_server import has_distributed_tables, named_server

    if named_server() is None or not has_distributed_tables(postgres.url):
        pytest.skip("MILLGATE_TEST_POSTGRES names no distributed store on Citus")
    return postgres


@pytest.fixture
def gateway_url(postgres, postgres_url):
    """The address of the same store for a role that does not own its tables."""
    from tests.postgres_server import gateway_role

    from millgate.stores.postgres.store import PostgresStore

    PostgresStore(postgres_url).close()
    with gateway_role(postgres) as url:
        yield url


@pytest.fixture
def postgres_url(postgres):
    """The address of a store without a row."""
    from tests.postgres_server import empty

    empty(postgres)
    return postgres.url
