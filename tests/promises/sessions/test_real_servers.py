"""The same promise where users stand: a session through the programs `millgate wrap` and `millgate serve`."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from tests.promises.sessions.agents import Hermes
from tests.promises.sessions.playbook import Playbook, Sent, every_prefix_holds
from tests.proxy import web
from tests.proxy.upstream import said
from tests.waiting import MOST_S

pytestmark = pytest.mark.slow  # each starts a gateway of its own

MILLGATE = (sys.executable, "-P", "-m", "millgate")
SEND = """
import json, os, sys, urllib.request
for line in open(sys.argv[1]):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, line.encode(), headers)).read()
"""


@pytest.fixture
def place(tmp_path, rig, stored):
    """A home with a store, and its environment."""
    store = shutil.copytree(stored, tmp_path / "kb")
    root = f"http://127.0.0.1:{rig.upstream.port}/v1"
    rig.upstream.script(Hermes.model, said("Well."))
    environ = {
        "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path), "TMPDIR": str(tmp_path),
        "OPENAI_BASE_URL": root, "MILLGATE_PROXY__UPSTREAMS__MAIN__URL": root, "MILLGATE_PROXY__CONTEXT": "true",
    }  # fmt: skip
    return tmp_path, store, environ


def session():
    hermes = Hermes("real")
    return [*hermes.ask("How does the import read its pages?", (0,)), *hermes.ask("Where is the cursor of the import kept?", (1,))]  # fmt: skip


def check(requests, upstream):
    book = Playbook(None)
    seen = upstream.seen[Hermes.model]
    book.sent = [Sent(request, one.json, {}) for request, one in zip(requests, seen, strict=True)]
    assert json.dumps(book.last.went).count("<ref ") == 2, "both questions have their context"
    book << every_prefix_holds


def test_a_session_under_wrap_is_extended_request_by_request(place, upstream):
    folder, store, environ = place
    (folder / "requests").write_text("".join(json.dumps(request.fields) + "\n" for request in session()))  # fmt: skip
    line = [*MILLGATE, "wrap", "--patience", "60", "--store", str(store), "--", sys.executable, "-c", SEND, str(folder / "requests")]  # fmt: skip
    done = subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, timeout=MOST_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(session(), upstream)


def test_a_session_through_serve_is_extended_request_by_request(place, upstream):
    folder, store, environ = place
    line = [*MILLGATE, "serve", "--port", "0", "--store", str(store)]
    with subprocess.Popen(line, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # fmt: skip
        url = process.stdout.readline().split()[-1]
        for request in session():
            web.post(url + request.path, json=request.fields, timeout=MOST_S).raise_for_status()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=MOST_S)
    check(session(), upstream)
