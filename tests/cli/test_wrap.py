"""`millgate wrap`: what of its options reaches the agent's supervisor, and what is printed at the end."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from millgate.cli import given_settings
from millgate.cli import wrap as wrapping
from millgate.gateway import Millgate
from millgate.published.self_reference import ENVIRONMENT_PREFIX
from millgate.settings.load import CONFIG, FILE, PREFIX
from millgate.wrap.summary import Summary


@pytest.fixture
def wrapped(monkeypatch):
    """What each agent would have been run with."""
    found = []

    async def run_wrapped(command, **how):
        found.append((command, how))
        return 7, Summary(Counter({"guarded": 2}))

    monkeypatch.setattr(wrapping, "run_wrapped", run_wrapped)
    return found


def test_the_agents_arguments_and_exit_code_are_its_own(run, wrapped):
    code, out, err = run("wrap", "claude", "-p", "--", "hello")
    assert (code, out) == (7, "")
    assert err == "millgate: 2 model calls; 2 guarded\n"
    run("wrap", "--", "claude", "--", "-p")
    assert run("wrap", "--quiet", "claude")[2] == ""
    assert [command for command, _ in wrapped] == [("claude", "-p", "--", "hello"), ("claude", "-p"), ("claude",)]  # fmt: skip
    assert wrapped[0][1]["environ"] is os.environ


def test_a_store_that_is_empty_is_named_at_the_end(run, wrapped):
    told = "millgate: the store nowhere is empty: millgate add FOLDER --store nowhere\n"
    with Millgate.open("nowhere") as gate:  # as the gateway leaves it
        assert told in run("wrap", "--store", "nowhere", "claude")[2]
        assert told not in run("wrap", "--store", "nowhere", "--no-inject", "claude")[2]
        gate.add(["Refunds are paid by card."])
    assert told not in run("wrap", "--store", "nowhere", "claude")[2]


def test_a_misspelled_option_is_not_taken_for_an_agent(run, wrapped):
    code, _, err = run("wrap", "--sotre", "kb", "claude")
    assert code == 2
    assert "--sotre" in err
    assert "--store" in err
    assert not wrapped


def test_the_exit_code_is_the_agents_even_if_nobody_can_read_the_summary(run, wrapped, monkeypatch):
    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert run("wrap", "claude")[0] == 7
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


@pytest.mark.parametrize(
    ("options", "store", "inject"),
    [
        ([], ":memory:", False),
        (["--inject"], None, True),
        (["--store", "kb"], "kb", True),
        (["--store", "kb", "--no-inject"], "kb", False),
    ],
)
def test_context_is_added_if_a_store_is_named_or_it_is_asked_for(run, wrapped, options, store, inject):  # fmt: skip
    run("wrap", *options, "claude")
    spec = wrapped[0][1]["spec"]
    assert (spec.store, spec.inject, spec.fold, spec.remember) == (store, inject, False, False)


def test_folding_and_remembering_are_asked_for(run, wrapped):
    run("wrap", "--fold", "claude")
    run("wrap", "--remember", "claude")
    assert [(how["spec"].fold, how["spec"].remember) for _, how in wrapped] == [(True, False), (False, True)]  # fmt: skip


def test_an_upstream_is_a_provider_and_an_address(run, wrapped):
    run("wrap", "--upstream", "openai=http://localhost:1/v1", "--upstream", "gemini=https://g", "--patience", "2", "claude")  # fmt: skip
    how = wrapped[0][1]
    assert how["upstreams"] == {"openai": "http://localhost:1/v1", "gemini": "https://g"}
    assert how["spec"].patience_s == 2.0
    code, _, err = run("wrap", "--upstream", "openai=localhost", "claude")
    assert (code, len(wrapped)) == (2, 1)
    assert "is not PROVIDER=URL" in err


def test_what_may_be_set_is_known_without_loading_the_settings():
    assert (given_settings.FILE, given_settings.CONFIG) == (FILE, CONFIG)
    assert given_settings.PREFIXES == (PREFIX, ENVIRONMENT_PREFIX)


PROBE = """
import sys
from millgate.cli import _import_command, COMMANDS
_import_command(COMMANDS["wrap"][0])
print(sorted({"pydantic", "numpy", "aiohttp", "fastapi"} & set(sys.modules)))
"""


def test_the_command_loads_nothing_heavy_before_the_agent_starts():
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_supervisor_loads_no_settings_since_the_first_call_waits_for_it():
    script = "import sys, millgate.wrap.supervisor; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == "False\n"
