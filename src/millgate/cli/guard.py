"""`millgate guard`: a filter, stdin to stdout, that ends the stream when it loops.

    some-model | millgate guard > answer.txt

There is no model to ask again here, so a stall ends the output at a clean point: the reason goes to stderr and the exit
code is 3. The program that writes into the pipe learns of it when the pipe is closed. With --transcript the command
finds circles of tool calls in recorded sessions instead.
"""

import codecs
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import click

from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import Mark, find_steps
from millgate.cli.options import json_option, print_json
from millgate.cli.terminal import echo
from millgate.errors import NotFound
from millgate.guard.machine import StreamMachine
from millgate.sessions.xray.files import read_conversations
from millgate.settings import load
from millgate.text.table import count_of

RULE = ("window", "min_bits", "max_drop", "span", "warm_up")  # options of the entropy rule
LOOPED = 3  # exit code if the guard ended the stream: 1 and 2 mean other things


@click.command(epilog="Example: some-model | millgate guard --hold > answer.txt")
@json_option
@click.option(
    "--hold/--no-hold", default=None, help="Hold the tail back while a loop is suspected."
)
@click.option(
    "--counting",
    type=click.Choice(["warn", "cut", "off"]),
    help="What to do about a loop that only counts up.",
)
@click.option(
    "--detector", type=click.Choice(["repeat", "entropy", "both"]), help="What finds a loop."
)
@click.option("--window", type=int, help="Characters in the window of the entropy rule.")
@click.option("--min-bits", type=float, help="Entropy below which that rule ends the stream.")
@click.option(
    "--max-drop", type=float, help="Fall of entropy within --span at which it ends the stream."
)
@click.option("--span", type=int, help="Characters over which that fall is measured.")
@click.option("--warm-up", type=int, help="Characters before the first verdict of that rule.")
@click.option("--divergence-token", help="With --json: the text that the next call injects.")
@click.option("--model", default="", help="Use the settings of this model.")
@click.option(
    "--transcript", type=click.Path(path_type=Path), help="Find circles of tool calls in the recorded sessions of this file."
)  # fmt: skip
def guard(
    as_json: bool,
    model: str,
    transcript: Path | None,
    **given: Any,  # noqa: ANN401  # by option
) -> None:
    """Pass stdin to stdout, and end it when it falls into a loop (exit code 3).

    Options that are not given come from the settings, as MILLGATE_GUARD__DETECTOR. --json prints the text and a report
    as one object, with the messages of the call that would go on after the cut.
    """
    if transcript is not None:
        circles = _check_transcript(transcript, CirclesPolicy(), as_json=as_json)
        sys.exit(LOOPED if circles else 0)
    policy = load().guard.for_model(model).replace(_policy_changes(**given))
    machine = StreamMachine((), policy=policy)
    passed: list[str] = []
    # a pipe passes on the bytes that it gets; JSON holds no bytes that are not UTF-8
    texts = _stdin("replace" if as_json else "surrogateescape")
    for text in _watch(machine, texts):
        if as_json:
            passed.append(text)
        else:
            click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
    looped = machine.stalled
    _print_report(machine, passed, as_json=as_json)
    if looped:
        sys.exit(LOOPED)


def _policy_changes(hold: bool | None, **given: Any) -> dict[str, Any]:  # noqa: ANN401  # by option
    """Turn the options that were given into changes of the guard's policy."""
    rule = {name: given.pop(name) for name in RULE}
    changes = {"hold_back": hold, "entropy": _set_only(rule) or None, **given}
    return _set_only(changes)


def _set_only(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _watch(machine: StreamMachine, texts: Iterable[str]) -> Iterator[str]:
    """Yield the part of some text that the guard lets through, up to a stall."""
    machine.start()
    for text in texts:
        yield "".join(machine.feed(text))
        if machine.stalled:
            return
    yield "".join(machine.end())


def _stdin(errors: str) -> Iterator[str]:
    """Read standard input as it comes; `errors` says what becomes of bytes that are not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    source = cast(BufferedIOBase, sys.stdin.buffer)
    while data := source.read1(4096):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _print_report(machine: StreamMachine, passed: list[str], *, as_json: bool) -> None:
    report = machine.report
    if as_json:
        whole = {"text": "".join(passed), "looped": machine.stalled, **report.as_dict()}
        if machine.stalled and machine.policy.max_rollbacks:
            whole["next_messages"] = machine.resume().messages
        print_json(whole)
        return
    for warning in report.warnings:
        click.echo(f"\nwarning: {warning}", err=True)
    for cut in report.cuts:
        click.echo(f"\nloop at character {cut.onset}: {cut.reason}", err=True)


def _check_transcript(path: Path, policy: CirclesPolicy, *, as_json: bool) -> bool:
    """Print the circles of tool calls in recorded sessions; return whether there were any."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="millgate guard --transcript FILE")
    conversations, skipped = read_conversations(path)
    found = {
        name: find_steps(one.messages, policy, continues=one.continues)
        for name, one in conversations.items()
    }
    circles = sum(len(reached.marks) for reached in found.values())
    if as_json:
        print_json(
            {
                "sessions": [
                    {
                        "session": name,
                        "messages": len(conversations[name].messages),
                        "circles": [_row(mark) for mark in reached.marks],
                        "ended": reached.ended is not None,
                    }
                    for name, reached in found.items()
                ],
                "skipped": skipped,
            }
        )
        return circles > 0
    for name, reached in found.items():
        for mark in reached.marks:
            echo(f"{name} message {mark.at}: {mark.step}: {mark.circle.describe()}")
    messages = sum(len(one.messages) for one in conversations.values())
    echo(
        f"{count_of(circles, 'rung')} reached in {count_of(len(found), 'session')}, {count_of(messages, 'message')}; {count_of(skipped, 'line')} skipped",
        err=True,
    )
    return circles > 0


def _row(mark: Mark) -> dict[str, Any]:
    circle = mark.circle
    return {
        "message": mark.at, "rung": mark.step, "period": circle.period, "copies": circle.copies, "first": circle.first,
        "last": circle.last, "what": circle.describe(), "tried": circle.tried,
    }  # fmt: skip
