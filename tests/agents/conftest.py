"""A bed for agents in each worker of the tests, and the table of all cells at the end."""

from contextlib import ExitStack

import pytest
from tests.agents.runs import WAYS, Bed, serving
from tests.agents.service import Service


@pytest.fixture(scope="session")
def bed(tmp_path_factory):
    """A model service, and `millgate serve` in front of it."""
    with ExitStack() as stack:
        service = Service()
        stack.callback(service.close)
        bed = Bed(tmp_path_factory.mktemp("agents"), service)
        bed.gateway = stack.enter_context(serving(tmp_path_factory.mktemp("serve"), service))
        yield bed


def pytest_terminal_summary(terminalreporter):
    """The table agents × scenarios × ways, with calls and tokens."""
    cells, worse = {}, {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, (cell, text) in getattr(report, "user_properties", ()):
                {"cell": cells, "worse": worse}[name][tuple(cell)] = text
    if not cells:
        return
    terminalreporter.section("agents × scenarios: model calls, tokens in + out; * as direct or better, ! worse")  # fmt: skip
    terminalreporter.write_line(f"{'agent':<16}{'scenario':<19}" + "".join(f"{way:<26}" for way in WAYS))  # fmt: skip
    for agent, scenario in dict.fromkeys(key[:2] for key in cells):
        row = [cells.get((agent, scenario, way), "") for way in WAYS]
        terminalreporter.write_line(f"{agent:<16}{scenario:<19}" + "".join(f"{cell:<26}" for cell in row))  # fmt: skip
    for cell, text in worse.items():
        terminalreporter.write_line(f"! {', '.join(cell)}: {text}")
