"""The gateways of a wrapped agent: which settings they have, who may ask them, and how they replace one another."""

import asyncio
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from tests.waiting import MOST_S

from millgate.errors import ConfigError, UpstreamError
from millgate.service.proxy.http_client import HttpClient
from millgate.service.proxy.transport import SECRET_HEADER
from millgate.wrap import gateways
from millgate.wrap.gateway import SecretApp, settings_for
from millgate.wrap.gateway_process import LOG_TAIL
from millgate.wrap.gateways import (
    MAX_RESTART_S,
    RESERVE_S,
    RESTART_S,
    SILENT_STEPS,
    Gateway,
    GatewayPool,
)
from millgate.wrap.spec import MEMORY, GatewaySpec
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
    assert made.guard.keep_alive_s == gateways.NEVER_S
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
    """A gateway as the pool sees it."""

    def __init__(self, number):
        self.failed, self.metrics, self.log, self.closed = asyncio.Event(), f"m{number}", f"log {number}", False  # fmt: skip

    async def close(self):
        self.closed = True


@pytest.fixture
def started(monkeypatch):
    """Every gateway that was started; exceptions among `errors` are raised first. Waits are noted, not slept."""
    made, errors, waits = [], [], []
    sleep = asyncio.sleep

    async def start(spec, transport):
        if errors:
            raise errors.pop(0)
        made.append(Started(len(made)))
        return made[-1]

    async def noted(seconds):
        if threading.current_thread() is not threading.main_thread():  # a server of other tests
            await sleep(seconds)
            return
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(Gateway, "start", start)
    monkeypatch.setattr(gateways.asyncio, "sleep", noted)
    return SimpleNamespace(all=made, errors=errors, waits=waits, settle=sleep)


async def settle(started):
    for _ in range(20):
        await started.settle(0)


async def test_a_gateway_that_fails_is_replaced_and_its_numbers_are_kept(started):
    pool = GatewayPool(GatewaySpec(), None)
    assert pool.current is None
    pool.start()
    await settle(started)
    first, reserve = started.all
    assert started.waits == [RESERVE_S]
    assert pool.current is first
    first.failed.set()
    assert pool.current is reserve
    await settle(started)
    assert (pool.failures, first.closed, pool.last_log) == (1, True, "log 0")
    assert started.waits == [RESERVE_S, RESTART_S]
    assert sorted(pool.metrics()) == ["m0", "m1", "m2"]
    await pool.close()
    assert all(gateway.closed for gateway in started.all)


async def test_restarts_come_later_and_later_until_a_turn_goes_through(started):
    pool = GatewayPool(GatewaySpec(), None)
    pool.start()
    await settle(started)
    for _ in range(3):
        pool.current.failed.set()
        await settle(started)
    assert started.waits[1:] == [RESTART_S, 2 * RESTART_S, 4 * RESTART_S]
    pool.note_success()
    pool.current.failed.set()
    await settle(started)
    assert started.waits[-1] == RESTART_S
    for _ in range(9):
        pool.current.failed.set()
        await settle(started)
    assert started.waits[-1] == MAX_RESTART_S
    await pool.close()


async def test_a_gateway_that_does_not_start_is_tried_again_and_the_reason_is_kept(started):
    pool = GatewayPool(GatewaySpec(MEMORY), None)
    pool.start()
    await pool.wait_for_start(5.0)
    started.errors += [ConfigError("no port"), OSError("no memory")]
    await settle(started)
    assert started.waits == [RESERVE_S, 2 * RESERVE_S + RESTART_S, 2 * (2 * RESERVE_S + RESTART_S) + RESTART_S]  # fmt: skip
    assert len(started.all) == 2
    assert pool.last_log == "no memory"
    await pool.close()


async def test_a_store_that_cannot_be_opened_does_not_cost_the_guard(started):
    pool = GatewayPool(GatewaySpec("kb", inject=True, fold=True), None)
    started.errors.append(ConfigError("noise\nkb/millgate.db is damaged\nhint: restore it"))
    pool.start()
    await settle(started)
    assert (pool.failures, len(started.all)) == (0, 2)
    assert pool.spec == GatewaySpec(MEMORY, inject=False, fold=True)
    assert pool.lost_store == "kb: kb/millgate.db is damaged; restore it"
    await pool.close()


