"""The process of a gateway: nothing that it writes or leaves behind holds us up."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.waiting import MOST_S

from millgate.wrap.gateways import LOG_TAIL, GatewayProcess


def count_open_files():
    return len(list(Path("/dev/fd").iterdir()))


async def start(script):
    return await GatewayProcess.start((sys.executable, "-S", "-c", script), b"a line\n")


async def test_it_gets_its_line_and_its_socket_and_ends_with_its_input():
    process = await start(
        "import socket, sys\n"
        "print(sys.stdin.readline(), socket.socket(fileno=int(sys.argv[1])).getsockname()[1])\n"
        "sys.stdin.read(); print('in order')"
    )
    await process.end(60)
    assert process.log.split() == ["a", "line", str(process.port), "in", "order"]
    assert process.exited.result() == 0


async def test_it_never_waits_for_a_reader_however_much_it_writes_and_the_end_is_kept():
    process = await start(
        "import os\n"
        "for stream in (1, 2):\n"
        "    for _ in range(100): os.write(stream, b'x' * 65_536)\n"
        "os.write(2, b' the end \\xff')"
    )
    async with asyncio.timeout(MOST_S):
        assert await process.exited == 0
    await process.end()
    assert process.log.endswith("xxx the end \N{REPLACEMENT CHARACTER}")
    assert len(process.log) == LOG_TAIL


async def test_one_that_does_not_end_with_its_input_is_killed_and_with_it_what_it_started(tmp_path):
    held = tmp_path / "held"
    os.mkfifo(held)
    process = await start(
        "import os, time\n"
        f"file = os.open({str(held)!r}, os.O_WRONLY); os.fork()\n"
        "os.write(file, b'.'); time.sleep(1000)"
    )
    with await asyncio.to_thread(held.open, "rb", buffering=0) as reader:
        for _ in range(2):
            await asyncio.to_thread(reader.read, 1)
        await process.end(0.1)
        assert process.exited.result() == -9
        assert await asyncio.to_thread(reader.read) == b"", "nobody holds it any more"


async def test_one_whose_pipes_another_holds_is_known_to_have_ended():
    process = await start("import os, time\nif os.fork() == 0: time.sleep(1000)")
    async with asyncio.timeout(MOST_S):
        assert await process.exited == 0
    os.killpg(process.pid, 9)
    await process.end()


async def test_one_that_cannot_be_started_leaves_nothing_open():
    before = count_open_files()
    with pytest.raises(FileNotFoundError):
        await GatewayProcess.start(("/no/such/command",), b"")
    assert count_open_files() == before
