"""Run an agent in one of three ways: straight to the model service, under `millgate wrap`, or with `millgate serve`."""

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.agents.install import is_installed
from tests.agents.known import MILLGATE
from tests.agents.scenarios import PASSAGE
from tests.agents.task import RESULT, TASK

from millgate.gateway import Millgate

WAYS = ("direct", "wrap", "serve")
MOST_S = 300  # ends an agent that hangs; a machine may be very busy
# a machine that is busy must not make the gateway look slow
PATIENCE = ("--patience", "60")


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    way: str
    play: object
    code: int
    stdout: str
    stderr: str
    files: dict[str, bytes]  # what the agent has made in its project

    @property
    def finished(self):
        """Whether the task is done: the result is on the disk."""
        return self.files.get("result.txt") == RESULT.encode()

    @property
    def calls(self):
        return len(self.play.calls)

    @property
    def refused(self):
        return sum(call.status == 400 for call in self.play.calls)

    @property
    def input_tokens(self):
        return sum(call.input_tokens for call in self.play.calls if call.status == 200)

    @property
    def output_tokens(self):
        return sum(call.output_tokens for call in self.play.calls)


class Bed:
    """A place in which agents run: the model service, and a gateway that serves in front of it."""

    def __init__(self, folder, service):
        self.folder, self.service, self.gateway = folder, service, ""
        self.store = folder / "store"
        with Millgate.open(self.store) as gate:
            gate.add([{"id": "list", "text": PASSAGE}])

    @property
    def home(self):
        """The home of the agent that runs, or ran last."""
        return self.folder / "home"

    def run(self, agent, scenario, way, *, task=TASK, options=PATIENCE, run=None):
        """Run an agent in a clean home and project, always at the same paths; `run` starts and ends its command."""
        if not is_installed(agent.package):
            pytest.skip(f"{agent.name} is not installed: run make test-agents")
        home, project = self.home, self.folder / "project"
        for place in (home, project, self.folder / "tmp"):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        play = self.service.begin(scenario, agent)
        root = self.gateway if way == "serve" else self.service.root
        environ = self.environ(agent, home) | agent.set_up(home, project, root)
        agent.log_in(home, self.service.port)
        if scenario.needs == "mcp":
            agent.add_mcp(home, project, self.store)
        command = agent.command(task)
        if way == "wrap":
            command = [*MILLGATE, "wrap", *options, *command]
        before = files_in(project)
        done = (run or run_to_end)(command, cwd=project, env=environ)
        files = {name: data for name, data in files_in(project).items() if name not in before}
        return Outcome(way, play, *done, files)

    def environ(self, agent, home):
        """The environment of a new user: nothing of this process but the path."""
        return {
            "PATH": os.pathsep.join([str(agent.package.programs), os.environ["PATH"]]),
            "HOME": str(home),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "somebody",
            "SHELL": "/bin/bash",
            # nothing listens there: what is not for this machine fails at once
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        }


def files_in(folder):
    """The files of a project by their paths, without those of git and the agent's own."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = ((str(path.relative_to(folder)), path) for path in paths)
    return {name: path.read_bytes() for name, path in names if not name.startswith(".")}


def run_to_end(command, *, cwd, env, meanwhile=None):
    """Run a command, and end it with all that it has started if it takes too long: exit code, stdout, stderr.

    `meanwhile` is called with the number of its process, which is also that of its group.
    """
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        if meanwhile:
            meanwhile(process.pid)
        stdout, stderr = process.communicate(timeout=MOST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        stderr += f"\n(ended after {MOST_S} s)"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, stdout, stderr


@contextmanager
def serving(folder, service):
    """`millgate serve` in front of the service: its address."""
    environ = {
        **os.environ,
        "HOME": str(folder),
        "MILLGATE_PROXY__UPSTREAMS__MAIN__URL": f"{service.root}/v1",
    }
    line = [*MILLGATE, "serve", "--port", "0", "--store", str(folder / "store")]
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(line, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)  # fmt: skip
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
