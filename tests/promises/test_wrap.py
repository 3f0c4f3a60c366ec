"""An agent under `wrap` is as well off as without: the same bytes, its own exit code and key, and no trace of us.

That holds too when every process of the gateway is killed in the middle of an answer.
"""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tests.proxy.conftest import ProxyRig
from tests.proxy.upstream import PROSE, said, told
from tests.waiting import MOST_S

# Posts what it is told, kills its siblings (the gateway) after the first piece if it shall, and prints what it got.
AGENT = """
import json, os, signal, subprocess, sys, urllib.request
variable, path, body, kill = sys.argv[1:]
base = os.environ[variable].removesuffix("/v1")
head = {"content-type": "application/json", "authorization": "Bearer sk-of-the-user"}
with urllib.request.urlopen(urllib.request.Request(base + path, body.encode(), head)) as reply:
    got = reply.readline()
    if kill == "kill":
        listed = subprocess.check_output(["ps", "-A", "-o", "ppid=,pid="], text=True).splitlines()
        gateways = [pid for parent, pid in (map(int, line.split()) for line in listed)
                    if parent == os.getppid() and pid != os.getpid()]
        for pid in gateways:
            os.kill(pid, signal.SIGKILL)
        print("killed" if gateways else "there is no gateway", flush=True)
    print(json.dumps((got + reply.read()).decode()))
sys.exit(7)
"""
ASKED = [{"role": "user", "content": "What does the keeper do?"}]
APIS = {
    "chat": ("OPENAI_BASE_URL", "/v1/chat/completions", said(*PROSE)),
    "messages": ("ANTHROPIC_BASE_URL", "/v1/messages", told(*PROSE)),
}


@pytest.fixture(scope="module")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@pytest.fixture
def start(rig, tmp_path):
    """Starts the agent under wrap, in a home of its own."""
    root = f"http://127.0.0.1:{rig.upstream.port}"
    environ = {
        "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "OPENAI_BASE_URL": f"{root}/v1", "ANTHROPIC_BASE_URL": root,
    }  # fmt: skip

    def run(api, model, kill=""):
        variable, path, _ = APIS[api]
        body = json.dumps({"model": model, "max_tokens": 100, "stream": True, "messages": ASKED})
        line = ["wrap", "--patience", "60", "--", sys.executable, "-P", "-c", AGENT, variable, path, body, kill]  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "millgate", *line],
            cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("api", APIS)
def test_an_agent_gets_the_models_bytes_and_keeps_its_exit_code_and_nothing_is_written(
    rig, start, tmp_path, api
):
    stream = APIS[api][2]
    model = rig.script(stream)
    process = start(api, model)
    got, told_at_the_end = process.communicate(timeout=MOST_S)
    assert json.loads(got) == b"".join(stream).decode()
    assert process.returncode == 7
    assert "millgate: 1 model call to 127.0.0.1; 1 guarded" in told_at_the_end
    assert list(tmp_path.iterdir()) == []
    (call,) = rig.upstream.seen[model]
    assert call.headers["authorization"] == "Bearer sk-of-the-user"
    assert json.loads(call.body)["messages"] == ASKED
    assert "millgate" not in str(call.headers)


@pytest.mark.parametrize("api", APIS)
def test_an_answer_arrives_whole_though_the_gateway_is_killed_in_its_middle(rig, start, api):
    stream = APIS[api][2]
    goes_on = asyncio.Event()
    model = rig.script([*stream[:3], goes_on, *stream[3:]])
    process = start(api, model, "kill")
    assert process.stdout.readline() == "killed\n"
    rig.background.loop.call_soon_threadsafe(goes_on.set)
    got, problems = process.communicate(timeout=MOST_S)
    assert process.returncode == 7, problems
    lines = json.loads(got).splitlines(keepends=True)
    # while the next gateway starts, the client may get comments of the stream's format
    assert "".join(line for line in lines if not line.startswith(":")) == b"".join(stream).decode()
    assert len(rig.upstream.seen[model]) == 1, "the model was asked again"
