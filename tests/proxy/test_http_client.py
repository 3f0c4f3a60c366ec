"""Hostile upstreams: whatever they send, the client of the proxy gets a defined error, and memory stays bounded."""

import asyncio
import resource
import socket
import tracemalloc
import zlib
from contextlib import suppress

import httpx2
import pytest
from tests.proxy import web
from tests.proxy.upstream import (
    CLOSE,
    PROSE,
    RESET,
    Endless,
    Head,
    Pause,
    Upstream,
    chunk,
    json_head,
    said,
)
from tests.waiting import MOST_S, until

from millgate.errors import ConfigError, UpstreamError
from millgate.guard.policy import GuardPolicy
from millgate.service.proxy.http_client import PART, Address, HttpClient, Timeouts, UpstreamRequest
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

MB = 1 << 20
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
GZIP = Head(200, (("content-type", "text/event-stream"), ("content-encoding", "gzip")))


def bomb(begin):
    """200 MB behind a beginning, as a few kilobytes of gzip that never end."""
    packer = zlib.compressobj(9, wbits=31)
    packed = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    return packed + (packer.compress(b"x" * MB) + packer.flush(zlib.Z_FULL_FLUSH)) * 200


HOSTILE = {
    "a header without end": ([Head(raw=STREAM + b"x: " + b"y" * MB), Pause(5)], "head"),
    "headers without end": ([Head(raw=STREAM + b"a: b\r\n" * 200_000), Pause(5)], "head"),
    "a status line without end": ([Head(raw=b"HTTP/1.1 200 " + b"x" * MB), Pause(5)], "head"),
    "1xx without end": ([Head(raw=b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50_000), Pause(5)], "no answer within"),
    "a length that is none": ([Head(raw=STREAM + b"content-length: x\r\n\r\n"), Pause(5)], "HTTP"),
    "two lengths": ([Head(raw=STREAM + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello"), Pause(5)], "HTTP"),
    "a length and chunks": ([Head(raw=STREAM + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), Pause(5)], "HTTP"),
    "a folded header": ([Head(raw=STREAM + b"x: a\r\n b\r\n\r\n"), Pause(5)], ""),
    "trailers without end": ([Head(raw=STREAM + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 200_000), Pause(5)], ""),
    "a status that is none": ([Head(777), b"{}"], "777"),
    "not HTTP at all": ([Head(raw=b"\x16\x03\x01\x02\x00\x01\x00"), CLOSE], "HTTP"),
}  # fmt: skip


@pytest.fixture(scope="module")
def narrow(rig):
    upstream = rig.at(idle_s=2, answer_s=2, connect_s=5)
    limits = {"max_event_bytes": MB, "max_answer_bytes": MB, "max_stream_bytes": 4 * MB}
    return rig.serve(ProxyPolicy(upstreams={"main": upstream}, **limits), GuardPolicy())


def post(served, model, **more):
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}], **more}
    return web.post(f"{served.url}/v1/chat/completions", json=body, timeout=MOST_S)


