"""First contact, from the built wheel in an empty environment: all that a stranger tries works, and nothing is left."""

import json
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from contextlib import contextmanager
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from tests.waiting import MOST_S, until

ROOT = Path(__file__).parents[2]
ANSWER = "Refunds are paid within 14 days [1]."
AGENT = """
import json, os, sys, urllib.request
body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "When are refunds paid?"}]}
call = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
print(json.load(urllib.request.urlopen(call))["choices"][0]["message"]["content"])
"""


class Model(BaseHTTPRequestHandler):
    """A model that says one sentence and notes what it was asked."""

    asked: ClassVar[list] = []

    def do_POST(self):
        self.asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
        choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}  # fmt: skip
        said = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment that holds the wheel; the packages that it needs are those of the tests."""
    place = tmp_path_factory.mktemp("install")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", place]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=MOST_S)
    venv.create(place / "env", symlinks=True)
    (packages,) = (place / "env").glob("lib/python*/site-packages")
    (wheel,) = place.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    # the folder alone: what its own .pth files name, as this checkout, is not looked at
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return place / "env" / "bin" / "python"


@pytest.fixture
def model():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    Model.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


class Stranger:
    """Somebody with a home, a folder with two files, and a model."""

    def __init__(self, python, model, place):
        self.command = [str(python), "-m", "millgate"]
        self.home, self.folder, self.temporary = (place / name for name in ("home", "work", "tmp"))
        (self.folder / "docs").mkdir(parents=True)
        self.home.mkdir()
        self.temporary.mkdir()
        (self.folder / "docs" / "policy.md").write_text(
            "# Refunds\n\nRefunds are paid within 14 days.\n"
        )
        (self.folder / "agent.py").write_text(AGENT)
        self.environment = {
            "HOME": str(self.home), "TMPDIR": str(self.temporary), "PATH": "/usr/bin:/bin",
            "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": model,
        }  # fmt: skip

    def start(self, *words):
        return subprocess.Popen(
            [*self.command, *words], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words):
        process = self.start(*words)
        said, problems = process.communicate(timeout=MOST_S)
        assert process.returncode == 0, problems
        return said

    def files(self):
        folders = (self.home, self.folder, self.temporary)
        return {str(path) for one in folders for path in one.rglob("*")}

    @contextmanager
    def serving(self):
        """The address of a service, until it has ended."""
        process = self.start("serve", "--store", "kb", "--port", "0", "--json")
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=MOST_S)
        assert process.returncode in (0, -signal.SIGTERM)


def sign_in(url, key):
    """A browser that has signed in."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    page = browser.open(f"{url}/dashboard/sign-in").read().decode()
    token = re.search(r'name="csrf" value="([^"]+)"', page)[1]
    form = urlencode({"csrf": token, "key": key}).encode()
    browser.open(Request(f"{url}/dashboard/sign-in", form, {"origin": url}))
    return browser


def test_a_stranger_tries_everything_and_nothing_is_left_behind(python, model, tmp_path):
    one = Stranger(python, model, tmp_path)
    before = one.files()
    where = subprocess.check_output(
        [python, "-c", "import millgate; print(millgate.__file__)"], text=True
    )
    assert str(ROOT) not in where

    one.run("add", "docs", "--store", "kb")
    assert "within 14 days" in one.run("context", "when are refunds paid?", "--store", "kb")
    answer = one.run("ask", "when are refunds paid?", "--store", "kb", "--model", "gpt-5-mini")
    assert answer.startswith(ANSWER)
    assert "docs/policy.md" in answer
    assert "docs/policy.md" in one.run("why", "last", "--store", "kb")

    wrapped = one.run("wrap", "--store", "kb", str(python), "agent.py")
    assert wrapped.strip() == ANSWER
    assert "within 14 days" in Model.asked[-1], "the agent's model got no context"

    made = json.loads(one.run("keys", "create", "--store", "kb", "--scope", "read", "--json"))
    with one.serving() as url:
        browser = sign_in(url, made["key"])
        assert "when are refunds paid?" in browser.open(f"{url}/dashboard/requests").read().decode()
        one.run("keys", "revoke", made["id"], "--store", "kb")
        until(lambda: is_refused(f"{url}/v1/traces", made["key"]))

    shutil.rmtree(one.folder / "kb")
    assert one.files() == before


def is_refused(url, key):
    """Whether a key is no longer taken; a service looks it up every few seconds."""
    try:
        build_opener().open(Request(url, headers={"authorization": f"Bearer {key}"})).close()
    except HTTPError as refused:
        refused.close()
        return refused.code == 401
    return False


@pytest.mark.parametrize("words", [("mcp",), ("mcp", "install", "--client", "claude", "--scope", "project"), ("keys", "create")], ids=" ".join)  # fmt: skip
def test_a_store_that_is_not_there_is_named_with_what_may_have_been_meant(python, tmp_path, words):
    one = Stranger(python, "http://127.0.0.1:9/v1", tmp_path)
    one.run("add", "docs", "--store", "notes")
    process = one.start(*words, "--store", "nots")
    problems = process.communicate(timeout=MOST_S)[1]
    assert "there is no store in nots" in problems
    assert "did you mean 'notes'" in problems
