"""A connection that is broken on purpose, as `headgate serve` breaks it: no noise in the log, known by every worker."""

import json
import re
import subprocess
import sys

import pytest
from tests.proxy.test_crowd import Reader, arguments_in, run, stream
from tests.proxy.upstream import UNIT

from headgate.service.proxy.asgi import BROKEN_OFF


@pytest.fixture
def serve(rig, tmp_path):
    """Starts the real service over one store; every one that was started is ended."""
    started = []

    def start(workers):
        log = (tmp_path / f"log-{len(started)}").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "headgate", "serve", "--port", "0", "--workers", str(workers), "--store", str(tmp_path / "kb")],
            env={"PATH": "", "HOME": str(tmp_path), "HEADGATE_PROXY__UPSTREAMS__MAIN__URL": rig.at().url},
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
        process.wait(60)
        process.stdout.close()
        log.close()


def test_a_retry_is_known_after_a_restart_and_the_log_tells_of_no_crash(rig, serve):
    looping = stream("chat", '{"content": "line1=1 ' + UNIT * 40)
    good = stream("chat", '{"content": "line1=1"}')
    model = rig.script(looping, looping, good)
    port, process, log = serve(1)
    first = run(rig, Reader(port, "chat", model).run())
    assert not first.whole
    assert first.got.endswith(BROKEN_OFF)
    process.terminate()
    process.wait(60)
    log.seek(0)
    lines = [line for line in log if model in line or "ASGI" in line]
    assert [json.loads(line)["error"] for line in lines] == ["PartialCallError"]
    again = run(rig, Reader(serve(1)[0], "chat", model).run())
    assert again.whole
    assert arguments_in(again.got) == '{"content": "line1=1"}'