async def test_a_gateway_that_does_not_start_without_its_store_either_is_tried_with_it_again(started):  # fmt: skip
    pool = GatewayPool(GatewaySpec("kb", inject=True), None)
    started.errors += [ConfigError("no memory"), ConfigError("no memory")]
    pool.start()
    await settle(started)
    assert (pool.failures, pool.last_log, pool.lost_store) == (1, "no memory", "")
    assert (pool.spec.store, len(started.all)) == ("kb", 1)
    await pool.close()


async def test_who_waits_for_the_first_gateway_goes_on_once_it_is_there_or_has_failed(started):
    pool = GatewayPool(GatewaySpec(MEMORY), None)
    await pool.wait_for_start(5.0)  # nobody has started one
    started.errors.append(ConfigError("no port"))
    pool.start()
    await pool.wait_for_start(5.0)
    assert (pool.current, pool.failures, pool.last_log) == (None, 1, "no port")
    await settle(started)
    assert started.waits == [RESTART_S]
    assert pool.current is started.all[0]
    await pool.close()


async def test_who_waits_for_a_gateway_gets_the_next_one_or_none_in_time(started):
    pool = GatewayPool(GatewaySpec(), None)
    assert await pool.wait_for_one(0.01) is None
    waiting = asyncio.ensure_future(pool.wait_for_one(5.0))
    await settle(started)
    pool.start()
    assert await waiting is started.all[0]
    assert await pool.wait_for_one(0.01) is started.all[0]
    await pool.close()


class Transport:
    """Answers every request with a status, or fails."""

    def __init__(self, status=200, error=None):
        self.status, self.error, self.parts = status, error, [b"one ", b"two"]

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
    gateway._transport, gateway._spec, gateway._silence_s = transport, GatewaySpec(secret="s3cret"), 1.0  # fmt: skip
    gateway._address, gateway.failed, gateway._heard = None, asyncio.Event(), 0
    assert await gateway.is_alive() is alive
    assert gateway.failed.is_set() is not alive
    if alive:
        assert (SECRET_HEADER, b"s3cret") in transport.request.headers


async def test_a_gateway_from_which_more_of_a_turn_comes_is_no_silent_one():
    class Late(Transport):
        async def send(self, request):
            for _ in range(4 * SILENT_STEPS):
                gateway.note_sign_of_life()
                await asyncio.sleep(gateway._silence_s / SILENT_STEPS / 2)
            return await super().send(request)

    gateway = object.__new__(Gateway)
    gateway._transport, gateway._spec, gateway._silence_s = Late(), GatewaySpec(), 0.1
    gateway._address, gateway.failed, gateway._heard = None, asyncio.Event(), 0
    assert await gateway.is_alive()


async def test_a_moment_in_which_we_were_stopped_ourselves_is_no_silence_of_the_gateway():
    class Waiting(Transport):
        async def send(self, request):
            await asyncio.sleep(0)
            time.sleep(3 * gateway._silence_s)  # noqa: ASYNC251  (all of us stands still)
            for _ in range(5):
                await asyncio.sleep(0)
            return await super().send(request)

    gateway = object.__new__(Gateway)
    gateway._transport, gateway._spec, gateway._silence_s = Waiting(), GatewaySpec(), 0.1
    gateway._address, gateway.failed, gateway._heard = None, asyncio.Event(), 0
    assert await gateway.is_alive()


SERVER = """
import os, socket, sys, threading
def serve():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=[connection], daemon=True).start()
def answer(connection):
    while connection.recv(65536):
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
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
        await gateway.close()
    assert gateway.log.endswith("yyyend")
    assert len(gateway.log) <= LOG_TAIL
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
    pid = (await supervisor.pool.wait_for_one(60)).pid
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(MOST_S):
        await supervisor.close()
    assert not is_running(pid)


async def test_a_gateway_has_work_while_it_has_a_turn():
    gateway = object.__new__(Gateway)
    gateway._turns, gateway._has_work = 0, asyncio.Event()
    gateway.begin_turn()
    gateway.begin_turn()
    gateway.end_turn()
    assert gateway._has_work.is_set()
    gateway.end_turn()
    assert not gateway._has_work.is_set()
