"""Recorded agent sessions of many MB through `millgate xray`: CPU and memory.

    make bench-xray [ARGS="--mb 100"]      1 minute

Sessions are drawn from seeds: reads of real source files and slices of them, edits, test runs, loops. They are written
in turn as Claude Code does, as Codex does, as a log of messages, and as a log of requests, each with the whole window.
Some lines are half-written. The command runs in a process of its own, whose CPU time and largest memory are printed.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.fixtures.sessions import Api, MadeCall, Turn, render

KINDS = ("claude", "codex", "messages", "requests")
SESSION = 2_500_000  # bytes of one session, about
HALF = 0.002  # share of lines that are half-written


def sources() -> list[str]:
    """Texts that tools would return: the source files of the standard library."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [path.read_text(errors="replace")[:30_000] for path in files[:150]]


def turns(rng: random.Random, texts: list[str]) -> Iterator[Turn]:
    """An agent at work, forever."""
    yield Turn(human="Mend what is broken.")
    while True:
        n = rng.randrange(len(texts))
        path = {"path": f"src/file{n}.py"}
        kind = rng.random()
        if kind < 0.55:
            yield Turn(calls=(MadeCall("read_file", path, texts[n]),), text="I look at the file.")
        elif kind < 0.75:
            start = rng.randrange(max(1, len(texts[n]) - 2000))
            call = MadeCall("grep", {"pattern": "def ", **path}, texts[n][start : start + 2000])
            yield Turn(calls=(call,))
        elif kind < 0.9:
            yield Turn(calls=(MadeCall("edit_file", {**path, "text": texts[n][:400]}, "ok"),))
        elif kind < 0.98:
            failures = "\n".join(f"FAILED tests/test_{rng.randrange(99)}.py" for _ in range(40))
            yield Turn(calls=(MadeCall("bash", {"command": "pytest -q"}, failures),))
        else:
            yield from [Turn(calls=(MadeCall("bash", {"command": "make"}, "make: no rule"),))] * 4


def lines(kind: str, rng: random.Random, texts: list[str], name: str) -> Iterator[str]:
    """The lines of one session, forever."""
    api: Api = "messages" if kind == "claude" else "responses" if kind == "codex" else "chat"
    window: list[dict[str, Any]] = []
    for number, turn in enumerate(turns(rng, texts)):
        for message in render([turn], api, seed=number):
            window.append(message)
            if kind == "requests":
                continue
            yield _cut(json.dumps(_wrap(kind, message, name, number)), rng)
        if kind == "requests":
            yield _cut(json.dumps({"model": "m", "messages": window}), rng)


def _wrap(kind: str, message: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    if kind == "claude":
        if message["role"] == "assistant":
            message |= {"id": f"msg_{number}"}
        return {"type": message["role"], "sessionId": name, "message": message}
    return {"type": "response_item", "payload": message} if kind == "codex" else message


def _cut(line: str, rng: random.Random) -> str:
    return line if rng.random() > HALF else line[: len(line) // 2]


def write(folder: Path, size: int) -> int:
    """Sessions of about `size` bytes; how many bytes were written."""
    texts, written, number = sources(), 0, 0
    while written < size:
        kind, rng = KINDS[number % len(KINDS)], random.Random(number)
        with (folder / f"session{number}.jsonl").open("w") as out:
            here = 0
            for line in lines(kind, rng, texts, f"s{number}"):
                here += out.write(line + "\n")
                if here > SESSION:
                    break
        written, number = written + here, number + 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        written = write(Path(name), given.mb * 1_000_000)
        command = [sys.executable, "-m", "millgate", "xray", name, "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"{written / 1e6:.0f} MB in {cpu:.1f} s of CPU (bar: 15 for 100), {memory:.0f} MB of memory at most")  # fmt: skip


if __name__ == "__main__":
    main()
