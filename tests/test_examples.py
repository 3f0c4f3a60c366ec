"""Every example runs, offline, as a reader would run it."""

import subprocess
import sys
from pathlib import Path

import pytest

# A framework's way to run without a loop, of which newer Pythons warn, is not ours to mend.
WARNINGS = ("error", "ignore:There is no current event loop:DeprecationWarning")
EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_runs_and_prints_something(file, tmp_path):
    done = subprocess.run(
        [sys.executable, *(f"-W{action}" for action in WARNINGS), str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""
