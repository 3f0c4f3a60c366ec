"""The edge of the service against clients that send without end, or not at all."""

import asyncio
import contextlib
import http.client
import socket

import pytest
import uvicorn
from tests.service.clients import served
from tests.waiting import MOST_S

from millgate.service.edge import protocol
from millgate.service.edge.protocol import BoundedProtocol
from millgate.settings import Settings
from millgate.types.policy import ServicePolicy


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setattr(BoundedProtocol, "HEAD_S", 0.5)
    service = ServicePolicy(port=0, keyless="never", log=False)
    with served(Settings(store=str(tmp_path / "kb"), service=service)) as (url, _):
        yield ("127.0.0.1", int(url.rpartition(":")[2]))


def exchange(address, *parts, wait_s=10.0):
    """What comes back for some bytes, until the other side closes."""
    with socket.create_connection(address, wait_s) as client:
        answer = b""
        try:
            for part in parts:
                client.sendall(part)
            while got := client.recv(65_536):
                answer += got
        except (ConnectionError, TimeoutError):
            pass
        return answer


GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


def test_an_ordinary_request_passes(address):
    answer = exchange(address, GET + b"connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "head",
    [
        GET + b"a: b\r\n" * 101,
        GET + b"x: " + b"a" * 70_000,
        b"GET /" + b"a" * 70_000,
        GET + b"".join(b"h%d: %s\r\n" % (n, b"a" * 2_000) for n in range(50)),
    ],
    ids=["many fields", "endless field", "endless address", "large fields"],
)
def test_a_head_without_end_is_refused(address, head):
    answer = exchange(address, head, b"x" * 10, b"\r\n\r\n")
    # the connection is closed while the client still sends, so a reset may overtake the answer
    assert answer.startswith(b"HTTP/1.1 431") or not answer


@pytest.mark.parametrize(
    "trailers", [b"a: b\r\n" * 101, b"a: " + b"b" * 400_000], ids=["many", "endless"]
)
def test_trailers_without_end_close_the_connection(address, trailers):
    answer = exchange(address, POST, b"0\r\n", trailers, b"\r\n")
    assert answer.count(b"HTTP/1.1") <= 2
    assert b"HTTP/1.1 200" not in answer


def test_a_trailer_is_no_header(address):
    head = POST.replace(b"host: localhost", b"host: evil.example\r\nconnection: close")
    answer = exchange(
        address, head, b"2\r\n{}\r\n0\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n"
    )
    assert b"HTTP/1.1 401" in answer or answer == b""
    assert b"the key is not valid" not in answer  # the authorization in the trailer was not read


@pytest.mark.parametrize("name", [b"host", b"origin", b"authorization", b"x-millgate-key"])
def test_a_header_that_decides_who_asks_may_stand_once(address, name):
    head = GET + name + b": localhost\r\n" + name + b": localhost\r\n\r\n"
    assert exchange(address, head).startswith(b"HTTP/1.1 400")


def test_a_pipeline_has_an_end(address):
    answer = exchange(address, (GET + b"\r\n") * 3_000)
    assert answer.count(b"HTTP/1.1") < 200


@pytest.mark.parametrize("sent", [b"", b"\r\n", GET, b"GET /healthz"])
def test_a_client_that_does_not_complete_its_head_is_hung_up_on(address, sent):
    answer = exchange(address, sent)
    assert not answer or answer.startswith(b"HTTP/1.1 408")


def test_an_answer_may_take_longer_than_a_head(monkeypatch):
    monkeypatch.setattr(BoundedProtocol, "HEAD_S", 0.2)

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.sleep(0.5)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for text in (b"slowly ", b"and ", b"surely"):
                await send({"type": "http.response.body", "body": text, "more_body": True})
                await asyncio.sleep(0.3)
            await send({"type": "http.response.body"})

    async def ask():
        config = uvicorn.Config(app, http=BoundedProtocol, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server._serve([listener]))
            request = GET + b"connection: close\r\n\r\n"
            answer = await asyncio.to_thread(exchange, listener.getsockname(), request)
            server.should_exit = True
            with contextlib.suppress(KeyError):  # the app has no drain to start
                await serving
        return answer

    assert b"surely" in asyncio.run(ask())


