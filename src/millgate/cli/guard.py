"""`millgate guard`: a filter, stdin to stdout, that ends the stream when it loops.

    some-model | millgate guard > answer.txt

There is no model to ask again here, so a stall ends the output at a clean point: the reason goes to stderr and the exit
code is 3. The program that writes into the pipe learns of it when the pipe is closed.
"""

import codecs
import sys
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any, cast

import click

from millgate.cli.options import json_option
from millgate.cli.terminal import print_json
from millgate.guard.machine import StreamMachine
from millgate.settings import load

RULE = ("window", "min_bits", "max_drop", "span", "warm_up")  # options of the entropy rule
LOOPED = 3  # exit code if the guard ended the stream: 1 and 2 mean other things


@click.command(epilog="Example: some-model | millgate guard --hold > answer.txt")
@json_option
@click.option(
    "--hold/--no-hold", "hold_back", default=None, help="Hold the tail back while a loop is suspected."
)  # fmt: skip
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
def guard(
    as_json: bool,
    model: str,
    **given: Any,  # noqa: ANN401  # by option
) -> None:
    """Pass stdin to stdout, and end it when it falls into a loop (exit code 3).

    Options that are not given come from the settings, as MILLGATE_GUARD__DETECTOR. --json prints the text and a report
    as one object, with the messages of the call that would go on after the cut.
    """
    changes = {name: value for name, value in given.items() if value is not None}
    rule = {name: changes.pop(name) for name in RULE if name in changes}
    policy = load().guard.for_model(model).replace(changes | ({"entropy": rule} if rule else {}))
    machine = StreamMachine((), policy=policy)
    passed: list[str] = []
    # a pipe passes on the bytes that it gets; JSON holds no bytes that are not UTF-8
    for text in _watch(machine, "replace" if as_json else "surrogateescape"):
        if as_json:
            passed.append(text)
        else:
            click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
    _print_report(machine, passed, as_json=as_json)
    if machine.stalled:
        sys.exit(LOOPED)


def _print_report(machine: StreamMachine, passed: list[str], *, as_json: bool) -> None:
    report = machine.report
    if as_json:
        whole = {"text": "".join(passed), "looped": machine.stalled, **report.as_dict()}
        if machine.stalled and machine.policy.max_rollbacks:
            whole["next_messages"] = machine.resume().messages
        print_json(whole)
    else:
        for warning in report.warnings:
            click.echo(f"\nwarning: {warning}", err=True)
        for cut in report.cuts:
            click.echo(f"\nloop at character {cut.onset}: {cut.reason}", err=True)


def _watch(machine: StreamMachine, errors: str) -> Iterator[str]:
    """What the guard lets through of standard input as it comes; `errors`: what becomes of bytes that are not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    source = cast(BufferedIOBase, sys.stdin.buffer)
    machine.start()
    data = b"more"
    while data:
        data = source.read1(4096)
        yield "".join(machine.feed(decoder.decode(data, final=not data)))
        if machine.stalled:
            return
    yield "".join(machine.end())
