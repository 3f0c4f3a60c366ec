"""Clients that go away, are slow, or come in crowds."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, Endless, Pause, chunk, said
from tests.waiting import MOST_S, until

ASK = [{"role": "user", "content": "Hi"}]


def open_gate(served, model, **more):
    """A client that sent its request and reads nothing yet."""
    host, port = served.url.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)))
    body = json.dumps({"model": model, "messages": ASK, "stream": True, **more}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"  # fmt: skip
    sock.sendall(head.encode() + body)
    return sock


SCRIPTS = {
    "while it streams": [*said(*PROSE)[:-2], Endless(chunk({"content": ""}))],
    "while the model is silent": [*said(*PROSE)[:-2], Pause(30)],
    "before the answer": [Pause(1.5)],
    "while text is held back": [*said(*LOOP[:6])[:-2], Pause(30)],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_when_the_client_goes_the_upstream_is_cut(rig, served, upstream, script):
    model = rig.script(script)
    before = upstream.severed
    sock = open_gate(served, model)
    until(lambda: upstream.seen[model])
    time.sleep(0.1)
    sock.close()
    until(lambda: upstream.severed > before)


def test_a_stall_severs_the_upstream_before_the_next_call(rig, served, upstream):
    looping = [*said(*LOOP)[:-2], Endless(chunk({"content": LOOP[-1]}))]
    model = rig.script(looping, said("Well."))
    before = upstream.severed
    got = web.post(f"{served.url}/v1/chat/completions", json={"model": model, "messages": ASK, "stream": True})  # fmt: skip
    assert got.text.endswith("[DONE]\n\n")
    until(lambda: upstream.severed == before + 1)


def test_a_client_that_reads_slowly_slows_the_model_down(rig, served, upstream):
    model = rig.script([Endless(b": " + b"x" * 60_000 + b"\n\n")])
    sock = open_gate(served, model)
    until(lambda: upstream.seen[model])
    sizes = []
    for _ in range(100):
        time.sleep(0.1)
        sizes.append(upstream.written)
        if len(sizes) > 5 and sizes[-1] == sizes[-6]:
            break
    sock.close()
    assert sizes[-1] == sizes[-6], "the upstream was still read while nobody read from us"
    assert sizes[-1] - sizes[0] < 40_000_000


def test_many_streams_at_once_all_arrive_whole(rig, served):
    script = said(*PROSE, *map(str, range(50)))
    model = rig.script(script)

    def one(_):
        body = {"model": model, "messages": ASK, "stream": True}
        return web.post(f"{served.url}/v1/chat/completions", json=body, timeout=MOST_S).content

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(one, range(36))) == {b"".join(script)}


def test_a_connection_is_used_again_when_its_answer_is_complete(rig, served, upstream):
    model = rig.script(said("ok"))
    body = {"model": model, "messages": ASK, "stream": True}
    web.post(f"{served.url}/v1/chat/completions", json=body)
    time.sleep(0.3)
    before = upstream.accepted
    for _ in range(5):
        web.post(f"{served.url}/v1/chat/completions", json=body)
        time.sleep(0.02)
    assert upstream.accepted <= before + 1


def test_a_client_that_leaves_64_kb_unread_costs_no_later_one(rig, served, upstream):
    flood = rig.script([Endless(b": " + b"x" * 60_000 + b"\n\n")])
    gone = []
    for _ in range(8):
        sock = open_gate(served, flood)
        gone.append(sock)
    until(lambda: len(upstream.seen[flood]) == 8)
    time.sleep(0.3)  # more than 64 KB wait on each
    before = upstream.severed
    for sock in gone:
        sock.close()
    script = said(*PROSE)
    model = rig.script(script)
    body = {"model": model, "messages": ASK, "stream": True}
    for _ in range(5):
        got = web.post(f"{served.url}/v1/chat/completions", json=body, timeout=MOST_S)
        assert got.content == b"".join(script)
    until(lambda: upstream.severed >= before + 8)


def test_a_slow_client_never_slows_another_stream(rig, served, upstream):
    flood = rig.script([Endless(b": " + b"x" * 60_000 + b"\n\n")])
    slow = [open_gate(served, flood) for _ in range(8)]
    until(lambda: len(upstream.seen[flood]) == 8)
    script = said(*PROSE, *map(str, range(200)))
    model = rig.script(script)
    body = {"model": model, "messages": ASK, "stream": True}
    for _ in range(5):
        got = web.post(f"{served.url}/v1/chat/completions", json=body, timeout=MOST_S)
        assert got.content == b"".join(script)
    for sock in slow:
        sock.close()