def test_a_body_that_goes_on_after_the_answer_is_cut(address):
    answer = exchange(address, POST, *[b"10000\r\n" + b"x" * 65_536 + b"\r\n"] * 40)
    assert answer.count(b"HTTP/1.1") <= 1


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("name", [b"upgrade: h2c\r\n", b"Upgrade:h2c \r\n"])
def test_an_offer_of_http_2_is_ignored_with_its_body_and_what_follows(address, name):
    body = b'{"query": "refunds"}'
    asked = b"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n"
    answer = exchange(address, asked + OFFER + name + b"\r\n", body, GET + b"\r\n", GET + b"connection: close\r\n\r\n")  # fmt: skip
    assert answer.count(b"HTTP/1.1 401") == 1, "a key is needed there"
    assert answer.count(b"HTTP/1.1 200") == 2


def test_a_body_that_looks_like_an_offer_of_http_2_is_left_as_it_is():
    for data in (b"POST / HTTP/1.1\r\na: b\r\n\r\nx\r\nupgrade: h2c\r\n", b"a\r\nupgrade: websocket\r\n\r\n"):  # fmt: skip
        assert protocol._without_http2_offer(data) is data


def test_a_load_balancer_may_ask_for_the_head_of_its_health_only(address):
    answer = exchange(address, GET.replace(b"GET", b"HEAD") + b"connection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""


@pytest.mark.parametrize("size", [1 << 20, 48 << 20])
def test_a_client_that_sends_all_before_it_reads_hears_why_it_was_refused(tmp_path, size):
    service = ServicePolicy(port=0, log=False)
    with served(Settings(store=str(tmp_path / "kb"), service=service)) as (url, _):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=MOST_S)) as client:
            client.request("POST", "/v1/context", b"x" * size, {"host": "evil"})
            assert client.getresponse().status == 401


def test_waiting_connections_are_closed_for_new_ones(address, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(BoundedProtocol, "HEAD_S", 30)
    waiting = [socket.create_connection(address, 10) for _ in range(60)]
    try:
        for client in waiting:
            client.sendall(b"GET /healthz")
        answer = exchange(address, GET + b"connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
    finally:
        for client in waiting:
            client.close()


@pytest.mark.parametrize(("unsent", "waits"), [([900, 900], 1), ([900, 500, 100, 100], 3)])
def test_a_client_is_cut_off_once_it_reads_nothing_for_a_while(unsent, waits):
    aborted, timers, sizes = [], [], iter(unsent)

    class Transport:
        size = next(sizes)

        def get_write_buffer_size(self):
            return self.size

        def abort(self):
            aborted.append(True)

    class Loop:
        def call_later(self, seconds, *work):
            assert seconds == BoundedProtocol.WRITE_S
            timers.append(work)
            return type("Handle", (), {"cancel": lambda self: None})()

    one = BoundedProtocol.__new__(BoundedProtocol)
    one.transport, one.loop, one.connections = Transport(), Loop(), set()
    one.flow = type("Flow", (), {"pause_writing": lambda self: None})()
    one.pause_writing()
    for size in sizes:
        assert not aborted
        one.transport.size = size
        check, *given = timers[-1]
        check(*given)
    assert aborted
    assert len(timers) == waits


LARGE = 30 << 20


@contextlib.asynccontextmanager
async def large_answers():
    """A server whose every answer is large, and its port."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})  # fmt: skip
        await send({"type": "http.response.body", "body": b"x" * LARGE})

    config = uvicorn.Config(app, port=0, http=BoundedProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(MOST_S):
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        yield server, server.servers[0].sockets[0].getsockname()[1]
        while server.server_state.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        server.should_exit = True
        await running


async def test_clients_that_read_large_answers_slowly_get_them_whole_however_many_they_are():
    async with large_answers() as (_, port):
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        for _, writer in clients:
            writer.write(GET + b"\r\n")
        for reader, _ in clients:  # all answers have begun before one of them is read
            await reader.readuntil(b"\r\n\r\n")
        for reader, writer in clients:
            assert await reader.readexactly(LARGE) == b"x" * LARGE
            writer.close()
