"""`millgate demo`: what enters a window and what does not, a loop that is cut, and a circle that is broken.

The questions are about the project's own documentation. Each question is asked twice: the second time a chunk
of the first answer is in the window, as it would be one turn later, and must not come again. The stream and the session
are written by us after what small models do. They run through the real guard, a few characters or a message at a time.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path
from shutil import which
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

import millgate
from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import annotate, describe, find_steps
from millgate.cli.console import SafeConsole
from millgate.cli.demo_service import serve_script
from millgate.cli.options import json_option, print_json
from millgate.errors import NotFound
from millgate.explain.as_data import context_data
from millgate.gateway import Millgate
from millgate.guard import Cut, Guard
from millgate.ingest.load import Summary
from millgate.types import Chunk, Context

_LEFT_OUT = 3  # chunks that did not enter, listed for a question: enough to see the reasons
# Each with the rank of the chunk that the window holds: the second best, so that the best one enters; and the best,
# which says all of it, so that nothing does.
QUESTIONS = {
    "How are loops stopped, and will a good answer be cut?": 1,
    "Is it a framework that runs the agent, and how is it different from a gateway?": 1,
    "Does injected context break my prompt cache?": 0,
}
BUDGET = 500
PAGE = "start.md"  # read beside the README, which every installation has; pyproject.toml puts it into the package


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A question, what of the answer was in the window already, and what came."""

    question: str
    seen: tuple[Chunk, ...]
    context: Context


def add_docs(gate: Millgate) -> Summary:
    """Add the README and the documentation that comes with the package."""
    page = (_docs() / PAGE).read_text(encoding="utf-8")
    readme = {"id": "README.md", "text": metadata("millgate")["Description"]}
    return gate.add([readme, {"id": f"docs/{PAGE}", "text": page}])


def ask(gate: Millgate, question: str, rank: int) -> DemoAnswer:
    """Ask a question with a chunk of its first answer in the window."""
    seen = gate.context(question, budget=BUDGET).chunks[rank : rank + 1]
    window = [{"role": "user", "content": question}] + [{"role": "tool", "content": chunk.text} for chunk in seen]  # fmt: skip
    return DemoAnswer(question, seen, gate.context(question, window=window, budget=BUDGET))


def _docs() -> Path:
    """The folder of the documentation: in the package if it was installed, beside it in a checkout."""
    shipped = Path(str(files(millgate) / "docs"))
    beside = Path(millgate.__file__).parents[2] / "docs"
    for folder in (shipped, beside):
        if folder.is_dir():
            return folder
    raise NotFound("the documentation is not installed", hint="in the clone of the repository: pip install --force-reinstall .")  # fmt: skip


LOOP_QUESTION = "The nightly job failed. What happened, and what do I do?"
_GOOD = (
    "The nightly job failed because the disk of the build machine is full: the last lines of its log say that no space "
    "is left on the device. Most of the space is taken by old container images.\n\n"
)
_UNIT = (
    "Remove the images that no job has used for a week, and check with the disk command how much space that gave back "
    "before you start the job again.\n"
)
STREAM = _GOOD + _UNIT * 12
RESUMED = "of retired projects, too. Then start the job again. If the disk fills up within a day, raise the size of the volume."
_STEP = 6  # characters that the model sends at a time


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a client saw of a stream that looped, and what the guard did."""

    text: str
    cuts: Sequence[Cut]
    read_chars: int
    asked: str
    """What the model was told when it was asked to go on."""


def cut_and_resume() -> Resumed:
    """Run the looping stream through the guard; the second call of the model goes on where the first was cut."""
    calls: list[Sequence[Mapping[str, Any]]] = []
    read = 0

    def generate(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        nonlocal read
        calls.append(messages)
        text = STREAM if len(calls) == 1 else RESUMED
        for at in range(0, len(text), _STEP):
            read += _STEP if len(calls) == 1 else 0
            yield text[at : at + _STEP]

    guard = Guard(generate)
    seen = "".join(piece.text for piece in guard.iterate(LOOP_QUESTION))
    assert guard.report is not None
    return Resumed(seen, guard.report.cuts, read, str(calls[-1][-1]["content"]))


@dataclass(frozen=True, slots=True)
class Broken:
    """A session in which an agent repeats itself: which calls it made, and what it is told at which message."""

    calls: tuple[str, ...]
    notes: tuple[tuple[int, str], ...]
    ended: bool


def break_circle() -> Broken:
    """Let an agent read the same missing file again and again, and see what it is told."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the failing build."}]
    calls = []
    for turn in range(8):
        name, arguments, result = _STEPS[turn % 2]
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": arguments}}  # fmt: skip
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": result.format(turn=turn)},
        ]
        calls.append(f"{name} {arguments}")
    found = find_steps(messages, CirclesPolicy())
    assert annotate(messages, found.marks) != messages
    return Broken(tuple(calls), tuple((m.at, describe(m)) for m in found.marks), found.ended is not None)  # fmt: skip


_STEPS = (
    ("read_file", '{"path": "build/config.yaml"}', "error: build/config.yaml: no such file"),
    ("run", '{"command": "make build"}', "make: *** no rule to make target 'config.yaml'. Stop. (0.{turn}1 s)"),
)  # fmt: skip


