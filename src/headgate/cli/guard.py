"""`headgate guard`: a filter, stdin to stdout, that ends the stream when it loops.

    some-model | headgate guard > answer.txt

There is no model to ask again here, so a stall ends the output at a clean point: the reason goes to
stderr and the exit code is 3. What feeds the pipe is told by the closed pipe.
"""

import codecs
import sys
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import click
import orjson

from headgate.cli.transcript import check_transcript
from headgate.guard.plot import Profile, target
from headgate.guard.policy import CirclesPolicy
from headgate.guard.rollback import Session
from headgate.settings import load

LOOPED = 3  # exit code when the stream was ended


@click.command()
@click.option(
    "--plot", "where", help="Draw entropy and repetition: FILE.png or terminal (to stderr)."
)
@click.option("--json", "as_json", is_flag=True, help="Print text and report as one JSON object.")
@click.option(
    "--hold/--no-hold", default=None, help="Hold the tail back while a loop is suspected."
)
@click.option("--counting", type=click.Choice(["warn", "cut", "off"]))
@click.option(
    "--detector", type=click.Choice(["repeat", "entropy", "both"]), help="What finds a loop."
)
@click.option("--window", type=int, help="Characters in the window of the entropy rule.")
@click.option("--min-bits", type=float, help="Entropy below which that rule stalls.")
@click.option(
    "--max-drop", type=float, help="Fall of entropy over 8 characters at which it stalls."
)
@click.option("--divergence-token", help="With --json: what the next call injects.")
@click.option("--model", default="", help="Take what the settings say for this model.")
@click.option(
    "--transcript", type=click.Path(path_type=Path), help="Look for circles of tool calls in a recorded session."
)  # fmt: skip
def guard(
    where: str | None,
    as_json: bool,
    model: str,
    transcript: Path | None,
    **given: Any,  # noqa: ANN401  # by option
) -> None:
    """Pass stdin to stdout, and end it when it falls into a loop (exit code 3).

    What no option says is taken from the settings, as HEADGATE_GUARD__DETECTOR. With --json the call that would
    go on from the cut is printed too.
    """
    if transcript is not None:
        circles = check_transcript(transcript, CirclesPolicy(), as_json=as_json)
        sys.exit(LOOPED if circles else 0)
    draw = target(where) if where else None
    profile = Profile() if draw else None
    policy = load().guard.for_model(model).replace(_changes(**given))
    session = Session((), policy=policy)
    said: list[str] = []
    for text in _watch(session, profile):
        if as_json:
            said.append(text)
        else:
            click.echo(text, nl=False)
    looped = session.stalled
    _tell(session, said, as_json=as_json)
    if draw and profile:
        click.echo(draw(profile), nl=False, err=True)
    if looped:
        sys.exit(LOOPED)


def _changes(hold: bool | None, **given: Any) -> dict[str, Any]:  # noqa: ANN401  # by option
    """What the options change in the guard's policy."""
    rule = {name: given.pop(name) for name in ("window", "min_bits", "max_drop")}
    changes = {"hold_back": hold, "entropy": _set_only(rule) or None, **given}
    return _set_only(changes)


def _set_only(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _watch(session: Session, profile: Profile | None) -> Iterator[str]:
    """Yield the part of standard input that the guard lets through, up to a stall."""
    session.start()
    for text in _stdin():
        if profile:
            profile.feed(text)
        yield "".join(session.feed(text))
        if session.stalled:
            return
    yield "".join(session.end())


def _stdin() -> Iterator[str]:
    """Read standard input as it comes; bytes that are not UTF-8 become the replacement character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    source = cast(BufferedIOBase, sys.stdin.buffer)
    while data := source.read1(4096):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _tell(session: Session, said: list[str], *, as_json: bool) -> None:
    report = session.report
    if as_json:
        whole = {"text": "".join(said), "looped": session.stalled, **report.as_dict()}
        if session.stalled and session.policy.max_rollbacks:
            whole["next_messages"] = session.resume().messages
        click.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        return
    for warning in report.warnings:
        click.echo(f"\nwarning: {warning}", err=True)
    for cut in report.cuts:
        click.echo(f"\nloop at character {cut.onset}: {cut.reason}", err=True)
