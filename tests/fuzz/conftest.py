"""A long run says how many cases of each kind it tried."""

import os

from tests.fuzz.cases import TRIED


def pytest_terminal_summary(terminalreporter):
    if "FUZZ_CASES" not in os.environ or not TRIED:  # beside other processes, which have tried them
        return
    for name, count in TRIED.items():
        terminalreporter.write_line(f"{count:8} cases  {name}")
    terminalreporter.write_line(f"{sum(TRIED.values()):8} cases in total")