@click.command(epilog="Example: millgate demo --serve --open")
@click.option(
    "--serve", "serves", is_flag=True, help="Serve the dashboard with a scripted session in it."
)
@click.option("--port", type=int, default=0, help="Port for --serve (default: a free one).")
@click.option(
    "--open", "opens", is_flag=True, help="With --serve, open the dashboard in a browser."
)
@json_option
def demo(serves: bool, port: int, opens: bool, as_json: bool) -> None:
    """Show Millgate at work on its own documentation. Needs no network, no model and no settings."""
    if serves:
        serve_script(port=port, opens=opens)
        return
    with Millgate.open(":memory:") as gate:
        added = add_docs(gate)
        asked = [ask(gate, question, rank) for question, rank in QUESTIONS.items()]
    loop, circle = cut_and_resume(), break_circle()
    if as_json:
        print_json(
            {
                "documents": added.documents,
                "questions": [context_data(one.context, debug=True) for one in asked],
                "loop": loop,
                "circle": circle,
            }
        )
        return
    console = SafeConsole(highlight=False)
    console.print(f"[bold]On the way in.[/bold] {added.documents} pages of Millgate's own documentation, {added.chunks} chunks.")  # fmt: skip
    for one in asked:
        _print_question(console, one)
    _print_loop(console, loop)
    _print_circle(console, circle)
    me = _command()
    console.print("\n[bold]Next[/bold]")
    console.print(f"  {me} add YOUR_FOLDER", soft_wrap=True)
    console.print(f"  {me} context 'YOUR QUESTION' --explain", soft_wrap=True)
    console.print(f"  {me} why last CHUNK", soft_wrap=True)


def _print_question(console: SafeConsole, one: DemoAnswer) -> None:
    made = one.context
    console.print(f"\n[bold cyan]{escape(one.question)}[/]")
    rows = Table.grid(padding=(0, 1))
    for chunk in one.seen:
        rows.add_row("", "in the window", escape(_name(chunk)))
    for number, chunk in enumerate(made.chunks, 1):
        last = made.why(chunk.id)[-1]
        rows.add_row("", "[green]enters[/]", escape(f"[{number}] {_name(chunk)}: {last.reason}"))
    dropped = [c for c in made.trace.candidates if c.dropped]
    # what is in the window first, then what got as far as the grader
    dropped.sort(key=lambda c: (c.chunk not in one.seen, c.notes[-1].stage != "grade"))
    for candidate in dropped[:_LEFT_OUT]:
        last = candidate.notes[-1]
        why = f"{_name(candidate.chunk)}: {last.stage}: {last.reason_with_numbers}"
        rows.add_row("", "[red]stays out[/]", escape(why))
    rest = Counter(c.notes[-1].stage.value for c in dropped[_LEFT_OUT:])
    others = ", ".join(f"{count} at {stage}" for stage, count in rest.most_common())
    rows.add_row("", "", f"{made.token_estimate} of {BUDGET} tokens; others left out: {others or 'none'}")  # fmt: skip
    console.print(rows)


def _name(chunk: Chunk) -> str:
    return f"{chunk.id} ({chunk.title.rpartition(' > ')[2]})" if chunk.title else chunk.id


def _print_loop(console: SafeConsole, loop: Resumed) -> None:
    (cut,) = loop.cuts
    console.print(f"\n[bold]On the way out.[/bold] A model is asked: {escape(LOOP_QUESTION)}")
    rows = Table.grid(padding=(0, 1))
    rows.add_row("", "would send", f"{len(STREAM):,} characters, one sentence of it over and over")
    rows.add_row("", "[red]stopped[/]", escape(f"after {loop.read_chars}: {cut.reason}"))
    rows.add_row("", "is told", escape(loop.asked))
    rows.add_row("", "[green]sent in all[/]", escape(loop.text))
    rows.add_row("", "", "Two copies of the sentence stay: only the second shows that it loops.")
    console.print(rows)


def _print_circle(console: SafeConsole, circle: Broken) -> None:
    console.print("\n[bold]Between the turns.[/bold] An agent makes the same two calls again and again.")  # fmt: skip
    rows = Table.grid(padding=(0, 1))
    for call in circle.calls[:2]:
        rows.add_row("", "calls", escape(call))
    at, note = circle.notes[0]
    rows.add_row("", "[red]is told[/]", escape(f"with the result in message {at}: {note}"))
    rows.add_row("", "", "After the eighth round the turn ends with a message to the person.")
    console.print(rows)


def _command() -> str:
    """How to call this program here: by its name if that is on the path, otherwise by its full path.

    A runner is told to take the clone, since the package is not on PyPI yet.
    """
    own = Path(sys.argv[0])
    if own.name != "millgate":
        return "millgate"
    parts = own.absolute().parts
    if "uv" in parts:
        return "uvx --from . millgate"
    if any("pipx" in part for part in parts):  # its folder may be named otherwise
        return "pipx run --spec . millgate"
    found = which("millgate")
    return "millgate" if found and Path(found) == own.absolute() else str(own)
