"""Kept connections to upstreams: what comes on one unasked is nobody's answer, and no one shares one with another."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.waiting import MOST_S

from millgate.service.proxy.http_client import Address, HttpClient, Timeouts, UpstreamRequest

STOLEN = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nSTOLEN"


class RawServer:
    """A server that reads heads, and bodies only if it is told to; what it was asked stands in `heads`."""

    def __init__(self, *, reads_bodies=True):
        self.heads, self.writers, self.connections = [], [], 0
        self._reads_bodies = reads_bodies
        self.closed = asyncio.Queue()

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]  # fmt: skip
                if self._reads_bodies and length:
                    self.heads[-1] += await reader.readexactly(int(length[0]))
                method, path, _ = head.split(b" ", 2)
                said = b"answer to " + path
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(said))
                writer.write(b"" if method == b"HEAD" else said)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.put_nowait(writer)
        finally:
            writer.close()


@asynccontextmanager
async def serving(**options):
    """A raw server, and a client of it: ask(method, path, owner, body) gives what was answered."""
    raw, client = RawServer(**options), HttpClient()
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(path, *, owner="acme", method="POST", body=b"{}"):
        request = UpstreamRequest(method, Address("http", "127.0.0.1", port), path, body=body, timeouts=Timeouts(MOST_S, MOST_S, MOST_S), owner=owner)  # fmt: skip
        response = await client.send(request)
        said = b""
        while part := await response.read():
            said += part
        await response.close()
        return said

    try:
        yield raw, ask
    finally:
        await client.close()
        server.close()
        for writer in raw.writers:
            writer.close()


async def test_a_connection_is_kept_for_its_owner():
    async with serving() as (raw, ask):
        for n in range(3):
            assert await ask(f"/{n}") == b"answer to /%d" % n
        assert raw.connections == 1


async def test_no_owner_gets_a_connection_of_another():
    async with serving() as (raw, ask):
        for owner in ("acme", "beta", "acme", "beta", "gamma"):
            assert await ask(f"/{owner}", owner=owner) == f"answer to /{owner}".encode()
        assert raw.connections == 3


@pytest.mark.parametrize("owner", ["acme", "beta"])
async def test_an_answer_that_comes_while_a_connection_is_idle_is_nobodys(owner):
    async with serving() as (raw, ask):
        await ask("/first")
        raw.writers[0].write(STOLEN)
        await raw.writers[0].drain()
        await asyncio.sleep(0)  # whether the library has read it by now or not
        assert await ask("/second", owner=owner) == b"answer to /second"
        assert await ask("/third", owner=owner) == b"answer to /third"


async def test_an_answer_that_was_read_while_a_connection_was_idle_is_nobodys():
    async with serving() as (raw, ask):
        await ask("/first")
        raw.writers[0].write(STOLEN)
        await raw.writers[0].drain()
        for _ in range(50):
            await asyncio.sleep(0.001)  # so that the client's loop reads it
        assert await ask("/second") == b"answer to /second"
        assert raw.connections == 2
        assert await raw.closed.get() is raw.writers[0]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_request_that_has_no_body_is_sent_without_one(method):
    injected = b"POST /injected HTTP/1.1\r\nhost: x\r\n\r\n"
    async with serving(reads_bodies=False) as (raw, ask):
        await ask("/models", method=method, body=injected)
        await ask("/second", owner="acme")
    assert not any(b"injected" in head or b"content-length: 3" in head for head in raw.heads[:1])
    assert [head.split(b" ")[1] for head in raw.heads[:2]] == [b"/models", b"/second"]


async def test_a_server_that_ignores_bodies_answers_twice_and_only_the_first_counts():
    """What it takes for a request of its own is answered on a connection that is used for nothing else."""
    injected = b"POST /injected HTTP/1.1\r\nhost: x\r\n\r\n"
    async with serving(reads_bodies=False) as (_, ask):
        for method in ("POST", "DELETE", "PUT"):
            assert await ask("/acme", method=method, body=injected) == b"answer to /acme"
            assert await ask("/beta", owner="beta", body=b"") == b"answer to /beta"


async def test_the_body_of_a_deletion_is_sent_on_a_connection_of_its_own():
    async with serving() as (raw, ask):
        await ask("/file", method="DELETE", body=b'{"id": 1}')
        await ask("/second")
        assert raw.connections == 2
        assert raw.heads[0].endswith(b'{"id": 1}')
