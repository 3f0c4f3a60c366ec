"""`millgate wrap` as a user runs it, with a tiny agent on the real openai package."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.proxy.conftest import Loop
from tests.proxy.upstream import LOOP, PROSE, UNIT, Upstream, json_head, said
from tests.waiting import MOST_S

from millgate.gateway import Millgate

AGENT = Path(__file__).with_name("agent.py")


@pytest.fixture(scope="module")
def upstream():
    background = Loop()
    upstream = background.run(Upstream().start())
    upstream.script("/v1/models", [json_head(), b'{"object": "list", "data": [{"id": "steady"}]}'])
    yield upstream

    async def stop():
        await upstream.stop()
        await asyncio.sleep(0)

    background.run(stop())
    background.close()


def snapshot(folder):
    """What is in a folder, and when it was written; in folders for temporary files others come and go."""
    return {
        path.relative_to(folder): (
            path.name != "tmp" and path.stat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def place(tmp_path, upstream):
    """A home, a project and a folder for temporary files, and the environment that names them."""
    for name in ("home", "project", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "types.py").write_text("raise SystemExit('imported from the project')")
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "OPENAI_API_KEY": "sk-of-the-user",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{upstream.port}/v1",
    }
    return tmp_path, environ


def wrap(place, *arguments):
    folder, environ = place
    return subprocess.run(
        [sys.executable, "-P", "-m", "millgate", "wrap", "--patience", "60", *arguments],
        cwd=folder / "project",
        env=environ,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )


def agent(*arguments):
    return (sys.executable, "-P", str(AGENT), *arguments)


@pytest.mark.slow
def test_an_agent_is_guarded_and_nothing_is_left_behind(place, upstream):
    upstream.script("looping", said(*LOOP), said("until the keeper closed the gate.", id="x"))
    before = snapshot(place[0])
    command, *rest = agent("looping", "what of the gate?", "3")
    done = wrap(place, command, "--", *rest)
    assert done.returncode == 3, done.stderr
    text, told = done.stdout.splitlines()
    assert text.startswith("".join(PROSE))
    assert text.endswith("until the keeper closed the gate.")
    assert text.count(UNIT) < 10
    assert json.loads(told)["models"] == ["steady"]
    assert json.loads(told)["base"].startswith("http://127.0.0.1:")
    assert (
        "millgate: 2 model calls to 127.0.0.1; 2 guarded; 1 loop cut from 1 answer, 1 recovered"
        in done.stderr
    )
    assert snapshot(place[0]) == before
    first, second = upstream.seen["looping"]
    assert first.headers["authorization"] == second.headers["authorization"]
    assert first.headers["authorization"] == "Bearer sk-of-the-user"
    assert not [name for name in first.headers if "millgate" in name]


@pytest.mark.slow
def test_a_store_gives_context_and_takes_the_traces(place, upstream):
    upstream.script("steady", said(*PROSE))
    folder = place[0] / "store"
    with Millgate.open(str(folder)) as gate:
        gate.add(
            [{"id": "gate", "text": "The gate of the north channel is opened at dawn by Ines."}]
        )
    before = snapshot(place[0] / "project"), snapshot(place[0] / "home")
    question = "who opens the gate of the north channel?"
    done = wrap(place, "--store", str(folder), *agent("steady", question, "0"))
    assert done.returncode == 0, done.stderr
    (call,) = upstream.seen["steady"]
    assert "opened at dawn by Ines" in call.json["messages"][-1]["content"]
    assert "; 0 tokens of context" not in done.stderr
    assert "tokens of context injected" in done.stderr
    assert (snapshot(place[0] / "project"), snapshot(place[0] / "home")) == before
    with Millgate.open(str(folder)) as gate:
        assert any(trace.query == question for trace in gate.traces())


@pytest.mark.slow
def test_a_service_that_is_not_reached_is_told_so_at_the_end_and_by_why(place):
    folder = place[0] / "store"
    place[1]["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
    done = wrap(place, "--store", str(folder), *agent("steady", "what of the gate?", "0"))
    assert "1 without an answer (not reached ×1)" in done.stderr
    with Millgate.open(str(folder)) as gate:
        (call,) = [trace for trace in gate.traces() if trace.outcome]
    assert (call.outcome, call.status) == ("unanswered", 0)


@pytest.mark.slow
def test_a_store_that_is_damaged_costs_the_traces_and_not_the_guard(place, upstream):
    upstream.script("looping", said(*LOOP), said("until the keeper closed the gate.", id="x"))
    folder = place[0] / "store"
    folder.mkdir()
    (folder / "millgate.db").write_bytes(b"no database" * 1000)
    done = wrap(place, "--store", str(folder), *agent("looping", "what of the gate?", "0"))
    assert done.stdout.splitlines()[0].endswith("until the keeper closed the gate.")
    line, why = done.stderr.splitlines()
    assert "2 model calls" in line
    assert "1 loop cut from 1 answer, 1 recovered" in line
    assert f"for want of the store {folder}: " in why
    assert "restore it from a backup" in why


def test_a_command_that_is_not_there_is_an_error_of_two_lines(place):
    done = wrap(place, "no-such-agent")
    assert done.returncode == 2
    assert done.stderr == (
        "error: there is no command 'no-such-agent'\nhint: install it, or give its path\n"
    )


def test_settings_that_cannot_be_used_are_told_before_the_agent_starts(place):
    environ = place[1] | {"MILLGATE_GUARD__MAX_ROLLBACKS": "many"}
    done = wrap((place[0], environ), "--quiet", "echo", "started")
    assert done.returncode == 2
    assert "max_rollbacks" in done.stderr
    assert done.stdout == ""


def test_an_upstream_that_is_no_address_is_refused(place):
    done = wrap(place, "--upstream", "openai", "true")
    assert done.returncode == 2
    assert "PROVIDER=URL" in done.stderr
