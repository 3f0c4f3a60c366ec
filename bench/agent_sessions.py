"""Agent sessions, made from a seed: healthy ones of the shapes that real agents produce, and ones that go in circles.

A session is a list of turns; `render` writes it as the messages of one of
the three APIs. A loop detector must stay silent on `healthy_session`, and speak at the third copy of `looping_session`.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "messages", "responses"]
APIS: tuple[Api, ...] = ("chat", "messages", "responses")
_FILES = ("app.py", "models.py", "routes.py", "db/session.py", "README.md", "tests/test_api.py", "src/index.ts")  # fmt: skip
_WORDS = ("order", "invoice", "session", "parser", "retry", "cache", "index", "token", "schema", "upload")  # fmt: skip


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call as a session tells it: tool, arguments, result."""

    tool: str
    arguments: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message of the model did: it spoke, or called (several at once), or a person spoke."""

    calls: tuple[MadeCall, ...] = ()
    text: str = ""
    human: str = ""


@dataclass
class Maker:
    """Draws the parts of sessions from one source of chance."""

    chance: random.Random
    clock: float = 1_763_000_000.0
    _edits: int = field(default=0)

    def pick(self, options: Sequence[str]) -> str:
        """One of the options."""
        return self.chance.choice(options)

    def number(self, low: int, high: int) -> int:
        """A number between these, both included."""
        return self.chance.randint(low, high)

    def stamp(self) -> str:
        """A time of day that moves on."""
        self.clock += self.chance.uniform(0.5, 90)
        seconds = int(self.clock) % 86_400
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

    def hex(self, digits: int) -> str:
        """A drawn id."""
        return f"{self.chance.getrandbits(4 * digits):0{digits}x}"

    def code(self, lines: int) -> str:
        """Text like that of a file."""
        return "\n".join(
            f"    {self.pick(_WORDS)}_{self.pick(_WORDS)} = load({self.number(1, 9999)})"
            for _ in range(lines)
        )


def healthy_session(seed: int, *, blocks: int = 6) -> list[Turn]:
    """A session in which nothing goes in circles, however often the same call is made."""
    make = Maker(random.Random(seed))
    turns = [Turn(human=f"Please fix the {make.pick(_WORDS)} bug.")]
    for _ in range(blocks):
        turns += make.chance.choice(_SHAPES)(make)
        if make.number(0, 5) == 0:
            turns.append(Turn(human="Go on."))
    return [*turns, Turn(text="Done: the tests pass.")]


def looping_session(
    seed: int, *, period: int, copies: int = 3, lead: int = 2
) -> tuple[list[Turn], int]:
    """A session that ends in a circle, and how many turns stand before it.

    Copies differ in what changes by itself, in the order of arguments and in white space.
    """
    make = Maker(random.Random(seed))
    turns = [Turn(human="Make the build green.")]
    for _ in range(lead):
        turns += make.chance.choice(_SHAPES)(make)
    kinds = make.chance.sample(_STUCK, period)
    circle = [Turn(calls=(_shuffle(make, kind(make)),)) for _ in range(copies) for kind in kinds]
    return [*turns, *circle], len(turns)


def _shuffle(make: Maker, call: MadeCall) -> MadeCall:
    """The same call, written a little differently."""
    spaced = {
        name: f" {value} " if isinstance(value, str) and make.number(0, 1) else value
        for name, value in call.arguments.items()
    }
    ending = make.pick(("", "\n", "  \n"))
    return MadeCall(call.tool, spaced, call.result + ending)


# The shapes of healthy work


def _poll(make: Maker) -> list[Turn]:
    job, total, done = make.number(100, 999), make.number(20, 90), 0
    turns = []
    while done < total:
        done = min(total, done + make.number(1, 20))
        result = f"[{make.stamp()}] {done} of {total} done, elapsed {make.number(1, 900)}s"
        turns.append(_one("job_status", {"job": job}, result))
    return turns


def _wait(make: Maker) -> list[Turn]:
    """A service that says nothing but that it is still at work."""
    run = make.number(1000, 9999)
    state = make.pick(("queued", "in_progress", "pending", "running"))
    turns = [
        _one("get_run", {"id": run}, json.dumps({"id": run, "status": state, "elapsed_s": n * 10}))
        for n in range(make.number(3, 9))
    ]
    return [*turns, _one("get_run", {"id": run}, json.dumps({"id": run, "status": "completed"}))]


def _sleep(make: Maker) -> list[Turn]:
    command = {"command": "sleep 30 && tail -n 1 build.log"}
    return [_one("bash", command, "linking ...") for _ in range(make.number(3, 6))]


def _background(make: Maker) -> list[Turn]:
    shell = {"bash_id": f"bash_{make.number(1, 9)}"}
    quiet = "<status>running</status>\n\n<timestamp>2026-11-15T{}Z</timestamp>"
    return [_one("BashOutput", shell, quiet.format(make.stamp())) for _ in range(make.number(3, 7))]


def _edit_and_reread(make: Maker) -> list[Turn]:
    path, turns = make.pick(_FILES), list[Turn]()
    for _ in range(make.number(3, 6)):
        turns.append(_one("read_file", {"path": path}, make.code(make.number(5, 60))))
        new = f"{make.pick(_WORDS)} = {make.number(1, 10**6)}"
        turns.append(_one("edit_file", {"path": path, "old": "x = 1", "new": new}, "ok"))
    return turns


def _edit_and_lint(make: Maker) -> list[Turn]:
    """The same empty answer after every edit: it is what one hopes for."""
    path, turns = make.pick(_FILES), list[Turn]()
    for n in range(make.number(3, 8)):
        turns.append(_one("edit_file", {"path": path, "line": n, "new": make.code(1)}, "ok"))
        turns.append(
            _one("bash", {"command": "ruff check ."}, make.pick(("", "All checks passed!")))
        )
    return turns


def _tests(make: Maker) -> list[Turn]:
    turns = []
    failing = make.number(3, 8)
    for left in range(failing, -1, -1):
        names = "\n".join(
            f"FAILED tests/test_{make.pick(_WORDS)}.py::test_{n}" for n in range(left)
        )
        last = f"{left} failed, {40 - left} passed in {make.chance.uniform(0.2, 9):.2f}s"
        turns.append(_one("bash", {"command": "pytest -q"}, f"{names}\n{last}"))
        turns.append(Turn(text="I see; one less."))
    return turns


def _flaky(make: Maker) -> list[Turn]:
    """Different failures of the same test, by line and value only."""
    return [
        _one("bash", {"command": "pytest -k upload"}, f"E assert {make.number(1, 99)} == {n}\nmodels.py:{10 + n}")
        for n in range(make.number(3, 6))
    ]  # fmt: skip


def _pages(make: Maker) -> list[Turn]:
    return [
        _one("list_issues", {"page": page, "per_page": 30}, _rows(make))
        for page in range(1, make.number(4, 9))
    ]


def _cursor(make: Maker) -> list[Turn]:
    """A tool that remembers where it stands: the same call gives the next page."""
    return [_one("next_page", {}, _rows(make)) for _ in range(make.number(3, 7))]


def _queue(make: Maker) -> list[Turn]:
    id = "-".join(make.hex(n) for n in (8, 4, 4, 4, 12))
    return [
        _one("next_task", {"worker": 1}, json.dumps({"task_id": f"{n}{id[1:]}", "todo": "resize"}))
        for n in range(make.number(3, 9))
    ]


def _retries(make: Maker) -> list[Turn]:
    url = {"url": f"https://example.org/{make.pick(_WORDS)}"}
    failed = [
        _one("fetch", url, f"Error: timed out after {make.number(29_000, 31_000)} ms")
        for _ in range(make.number(1, 2))
    ]
    return [*failed, _one("fetch", url, make.code(20))]


def _empty_searches(make: Maker) -> list[Turn]:
    words = make.chance.sample(_WORDS, 6)
    return [_one("grep", {"pattern": word}, make.pick(("", "No matches found"))) for word in words]


def _parallel_reads(make: Maker) -> list[Turn]:
    reads = tuple(
        MadeCall("read_file", {"path": path}, make.code(30))
        for path in make.chance.sample(_FILES, make.number(2, 4))
    )
    return [Turn(calls=reads)]


def _downloads(make: Maker) -> list[Turn]:
    size, turns = 0, list[Turn]()
    for _ in range(make.number(3, 6)):
        size += make.number(10_000, 900_000)
        turns.append(_one("ls", {"path": "out"}, f"{size} bytes model.bin {make.number(1, 99)}%"))
    return turns


def _rows(make: Maker) -> str:
    rows = [{"id": make.number(1, 10**6), "title": make.pick(_WORDS)} for _ in range(10)]
    return json.dumps(rows)


def _one(tool: str, arguments: dict[str, Any], result: str) -> Turn:
    return Turn(calls=(MadeCall(tool, arguments, result),))


_SHAPES: tuple[Callable[[Maker], list[Turn]], ...] = (
    _poll, _wait, _sleep, _background, _edit_and_reread, _edit_and_lint, _tests, _flaky, _pages, _cursor,
    _queue, _retries, _empty_searches, _parallel_reads, _downloads,
)  # fmt: skip

# Calls that lead nowhere: each draws anew what changes by itself.

_STUCK: tuple[Callable[[Maker], MadeCall], ...] = (
    lambda make: MadeCall(
        "bash", {"command": "npm run build", "timeout": 60},
        f"> build\nerror TS2304: Cannot find name 'x'.\nDone in {make.chance.uniform(1, 9):.2f}s",
    ),
    lambda make: MadeCall(
        "fetch", {"url": "https://example.org/api", "method": "GET"},
        f"HTTP 404 at 2026-11-15T{make.stamp()}Z (request id {make.hex(16)})",
    ),
    lambda make: MadeCall(
        "start_server", {"port": 0, "host": "localhost"},
        f"listening on port {make.number(30_000, 60_000)}\nprocess {make.number(100, 99_999)} exited with code 1",
    ),
    lambda make: MadeCall(
        "write_temp", {"name": "notes", "content": "a\nb"}, f"wrote /tmp/tmp{make.hex(8)}/notes.txt"
    ),
    lambda make: MadeCall(
        "query", {"sql": "select count(*) from orders", "db": "main"},
        json.dumps({"rows": [], "took_ms": make.number(1, 900), "trace_id": make.hex(32)}),
    ),
    lambda make: MadeCall(
        "grep", {"pattern": "def main", "path": "src"}, ""
    ),
    lambda make: MadeCall(
        "read_file", {"path": "src/app.py", "limit": 40}, "import os\n\ndef run():\n    return os.getcwd()\n"
    ),
    lambda make: MadeCall(
        "click", {"selector": "#submit"},
        f"TimeoutError: waiting for selector failed: {make.number(29_000, 31_000)}ms exceeded (attempt {make.number(1, 50)})",
    ),
)  # fmt: skip


# Messages of an API


def render(turns: Sequence[Turn], api: Api, *, seed: int = 0) -> list[dict[str, Any]]:
    """The session as messages of one API; the seed moves white space and order of JSON."""
    chance = random.Random(seed)
    written: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        write = {"chat": _chat, "messages": _messages, "responses": _responses}[api]
        written += write(turn, number, chance)
    return written


def _chat(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": turn.human}
        return
    calls = [
        {
            "id": f"call_{number}_{n}",
            "type": "function",
            "function": {"name": call.tool, "arguments": _dump(call.arguments, chance)},
        }
        for n, call in enumerate(turn.calls)
    ]
    yield {"role": "assistant", "content": turn.text or None} | (
        {"tool_calls": calls} if calls else {}
    )
    for n, call in _shuffle_results(turn, chance):
        yield {"role": "tool", "tool_call_id": f"call_{number}_{n}", "content": call.result}


def _messages(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": turn.human}
        return
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    for n, call in enumerate(turn.calls):
        shuffled = dict(chance.sample(list(call.arguments.items()), len(call.arguments)))
        blocks.append({"type": "tool_use", "id": f"toolu_{number}_{n}", "name": call.tool, "input": shuffled})  # fmt: skip
    yield {"role": "assistant", "content": blocks}
    if turn.calls:
        results = [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}_{n}", "content": [{"type": "text", "text": call.result}]}
            for n, call in _shuffle_results(turn, chance)
        ]  # fmt: skip
        yield {"role": "user", "content": results}


def _responses(turn: Turn, number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    if turn.human:
        yield {"role": "user", "content": [{"type": "input_text", "text": turn.human}]}
        return
    yield {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    if turn.text:
        parts = [{"type": "output_text", "text": turn.text}]
        yield {"type": "message", "role": "assistant", "content": parts}
    for n, call in enumerate(turn.calls):
        yield {"type": "function_call", "call_id": f"call_{number}_{n}", "name": call.tool, "arguments": _dump(call.arguments, chance)}  # fmt: skip
    for n, call in _shuffle_results(turn, chance):
        yield {"type": "function_call_output", "call_id": f"call_{number}_{n}", "output": call.result}  # fmt: skip


def _shuffle_results(turn: Turn, chance: random.Random) -> list[tuple[int, MadeCall]]:
    """Results of parallel calls, in the order they came back."""
    return chance.sample(list(enumerate(turn.calls)), len(turn.calls))


def _dump(arguments: dict[str, Any], chance: random.Random) -> str:
    names = chance.sample(list(arguments), len(arguments))
    indent = chance.choice((None, None, 2))
    return json.dumps({name: arguments[name] for name in names}, indent=indent)
