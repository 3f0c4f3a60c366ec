"""The examples run offline, are short, and stand in the docs with what they print."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import MOST_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "integrations.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("with_*.py"))
# A framework's way to run without a loop, of which newer Pythons warn, is not ours to mend.
WARNINGS = ("error", "ignore:There is no current event loop:DeprecationWarning")


@pytest.mark.slow  # each imports a whole framework
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_stands_in_the_docs_with_what_it_prints(
    example, tmp_path, pytestconfig
):
    # of the oldest versions nobody wants to hear
    actions = pytestconfig.getoption("pythonwarnings") or WARNINGS
    done = subprocess.run(
        [sys.executable, *(f"-W{action}" for action in actions), str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"```py\n{example.read_text()}```\n```text\n{done.stdout}```" in PAGE


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_at_most_25_lines(example):
    assert len(example.read_text().splitlines()) <= 25
