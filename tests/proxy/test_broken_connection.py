"""A connection that is broken on purpose, as `millgate serve` breaks it: no noise in the log, known by every worker."""

import json
import re
import socket
import subprocess
import sys

import pytest
from tests.proxy.test_crowd import Reader, arguments_in, run, stream
from tests.proxy.upstream import CLOSE, PROSE, RESET, UNIT, said
from tests.waiting import MOST_S

from millgate.service.edge.reply import BROKEN_OFF


@pytest.fixture
def serve(rig, tmp_path):
    """Starts the real service over one store; every one that was started is ended."""
    started = []

    def start(workers):
        log = (tmp_path / f"log-{len(started)}").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "millgate", "serve", "--port", "0", "--workers", str(workers), "--store", str(tmp_path / "kb")],
            env={"PATH": "", "HOME": str(tmp_path), "MILLGATE_PROXY__UPSTREAMS__MAIN__URL": rig.at().url},
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path,
        )  # fmt: skip
        started.append((process, log))
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                return int(found[1]), process, log
        raise AssertionError("the service ended before it told its address")

    yield start
    for process, log in started:
        process.terminate()
        process.wait(MOST_S)
        process.stdout.close()
        log.close()


@pytest.mark.slow
def test_a_retry_is_known_after_a_restart_and_the_log_tells_of_no_crash(rig, serve):
    wanted = '{"content": "line1=1 ' + UNIT * 400 + '"}'
    model = rig.script(stream("chat", wanted))
    port, process, log = serve(1)
    first = run(rig, Reader(port, "chat", model).run())
    assert not first.whole
    assert first.got.endswith(BROKEN_OFF)
    process.terminate()
    process.wait(MOST_S)
    log.seek(0)
    lines = [line for line in log if model in line or "ASGI" in line]
    assert [json.loads(line)["error"] for line in lines] == ["PartialCallError"]
    again = run(rig, Reader(serve(1)[0], "chat", model).run())
    assert again.whole
    assert (
        arguments_in(again.got) == wanted
    )  # believed, since it is known that it was asked for before


def read_to_end(port, model):
    """What comes of a stream, and whether its connection was reset."""
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()  # fmt: skip
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"  # fmt: skip
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=MOST_S) as connection:
        connection.sendall(head.encode() + body)
        try:
            while data := connection.recv(65_536):
                got += data
        except ConnectionResetError:
            return got, True
    return got, False


@pytest.mark.slow
def test_a_connection_that_the_upstream_resets_is_reset_and_one_that_it_closes_is_closed(rig, serve):  # fmt: skip
    port, _, _ = serve(1)
    begun = said(*PROSE)[:-2]
    for step, is_reset in ((RESET, True), (CLOSE, False)):
        for _ in range(20):
            got, was_reset = read_to_end(port, rig.script([*begun, step]))
            if b" 502 " not in got[:20]:  # a reset may discard what the proxy has not read yet
                break
        assert was_reset is is_reset
        assert PROSE[-1].encode() in got
        assert b"0\r\n\r\n" not in got
