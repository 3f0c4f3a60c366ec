"""One connection in memory, byte by byte: each bound holds at its exact number, and what comes after it is ignored."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from millgate.service.edge import protocol
from millgate.service.edge.protocol import MARGIN_S, BoundedProtocol, connection_limit


class Wire(asyncio.Transport):
    """The other end: what was written, and whether it is closed."""

    def __init__(self):
        super().__init__()
        self.sent, self.closed, self.aborted = b"", False, False

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return self.closed

    def get_write_buffer_size(self):
        return 0

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = self.aborted = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class App:
    """Answers at once, or once it may; counts the requests that reached it."""

    def __init__(self):
        self.headers, self.may_end = [], asyncio.Event()
        self.may_end.set()

    async def __call__(self, scope, receive, send):
        self.headers.append(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # fmt: skip
        await self.may_end.wait()
        await send({"type": "http.response.body", "body": b"ok"})


def connect(app, state=None, **limits):
    """A connection to an app, with limits of its own."""
    kind = type("Limited", (BoundedProtocol,), limits)
    config = uvicorn.Config(app, lifespan="off", access_log=False, log_config=None)
    config.load()
    found = kind(config, state or ServerState(), {})
    wire = Wire()
    found.connection_made(wire)
    return found, wire


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


GET = b"GET / HTTP/1.1\r\nhost: me\r\n"


async def exchange(data, **limits):
    app = App()
    found, wire = connect(app, **limits)
    for part in data if isinstance(data, list) else [data]:
        found.data_received(part)
    await settle()
    closed = wire.closed
    found.connection_lost(None)
    wire.closed = closed
    return app, wire


@pytest.mark.parametrize(("fields", "status"), [(3, b"200"), (4, b"431")])
async def test_a_head_has_as_many_fields_as_it_may(fields, status):
    _, wire = await exchange(GET + b"a: b\r\n" * (fields - 1) + b"\r\n", HEAD_FIELDS=3)
    assert wire.sent.startswith(b"HTTP/1.1 " + status)
    assert wire.closed is (status == b"431")


@pytest.mark.parametrize(("size", "status"), [(93, b"200"), (94, b"431")])
async def test_a_head_has_as_many_bytes_as_it_may(size, status):
    # one of the address, six of the host, one of the name
    head = GET + b"a: " + b"x" * (size - 1) + b"\r\n\r\n"
    _, wire = await exchange(head, HEAD_BYTES=100)
    assert wire.sent.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("size", "refused"), [(100, False), (101, True)])
async def test_what_does_not_become_a_head_has_as_many_bytes_too(size, refused):
    start = GET + b"a: "
    _, wire = await exchange([start, b"x" * (size - len(start))], HEAD_BYTES=100)
    assert wire.sent.startswith(b"HTTP/1.1 431") is refused
    assert wire.closed is refused


async def test_bytes_after_a_refusal_are_not_read():
    app, wire = await exchange([GET + b"a: b\r\n" * 3 + b"\r\n", GET + b"\r\n"], HEAD_FIELDS=3)
    assert wire.sent.count(b"HTTP/1.1") == 1
    assert app.headers == []


async def test_a_trailer_is_dropped_and_counts_anew():
    head = b"POST / HTTP/1.1\r\nhost: me\r\ntransfer-encoding: chunked\r\na: b\r\n\r\n"
    app, wire = await exchange(
        head + b"2\r\nhi\r\n0\r\nx: y\r\nz: y\r\nw: y\r\n\r\n", HEAD_FIELDS=3
    )
    assert wire.sent.startswith(b"HTTP/1.1 200")
    assert [name for name, _ in app.headers[0]] == [b"host", b"transfer-encoding", b"a"]


@pytest.mark.parametrize(("waiting", "refused"), [(2, False), (3, True)])
async def test_so_many_requests_may_wait_behind_one_that_is_answered(waiting, refused):
    app = App()
    app.may_end.clear()
    found, wire = connect(app, PIPELINE=2)
    found.data_received(GET + b"\r\n")
    await settle()
    found.data_received((GET + b"\r\n") * waiting)
    assert wire.closed is refused
    assert b"400" not in wire.sent, "an answer under way is not written into"
    app.may_end.set()
    await settle()
    found.connection_lost(None)


@pytest.mark.parametrize(("size", "closed"), [(50, False), (51, True)])
async def test_a_body_that_goes_on_after_its_answer_is_read_for_a_while(size, closed):
    app = App()
    found, wire = connect(app, UNREAD_BYTES=50)
    found.data_received(b"POST / HTTP/1.1\r\nhost: me\r\ncontent-length: 1000\r\n\r\n")
    await settle()
    assert wire.sent.endswith(b"ok")
    found.data_received(b"x" * 30)
    found.data_received(b"x" * (size - 30))
    assert wire.closed is closed
    found.connection_lost(None)


async def test_a_connection_too_many_ends_the_one_that_has_waited_longest(monkeypatch):
    monkeypatch.setattr(protocol, "connection_limit", lambda: 2)
    state, app = ServerState(), App()
    app.may_end.clear()
    busy, busy_wire = connect(app, state)
    busy.data_received(GET + b"\r\n")
    old, old_wire = connect(app, state)
    old.waiting_since -= 5
    new, new_wire = connect(app, state)
    assert [wire.aborted for wire in (busy_wire, old_wire, new_wire)] == [False, True, False]
    app.may_end.set()
    await settle()
    for found in (busy, old, new):
        found.connection_lost(None)


@pytest.mark.parametrize(("head", "said"), [(b"GET /", b"HTTP/1.1 408"), (b"", b"")])
async def test_who_sends_no_whole_head_in_time_is_hung_up_on(head, said):
    app = App()
    found, wire = connect(app, HEAD_S=0.02)
    found.data_received(head) if head else None
    await asyncio.sleep(0.1)
    assert wire.closed
    assert wire.sent.startswith(said)
    assert bool(wire.sent) is bool(said)
    found.connection_lost(None)


async def test_a_request_under_way_and_a_connection_kept_open_are_not_timed():
    app = App()
    app.may_end.clear()
    found, wire = connect(app, HEAD_S=0.02)
    found.data_received(GET + b"\r\n")
    await asyncio.sleep(0.06)
    assert not wire.closed
    assert found.waiting_since == 0.0
    app.may_end.set()
    await asyncio.sleep(0.06)
    assert not wire.closed
    assert found.waiting_since > 0.0
    found.connection_lost(None)


async def test_a_client_that_reads_again_in_time_is_kept():
    found, wire = connect(App(), WRITE_S=0.02)
    found.pause_writing()
    found.resume_writing()
    await asyncio.sleep(0.06)
    assert not wire.aborted
    found.pause_writing()
    await asyncio.sleep(0.06)
    assert wire.aborted
    found.connection_lost(None)


@pytest.mark.parametrize(("graceful_s", "drain_s"), [(10, 10 - MARGIN_S), (None, 0.0), (0, 0.0)])
async def test_the_drain_leaves_a_margin_before_the_server_stops(graceful_s, drain_s):
    drained = []

    class InFlight:
        def drain(self, seconds):
            drained.append(seconds)

    found, _ = connect(App())
    found.config.timeout_graceful_shutdown = graceful_s
    found.app_state = {"in_flight": InFlight()}
    found.shutdown()
    assert drained == [drain_s]
    found.connection_lost(None)


@pytest.mark.parametrize(("files", "most"), [(-1, protocol.MAX_CONNECTIONS), (10**9, protocol.MAX_CONNECTIONS), (0, 1), (1, 1), (8, 6), (1024, 768)])  # fmt: skip
def test_connections_take_three_quarters_of_the_files(monkeypatch, files, most):
    monkeypatch.setattr(protocol.resource, "getrlimit", lambda _: (files, files))
    assert connection_limit() == most
