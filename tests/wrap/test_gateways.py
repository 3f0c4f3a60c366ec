"""The gateways of a wrapped agent: which settings they have, who may ask them, and how they replace one another."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from tests.waiting import MOST_S

from millgate.errors import ConfigError, UpstreamError
from millgate.service.proxy.http_client import SECRET_HEADER, HttpClient
from millgate.wrap import gateways
from millgate.wrap.gateway import SecretApp, open_gateway, settings_for
from millgate.wrap.gateways import LOG_TAIL, SILENT_STEPS, Gateway, Gateways
from millgate.wrap.spec import MEMORY, GatewaySpec
from millgate.wrap.summary import Summary
from millgate.wrap.supervisor import Supervisor

UPSTREAM = "http://127.0.0.1:1/x/v1"


@pytest.mark.parametrize(("store", "kept"), [(None, True), ("kb", True), (MEMORY, False)])
def test_a_gateway_has_the_users_settings_its_store_and_traces_that_somebody_can_read(
    tmp_path, monkeypatch, store, kept
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILLGATE_STORE", "of-the-user")
    made = settings_for(GatewaySpec(store, inject=True, upstream=UPSTREAM))
    assert made.store == (store or "of-the-user")
    assert bool(made.trace.keep) is kept
    assert made.proxy.context is True
    assert list(made.proxy.upstreams) == ["wrapped"]
    assert made.fold.mode == "off"
    assert settings_for(GatewaySpec(store, fold=True, upstream=UPSTREAM)).fold.mode == "on"


@pytest.mark.parametrize(("kind", "secret", "served"), [("http", b"s3cret", True), ("http", b"other", False), ("http", None, False), ("lifespan", None, True)])  # fmt: skip
async def test_only_who_knows_the_secret_is_served(kind, secret, served):
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(scope)

    async def send(message):
        sent.append(message)

    headers = [] if secret is None else [(SECRET_HEADER, secret)]
    await SecretApp(app, "s3cret")({"type": kind, "headers": headers}, None, send)
    assert bool(reached) is served
    assert [m["status"] for m in sent if "status" in m] == ([] if served else [404])


class Started:
    """A gateway as the gateways see it."""

    def __init__(self, number):
        self.failed, self.number, self.closed = asyncio.Event(), number, False
        self.metrics = f"millgate_guard_stalls_total {number + 1}.0\n"

    async def is_alive(self):
        return not self.failed.is_set()

    async def read_metrics(self):
        self.metrics += "millgate_guard_stalls_total 10.0\n"

    async def close(self):
        self.closed = True
        return f"log {self.number}"


@pytest.fixture
def started(monkeypatch):
    """Every gateway that was started; `errors` are raised first, and each start waits for `ready`."""
    found = SimpleNamespace(all=[], errors=[], ready=asyncio.Event())
    found.ready.set()

    async def start(spec, transport):
        await found.ready.wait()
        if found.errors:
            raise found.errors.pop(0)
        found.all.append(Started(len(found.all)))
        return found.all[-1]

    monkeypatch.setattr(Gateway, "start", start)
    return found


async def test_a_gateway_that_failed_is_replaced_with_the_next_call_and_its_numbers_are_kept(
    started,
):
    found = Gateways(GatewaySpec(), None, Summary())
    found.start()
    first = await found.find()
    assert await found.find() is first
    first.failed.set()
    second = await found.find()
    assert started.all == [first, second]
    assert (first.closed, found._summary.failures, found._summary.last_log) == (True, 1, "log 0")
    await found.note_answer(second)
    await found.close()
    assert found._summary.sums == {"loops": 1 + 20 + 2}
    assert second.closed


async def test_only_one_gateway_starts_for_calls_that_come_together(started):
    found = Gateways(GatewaySpec(), None, Summary())
    one, other = await asyncio.gather(found.find(), found.find())
    assert one is other is started.all[0]
    one.failed.set()
    await asyncio.gather(found.replace(one), found.replace(one))
    assert found._summary.failures == 1
    await found.close()


async def test_a_gateway_that_does_not_start_is_tried_again_with_the_next_call(started):
    found = Gateways(GatewaySpec(), None, Summary())
    started.errors += [ConfigError("no port"), OSError("no memory")]
    assert [await found.find(), await found.find()] == [None, None]
    assert (found._summary.failures, found._summary.last_log) == (2, "no memory")
    assert await found.find() is started.all[0]
    await found.close()


async def test_after_a_gateway_that_did_nothing_a_call_waits_no_longer_than_its_user_has_patience(
    started,
):
    found = Gateways(GatewaySpec(patience_s=0.01), None, Summary())
    started.errors.append(ConfigError("no port"))
    assert await found.find() is None
    started.ready.clear()
    assert await found.find() is None
    started.ready.set()
    assert await found.find() is started.all[0]
    await found.close()


def test_a_store_that_cannot_be_opened_does_not_cost_the_guard(tmp_path):
    (tmp_path / "millgate.db").write_bytes(b"no database" * 1000)
    spec = GatewaySpec(str(tmp_path), inject=True, fold=True, upstream=UPSTREAM)
    app, settings = open_gateway(spec)
    assert (settings.store, settings.proxy.context, settings.fold.mode) == (MEMORY, False, "on")
    with TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        told = Summary(metrics=[client.get("/metrics").text]).lost_store
    assert told.startswith(f"{tmp_path}: ")
    assert "restore it from a backup" in told


class Transport:
    """Answers every request with a status, or fails."""

    def __init__(self, status=200, error=None):
        self.status, self.error, self.parts = status, error, [b"one ", b"two"]
        self.headers = []

    async def send(self, request):
        if self.error:
            raise self.error
        self.request = request
        return self

    async def read(self):
        return self.parts.pop(0) if self.parts else b""

    async def close(self):
        pass


@pytest.mark.parametrize(("transport", "alive"), [(Transport(), True), (Transport(status=503), False), (Transport(error=UpstreamError("gone")), False)])  # fmt: skip
async def test_a_gateway_that_does_not_answer_its_health_has_failed(transport, alive):
    gateway = object.__new__(Gateway)
    gateway._transport, gateway._spec, gateway.silence_s = transport, GatewaySpec(secret="s3cret"), 1.0  # fmt: skip
    gateway._address, gateway.failed, gateway.heard = None, asyncio.Event(), 0
    assert await gateway.is_alive() is alive
    assert gateway.failed.is_set() is not alive
    if alive:
        assert (SECRET_HEADER, b"s3cret") in transport.request.headers


async def test_a_gateway_from_which_more_of_a_turn_comes_is_no_silent_one():
    class Late(Transport):
        async def send(self, request):
            for _ in range(4 * SILENT_STEPS):
                gateway.heard += 1
                await asyncio.sleep(gateway.silence_s / SILENT_STEPS / 2)
            return await super().send(request)

    gateway = object.__new__(Gateway)
    gateway._transport, gateway._spec, gateway.silence_s = Late(), GatewaySpec(), 0.1
    gateway._address, gateway.failed, gateway.heard = None, asyncio.Event(), 0
    assert await gateway.is_alive()


async def test_a_moment_in_which_we_were_stopped_ourselves_is_no_silence_of_the_gateway():
    class Waiting(Transport):
        async def send(self, request):
            await asyncio.sleep(0)
            time.sleep(3 * gateway.silence_s)  # noqa: ASYNC251  (all of us stands still)
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().send(request)

    gateway = object.__new__(Gateway)
    gateway._transport, gateway._spec, gateway.silence_s = Waiting(), GatewaySpec(), 0.1
    gateway._address, gateway.failed, gateway.heard = None, asyncio.Event(), 0
    assert await gateway.is_alive()


SERVER = """
import os, socket, sys, threading
def serve():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=[connection], daemon=True).start()
def answer(connection):
    while connection.recv(65536):
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n# ")
listener = socket.socket(fileno=int(sys.argv[1]))
threading.Thread(target=serve, daemon=True).start()
while os.read(0, 100):
    pass
