"""In the middle of a turn: gateways are killed, and the agent is interrupted. It fares as without us."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from tests.agents.compare import worse_than
from tests.agents.known import chosen
from tests.agents.runs import MOST_S, run_to_end
from tests.agents.scenarios import SCENARIOS, MidTurn
from tests.proxy.conftest import Loop
from tests.waiting import until

from millgate.wrap.agents.launch import plan_launch
from millgate.wrap.spec import MEMORY, GatewaySpec
from millgate.wrap.supervisor import Supervisor

KILLS = 3


class Supervised:
    """Runs a command as `millgate wrap` does, with the supervisor in this process: its gateways are at hand."""

    def __call__(self, command, *, cwd, env):
        listener = socket.create_server(("127.0.0.1", 0))
        root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        launch = plan_launch(command, root=root, secret="s3cret", environ=env, upstreams={}, folder=cwd)  # fmt: skip
        spec = GatewaySpec(MEMORY, patience_s=60)
        self.supervisor = Supervisor(spec, secret="s3cret", open_paths=launch.open_paths)
        loop = Loop()
        loop.run(self.supervisor.start(listener))
        try:
            return run_to_end(launch.arguments, cwd=cwd, env=launch.environment)
        finally:
            loop.run(self.supervisor.close())
            loop.close()

    def kill_gateway(self):
        """Kill the gateway at work."""
        os.kill(self.supervisor.gateways.current.pid, signal.SIGKILL)


@pytest.mark.agents
@pytest.mark.parametrize("agent", chosen("claude", "codex", "hermes"))
def test_an_agent_notices_nothing_of_gateways_that_are_killed(bed, agent):
    healthy, supervised = SCENARIOS["healthy"], Supervised()
    direct = bed.run(agent, healthy, "direct")
    killed = MidTurn(act=supervised.kill_gateway, times=KILLS)
    other = bed.run(agent, killed, "direct", run=supervised)
    assert worse_than(direct, other, healthy) == []
    routes = supervised.supervisor.summary.routes
    assert routes["straight"] == KILLS
    assert routes["broken"] == 0


@pytest.mark.agents
@pytest.mark.parametrize("agent", chosen("claude", "codex", "opencode", "hermes"))
def test_an_interrupt_ends_an_agent_as_without_us_and_nothing_is_left_behind(bed, agent):
    direct, other = (interrupt(bed, agent, way) for way in ("direct", "wrap"))
    assert shell_code(other) == shell_code(direct), other.stderr
    assert len(other.play.main) == len(direct.play.main) == 1
    places = (bed.folder / name for name in ("home", "project", "tmp"))
    assert not [path for place in places for path in place.rglob("*millgate*")]


def interrupt(bed, agent, way):
    """Run an agent, and interrupt it in the middle of its first answer; what it has started is gone then."""
    begun, ended = threading.Event(), threading.Event()

    def wait():
        begun.set()
        ended.wait(MOST_S)

    def press(group):
        assert begun.wait(MOST_S)
        os.killpg(group, signal.SIGINT)  # what a terminal does at Ctrl-C

    def run(command, **place):
        return run_to_end(command, **place, meanwhile=press)

    try:
        outcome = bed.run(agent, MidTurn(act=wait), way, run=run)
    finally:
        ended.set()
    until(lambda: not processes_of(bed.home))
    return outcome


def shell_code(outcome):
    """The exit code as a shell shows it."""
    return outcome.code if outcome.code >= 0 else 128 - outcome.code


def processes_of(home):
    """The processes that run in this home."""
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if f"HOME={home}".encode() in read(path).split(b"\0")]  # fmt: skip


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""
