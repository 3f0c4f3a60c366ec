"""The example of an MCP client runs as it stands, and is short."""

from pathlib import Path

from tests.scripts import run_code

EXAMPLE = Path(__file__).parents[2] / "examples" / "mcp_client.py"


def test_the_example_runs(tmp_path):
    done = run_code(EXAMPLE.read_text(), tmp_path, file=EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "get_context" in done.stdout
    assert "within 14 days" in done.stdout
    assert len(EXAMPLE.read_text().splitlines()) <= 25
