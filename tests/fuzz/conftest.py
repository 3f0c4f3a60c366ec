"""A long run says how many cases of each kind it tried."""

from tests.fuzz.cases import TRIED


def pytest_terminal_summary(terminalreporter):
    for name, count in TRIED.items():
        terminalreporter.write_line(f"{count:8} cases  {name}")
    if TRIED:
        terminalreporter.write_line(f"{sum(TRIED.values()):8} cases in total")
