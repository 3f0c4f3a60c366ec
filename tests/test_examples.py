"""Every example runs, offline, as a reader would run it; those with frameworks and MCP in tests/integrations."""

from pathlib import Path

import pytest
from tests.scripts import run_code

FILES = (Path(__file__).parent.parent / "examples").glob("*.py")
EXAMPLES = sorted(file for file in FILES if not file.name.startswith(("with_", "mcp_")))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_runs_and_prints_something(file, tmp_path):
    done = run_code(file.read_text(), tmp_path, file=file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""
