"""`headgate guard`: a filter, stdin to stdout, that ends the stream when it loops.

    some-model | headgate guard > answer.txt

There is no model to ask again here, so a stall ends the output at a clean point: the reason goes to
stderr and the exit code is 3. What feeds the pipe is told by the closed pipe.
"""

import codecs
import sys
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import click
import orjson

from headgate.cli.transcript import check_transcript
from headgate.guard.ladder import CirclesPolicy
from headgate.guard.plot import Profile, target
from headgate.guard.policy import GuardPolicy
from headgate.guard.rollback import Session

LOOPED = 3  # exit code when the stream was ended


@click.command()
@click.option(
    "--plot", "where", help="Draw entropy and repetition: FILE.png or terminal (to stderr)."
)
@click.option("--json", "as_json", is_flag=True, help="Print text and report as one JSON object.")
@click.option(
    "--hold/--no-hold", default=True, help="Hold the tail back while a loop is suspected."
)
@click.option(
    "--counting", type=click.Choice(["warn", "cut", "off"]), default="warn", show_default=True
)
@click.option(
    "--transcript", type=click.Path(path_type=Path), help="Look for circles of tool calls in a recorded session."
)  # fmt: skip
def guard(
    where: str | None, as_json: bool, hold: bool, counting: str, transcript: Path | None
) -> None:
    """Pass stdin to stdout, and end it when it falls into a loop (exit code 3)."""
    if transcript is not None:
        circles = check_transcript(transcript, CirclesPolicy(), as_json=as_json)
        sys.exit(LOOPED if circles else 0)
    draw = target(where) if where else None
    profile = Profile() if draw else None
    policy = GuardPolicy.model_validate({"hold_back": hold, "counting": counting})
    session = Session((), policy=policy)
    said: list[str] = []
    for text in _watched(session, profile):
        if as_json:
            said.append(text)
        else:
            click.echo(text, nl=False)
    _tell(session, said, as_json=as_json)
    if draw and profile:
        click.echo(draw(profile), nl=False, err=True)
    if session.stalled:
        sys.exit(LOOPED)


def _watched(session: Session, profile: Profile | None) -> Iterator[str]:
    """What of stdin may go on."""
    session.start()
    for text in _stdin():
        if profile:
            profile.feed(text)
        yield "".join(session.feed(text))
        if session.stalled:
            return
    yield "".join(session.end())


def _stdin() -> Iterator[str]:
    """Stdin as it comes; bytes that are no UTF-8 become the replacement character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    source = cast(BufferedIOBase, sys.stdin.buffer)
    while data := source.read1(4096):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _tell(session: Session, said: list[str], *, as_json: bool) -> None:
    report = session.report
    if as_json:
        whole = {"text": "".join(said), "looped": session.stalled, **report.as_dict()}
        click.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        return
    for warning in report.warnings:
        click.echo(f"\nwarning: {warning}", err=True)
    for cut in report.cuts:
        click.echo(f"\nloop at character {cut.onset}: {cut.reason}", err=True)