@pytest.mark.parametrize(("script", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_upstream_is_an_error_in_bounded_memory(rig, narrow, script, words):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = post(narrow, rig.script(script))
    assert got.status_code in (502, 504)
    assert got.json()["error"]["type"] == "upstream_error"
    assert words in got.json()["error"]["message"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB
    assert post(narrow, rig.script(said("ok"))).status_code == 200


ENDLESS = {
    "a bomb of gzip in a stream": ([GZIP, bomb(b": ")], b"xxx"),
    "a bomb of gzip as JSON": (
        [json_head(**{"content-encoding": "gzip"}), bomb(b'{"a": "')],
        b"xxx",
    ),
    "an answer without end": ([json_head(), Endless(b"x" * 65_536)], b""),
}


@pytest.mark.parametrize(("script", "end"), ENDLESS.values(), ids=ENDLESS)
def test_an_answer_too_large_to_be_held_passes_in_bounded_memory(rig, narrow, script, end):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = {"model": rig.script(script), "stream": True, "messages": [{"role": "user", "content": "Hi"}]}  # fmt: skip
    size, last = 0, b""
    with (
        suppress(httpx2.RemoteProtocolError),  # if it is longer than max_stream_bytes
        web.stream("POST", f"{narrow.url}/v1/chat/completions", json=body, timeout=MOST_S) as got,
    ):
        assert got.status_code == 200
        for data in got.iter_raw():
            size, last = size + len(data), (last + data)[-200:]
            if not end and size > 8 * MB:
                break
    assert size >= 4 * MB
    assert end in last
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB
    assert post(narrow, rig.script(said("ok"))).status_code == 200


def test_a_redirect_to_another_host_is_passed_on_and_not_followed(rig, narrow, upstream):
    elsewhere = rig.script(said("never"))
    target = f"http://localhost:{upstream.port}/v1/chat/completions"
    got = post(narrow, rig.script([Head(307, (("location", target),))]))
    assert (got.status_code, got.headers["location"]) == (307, target)
    assert upstream.seen[elsewhere] == []


def test_an_upstream_of_ipv6_is_reached_and_named_in_errors(rig):
    upstream = rig.run(Upstream().start(host="::1"))
    upstream.script("m", said("ok"))
    for port, status in ((upstream.port, 200), (9, 502)):
        main = UpstreamPolicy(url=f"http://[::1]:{port}/v1")
        got = post(rig.serve(ProxyPolicy(upstreams={"main": main})), "m")
        assert got.status_code == status, got.text
    rig.run(upstream.stop())
    assert "[::1]:9 cannot be reached" in got.json()["error"]["message"]


def test_cookies_of_an_upstream_are_not_kept(rig, narrow, upstream):
    head = Head(200, (("content-type", "text/event-stream"), ("set-cookie", "a=1; Path=/")))
    model = rig.script([head, *said("one")])
    post(narrow, model)
    post(narrow, model)
    assert all("cookie" not in seen.headers for seen in upstream.seen[model])


def test_proxies_of_the_environment_are_not_used(rig, narrow, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert post(narrow, rig.script(said("ok"))).status_code == 200


def test_a_proxy_that_is_configured_is_used(rig, upstream):
    policy = UpstreamPolicy(
        url="http://model.example/v1", proxy=f"http://127.0.0.1:{upstream.port}"
    )
    model = rig.script(said(*PROSE))
    assert post(rig.serve(ProxyPolicy(upstreams={"main": policy})), model).status_code == 200
    assert upstream.seen[model][0].path == "http://model.example/v1/chat/completions"


def test_an_extra_answer_is_not_taken_for_the_next_one(rig, narrow):
    data = b"".join(said("one"))
    two = STREAM + b"content-length: %d\r\n\r\n" % len(data) + data
    evil = STREAM + b"content-length: 4\r\n\r\nevil"
    post(narrow, rig.script([Head(raw=two + evil), Pause(0.2)]))
    assert "evil" not in post(narrow, rig.script(said("two"))).text


@pytest.mark.parametrize(
    "path",
    ["/v1%2F@127.0.0.1:9/steal", "/v1/..%2f..%2fx", "/v1/..;/x", "/v1/%252e%252e/x", "/v1/..%5cx"],
)
def test_a_path_cannot_name_another_host_or_climb_out(rig, upstream, path):
    bare = UpstreamPolicy(url=f"http://127.0.0.1:{upstream.port}", key="sk-held")
    served = rig.serve(ProxyPolicy(upstreams={"main": bare}))
    host, port = served.url.removeprefix("http://").split(":")
    before = sum(len(seen) for seen in upstream.seen.values())
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())  # fmt: skip
        got = b""
        while part := sock.recv(65536):
            got += part
    assert got.split(b" ")[1] in (b"400", b"404")
    assert sum(len(seen) for seen in upstream.seen.values()) == before


def test_an_address_with_a_user_is_refused():
    with pytest.raises(ConfigError, match="url"):
        UpstreamPolicy(url="http://model.example@evil/v1")


def test_the_gates_own_key_never_leaves_however_it_is_written(rig, served, upstream):
    token = "mg_" + "A" * 43
    model = rig.script(said("ok"))
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    for name, value in (("authorization", f"bearer  {token}"), ("authorization", f"Basic {token}"), ("api-key", token), ("x-other", token)):  # fmt: skip
        web.post(f"{served.url}/v1/chat/completions", json=body, headers={name: value})
    assert token not in str([seen.headers for seen in upstream.seen[model]])
    got = web.post(f"{served.url}/v1/chat/completions?key={token}", json=body)
    assert got.status_code == 400
    assert len(upstream.seen[model]) == 4


def test_configured_headers_replace_those_of_the_client(rig, upstream):
    policy = rig.at(headers={"OpenAI-Organization": "ours"})
    served = rig.serve(ProxyPolicy(upstreams={"main": policy}))
    model = rig.script(said("ok"))
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"openai-organization": "theirs"}
    web.post(f"{served.url}/v1/chat/completions", json=body, headers=headers)
    assert upstream.seen[model][0].headers["openai-organization"] == "ours"


# The transport alone


def request(port, body=b'{"model": "t"}', **more):
    return UpstreamRequest(
        "POST", Address("http", "127.0.0.1", port, "/v1"), "/x", [], body, **more
    )


async def test_reading_pauses_while_nobody_reads_and_closing_severs_at_once(rig, upstream):
    model = rig.script([Endless(b"x" * 65_536)])
    client = HttpClient()
    before = upstream.severed
    response = await client.send(request(upstream.port, b'{"model": "%b"}' % model.encode()))
    assert await response.read()
    await response.close()
    await client.close()
    await asyncio.to_thread(until, lambda: upstream.severed > before)


async def test_what_is_there_is_read_in_parts_and_others_have_a_turn_between_them(rig, upstream):
    model = rig.script([b": on\n\n" * 100_000])
    client, turns = HttpClient(), [0]

    async def take_turns():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(take_turns())
    response = await client.send(request(upstream.port, b'{"model": "%b"}' % model.encode()))
    await asyncio.sleep(0.05)  # more than one part is there
    sizes, between = [], []
    while data := await response.read():
        sizes.append(len(data))
        between.append(turns[0])
    others.cancel()
    await response.close()
    await client.close()
    assert sum(sizes) == 600_000
    assert max(sizes) == PART
    assert len(set(between)) >= sizes.count(PART) > 30


async def test_a_tick_gives_nothing_while_nothing_comes(rig, upstream):
    model = rig.script([chunk({"content": "a"}), Pause(0.3), chunk({"content": "b"})])
    client = HttpClient()
    response = await client.send(request(upstream.port, b'{"model": "%b"}' % model.encode()))
    assert b'"a"' in await response.read(5)
    assert await response.read(0.01) is None
    assert b'"b"' in await response.read(5)
    assert await response.read(5) == b""
    await response.close()
    await client.close()


@pytest.mark.parametrize("step", [CLOSE, RESET], ids=["closed", "reset"])
async def test_what_came_before_a_break_is_read_first(rig, upstream, step):
    model = rig.script([chunk({"content": "a"}), step])
    client = HttpClient()
    response = await client.send(request(upstream.port, b'{"model": "%b"}' % model.encode()))
    while response._content.exception() is None:  # noqa: ASYNC110  # the library has no event for it
        await asyncio.sleep(0.01)
    assert b'"a"' in await response.read()
    with pytest.raises(UpstreamError, match="closed the connection"):
        await response.read()
    await response.close()
    await client.close()


async def test_a_large_body_arrives_whole(rig, upstream):
    model = rig.script([json_head(), b"{}"])
    body = b'{"model": "%b", "x": "' % model.encode() + b"y" * (3 * MB) + b'"}'
    client = HttpClient()
    response = await client.send(request(upstream.port, body))
    await response.close()
    await client.close()
    assert upstream.seen[model][0].body == body
    assert upstream.seen[model][0].headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in upstream.seen[model][0].headers


async def test_a_large_body_is_sent_without_a_copy_of_it():
    async def swallow(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        left = len(body)
        while left:
            left -= len(await reader.read(65_536))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    body, client = b"x" * (20 * MB), HttpClient()
    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    tracemalloc.start()
    try:
        response = await client.send(request(server.sockets[0].getsockname()[1], body))
        assert tracemalloc.get_traced_memory()[1] < 10 * MB
    finally:
        tracemalloc.stop()
    await response.close()
    await client.close()
    server.close()


async def test_a_host_that_is_not_there_is_an_error_that_names_it():
    client = HttpClient()
    with pytest.raises(UpstreamError, match=r"127\.0\.0\.1:9 cannot be reached"):
        await client.send(request(9, timeouts=Timeouts(connect_s=2)))
    await client.close()
