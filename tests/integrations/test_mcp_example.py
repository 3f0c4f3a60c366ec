"""The example of an MCP client runs as it stands, and is short."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "mcp_client.py"


def test_the_example_runs():
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "get_context" in done.stdout
    assert "within 14 days" in done.stdout
    assert len(EXAMPLE.read_text().splitlines()) <= 25
