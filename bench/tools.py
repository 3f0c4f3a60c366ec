"""Circles of tool calls: false alarms, finds, and what looking costs; and how fast recorded sessions are read.

    python bench/tools.py [--sessions 1000] [FOLDER of recorded sessions]

Healthy and looping sessions are drawn from seeds (bench/agent_sessions.py). CPU is the process's own, least of several
runs, on messages that were just parsed, as the proxy has them. The peer is the rule that other guards use: the same
name and arguments three times in a row, whatever came back. "Unknown" conversations are read with everything forgotten
that earlier ones taught: the numbers of calls and the lines that were masked.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import orjson
from agent_sessions import APIS, MadeCall, Turn, healthy_session, looping_session, render
from rich.console import Console
from rich.table import Table

from headgate.guard import masks, steps
from headgate.guard.calls import Reader, events_of
from headgate.guard.climb_cache import ClimbCache
from headgate.guard.ladder import annotate, climb
from headgate.guard.policy import CirclesPolicy
from headgate.guard.tools import check
from headgate.xray.analyze import analyze

POLICY = CirclesPolicy()
LINES = "\n".join(f"line {n} of a file with some words in it, as files have" for n in range(140))


def fires_by_arguments(messages) -> bool:
    """The rule of the peers."""
    reader, last, count = Reader(), None, 0
    for at, message in enumerate(messages):
        for step in reader.read(at, events_of(message)):
            call = step.call if step is not None else None
            count = count + 1 if call is not None and call == last else 1
            last = call
            if call is not None and count >= 3:
                return True
    return False


def quality(sessions: int) -> Table:
    """False alarms on healthy sessions, and finds at the third copy."""
    table = Table("rule", "healthy", "false alarms", "looping", "found at the third copy")
    healthy = [render(healthy_session(seed), APIS[seed % 3], seed=seed) for seed in range(sessions)]
    looping = [
        render(looping_session(seed, period=seed % 6 + 1)[0], APIS[seed % 3], seed=seed)
        for seed in range(sessions)
    ]
    alarms = sum(bool(climb(messages, POLICY).marks) for messages in healthy)
    found = sum(check(messages) is not None for messages in looping)
    table.add_row("same call, same result", str(sessions), str(alarms), str(sessions), str(found))
    alarms, found = sum(map(fires_by_arguments, healthy)), sum(map(fires_by_arguments, looping))
    table.add_row("same call three times", str(sessions), str(alarms), str(sessions), str(found))
    return table


def conversation(kind: str) -> list[Turn]:
    """500 messages, 2 MB."""
    turns = [Turn(human="go")]
    for n in range(250):
        path = {"path": f"src/file{n}.py" if kind == "healthy" else "src/a.py"}
        head = {"healthy": "", "polling": f"{n} of 900 done\n", "looping": f"took {n} ms\n"}[kind]
        turns.append(Turn(calls=(MadeCall("read", path, head + LINES),)))
    return turns


def cost() -> Table:
    """CPU of one request, the conversation known but for its last turn; and of one that was never seen."""
    columns = ("check", "check, unknown", "ladder", "ladder, unknown", "JSON parse")
    table = Table("conversation", "MB", *(f"{name} ms" for name in columns))
    for kind in ("healthy", "polling", "looping"):
        body = orjson.dumps(render(conversation(kind), "chat"))
        load = partial(orjson.loads, body)
        parsed = [load() for _ in range(12)]
        ladder = [
            _grown(m, known, len(body)) for m, known in zip(parsed[::2], parsed[1::2], strict=True)
        ]
        runs = (
            [_cpu(check, m) for m in parsed[:6]],
            [_cpu(check, load()) for _ in range(6) if not forget()],
            ladder,
            [_cpu(_annotate, load()) for _ in range(6) if not forget()],
            [_cpu(load) for _ in range(6)],
        )
        table.add_row(
            kind, f"{len(body) / 1e6:.1f}", *(f"{1000 * min(times):.2f}" for times in runs)
        )
    return table


def forget() -> None:
    """Forget what earlier conversations taught."""
    steps._numbers.clear()
    for part in vars(masks).values():
        if hasattr(part, "cache_clear"):
            part.cache_clear()


def _annotate(messages: list) -> list:
    return annotate(messages, climb(messages, POLICY).marks)


def _grown(messages: list, known: list, size: int) -> float:
    """CPU of the ladder as the proxy climbs it, where all but the last turn was sent before."""
    climbs = ClimbCache()
    climbs.climb(known[:-2], POLICY, size=size)
    return _cpu(lambda: annotate(messages, climbs.climb(messages, POLICY, size=size).marks))


def _cpu(work, *given) -> float:
    began = time.process_time()
    work(*given)
    return time.process_time() - began


def reading(folder: Path) -> str:
    """How fast recorded sessions are read."""
    files = sorted(path for path in folder.rglob("*.jsonl") if path.is_file())
    began = time.process_time()
    found = analyze(files)
    spent = time.process_time() - began
    return (
        f"xray: {found.bytes / 1e6:.1f} MB in {spent:.1f} s of CPU, {found.skipped} lines skipped"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--sessions", type=int, default=1000)
    given = parser.parse_args()
    console = Console()
    console.print(quality(given.sessions))
    console.print(cost())
    if given.folder:
        console.print(reading(given.folder))


if __name__ == "__main__":
    main()
