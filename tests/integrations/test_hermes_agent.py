"""Millgate inside the real hermes-agent, as pip installs it: its own agent, and a scripted model on loopback.

hermes-agent pins what it needs, so it has a Python of its own, which `make test-all` sets up.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("HERMES_PYTHON", ROOT / ".venv-hermes" / "bin" / "python"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="hermes-agent is not installed; `make test-all` does that"
    ),
]


@pytest.fixture
def run(tmp_path):
    """Run a scenario of hermes_run.py in an empty home; what it found."""

    def call(scenario):
        home = tmp_path / "home"
        home.mkdir()
        script = Path(__file__).with_name("hermes_run.py")
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HERMES_HOME": str(home)}
        done = subprocess.run(
            [PYTHON, script, scenario, home],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])["result"]

    return call


def test_it_finds_the_provider_once_it_is_installed_and_the_engine_by_its_entry_point(run):
    found = run("find")
    assert found["found"] == [False, True, False]
    assert found["listed"] == ["Facts, passages and earlier turns within a token budget, with reasons", True]  # fmt: skip
    assert found["engine"] == "millgate"


@pytest.mark.parametrize(
    ("scenario", "engine", "memory"),
    [
        ("compress", "MillgateEngine", ["millgate"]),
        ("compress-engine-alone", "MillgateEngine", []),
        ("compress-memory-alone", "ContextCompressor", ["millgate"]),
    ],
)
def test_a_fact_from_before_a_compression_is_recalled_after_it(run, scenario, engine, memory):
    done = run(scenario)
    assert (done["engine"], done["memory"]) == (engine, memory)
    assert done["compressions"] == 1
    assert done["messages"][0] < done["history"] / 2
    assert done["moved"]
    assert done["recalled"] == 1
    assert done["prefix_stays"]
    assert done["rules"] == [1, 1, 1]
    # nothing is promised that this hermes-agent does not do: it never calls `select_context`
    assert all("is recalled with it" not in note for note in done["notes"])
    assert len(done["notes"]) == (engine == "MillgateEngine")


@pytest.mark.parametrize(
    ("scenario", "engine"),
    [("pressure", "MillgateEngine"), ("pressure-built-in-engine", "ContextCompressor")],
)
def test_a_prefetch_shrinks_as_the_window_fills_and_stops(run, scenario, engine):
    done = run(scenario)
    assert done["engine"] == engine
    facts = {percent: given[0] for percent, given in done["given"].items()}
    tokens = {percent: given[1] for percent, given in done["given"].items()}
    assert facts["10"] > facts["60"] > facts["74"] == facts["80"] == facts["94"] == 2
    assert tokens["10"] > tokens["60"] > tokens["74"] >= tokens["80"] >= tokens["94"] > 0
    assert facts["96"] == 0
    assert tokens["96"] <= 0