"""


@pytest.fixture
def script(monkeypatch):
    """Lets gateways be a script."""

    def write(text):
        monkeypatch.setattr(gateways, "COMMAND", (sys.executable, "-S", "-c", text))

    return write


@pytest.fixture
async def client():
    client = HttpClient()
    yield client
    await client.close()


def is_running(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_what_a_gateway_prints_is_its_log_and_nothing_else(script, client):
    noise = (
        "import sys; print('a banner', flush=True); print(300_000 * 'y' + 'end', file=sys.stderr)"
    )
    script(noise + SERVER)
    gateway = await Gateway.start(GatewaySpec(MEMORY), client)
    try:
        assert await gateway.is_alive()
    finally:
        log = await gateway.close()
    assert log.endswith("yyyend")
    assert len(log) <= LOG_TAIL
    assert not is_running(gateway.pid)


async def test_a_gateway_that_ends_before_it_serves_is_an_error_with_what_it_wrote(script, client):
    script("print('a banner'); raise SystemExit('the store is locked')")
    with pytest.raises(ConfigError, match="a banner\nthe store is locked"):
        await Gateway.start(GatewaySpec(), client)


async def test_a_gateway_that_never_answers_is_given_up(script, client, monkeypatch):
    monkeypatch.setattr(gateways, "START_S", 0.1)
    monkeypatch.setattr(gateways, "STOP_S", 0.1)
    script("import time; time.sleep(1000)")
    with pytest.raises(ConfigError, match="gave no answer within"):
        await Gateway.start(GatewaySpec(), client)


async def test_a_gateway_whose_start_is_broken_off_is_ended(script, client, tmp_path):
    started = tmp_path / "pid"
    os.mkfifo(started)
    script(
        f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    )
    starting = asyncio.ensure_future(Gateway.start(GatewaySpec(), client))
    pid = int(await asyncio.to_thread(started.read_text))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_running(pid)


async def test_a_session_ends_although_its_gateway_was_stopped(script, tmp_path):
    script(SERVER)
    supervisor = Supervisor(GatewaySpec(str(tmp_path), patience_s=0.2))
    await supervisor.start()
    pid = (await supervisor.gateways.find()).pid
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(MOST_S):
        await supervisor.close()
    assert not is_running(pid)
