"""`headgate demo`: a small collection, one question, the fate of every chunk, and a loop that is cut."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import orjson
from rich.table import Table

from headgate.cli.demo_service import serve_story
from headgate.cli.terminal import SafeConsole, echo
from headgate.explain.as_data import context_data
from headgate.gateway import Headgate
from headgate.guard import RepeatDetector
from headgate.types import Context

QUERY = "How long do refunds take, and what does the customer have to send?"
WINDOW = (
    "user: A customer wants her money back.",
    "tool: Refunds are paid within 14 days to the card that was charged.",
)
ROWS = (
    {"id": "policy", "title": "Refund policy",
     "text": "Refunds are paid within 14 days to the card that was charged."},
    {"id": "steps", "title": "How to ask for a refund",
     "text": "To get a refund the customer sends the order number and a photo of the parcel label."},
    {"id": "steps-copy", "title": "How to ask for a refund",
     "text": "To get a refund the customer sends the order number and a photo of the parcel label."},
    {"id": "limits", "title": "Refund limits",
     "text": "Refunds above 500 euros are checked by a second person, which takes two more days."},
    {"id": "gifts", "title": "Gift cards",
     "text": "Gift cards are not refunded in money; their value moves to a new card instead."},
    {"id": "access-log", "title": "refund service log",
     "text": "refund ok refund ok refund ok refund ok refund ok refund ok refund ok refund ok " * 6},
    {"id": "shipping", "title": "Shipping",
     "text": "Parcels leave the warehouse every weekday at noon and arrive within three days."},
)  # fmt: skip
STREAM = (
    "The refund is on its way, and the customer has been told when to expect it. Please check the order number, "
    + "then check the label, " * 40
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@click.option(
    "--serve", "serves", is_flag=True, help="Serve the dashboard with a small story in it."
)
@click.option("--port", type=int, default=0, help="Port for --serve (default: a free one).")
@click.option(
    "--open", "opens", is_flag=True, help="With --serve, open the dashboard in a browser."
)
def demo(as_json: bool, serves: bool, port: int, opens: bool) -> None:
    """Show Headgate at work on a small collection: kept, dropped, and why."""
    if serves:
        serve_story(port=port, opens=opens)
        return
    with Headgate.open(":memory:") as hg:
        hg.add(ROWS)
        context = hg.context(QUERY, window=list(WINDOW), budget=150)
    loop = list(_find_loop(STREAM))
    if as_json:
        data = {"context": context_data(context, debug=True), "loop": dict(loop)}
        echo(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())
        return
    console = SafeConsole(highlight=False)
    console.print(f"[bold]Question[/bold]  {QUERY}")
    console.print(f"[bold]In the window already[/bold]  {WINDOW[1].removeprefix('tool: ')}\n")
    console.print(_fates(context))
    console.print(f"\n[bold]What the model gets[/bold]  {context.token_estimate} of 150 tokens")
    console.print(context.text, markup=False)
    said = dict(loop)
    console.print(
        f"\n[bold]On the way out[/bold]  a stream of {len(STREAM)} characters falls into a loop of "
        f"{said['period']} characters;\nthe guard stops it at {said['position']} and cuts it back to {said['onset']}."
    )
    me = sys.argv[0] if Path(sys.argv[0]).name == "headgate" else "headgate"
    console.print(
        f"\nNext: {me} add YOUR_FOLDER && {me} context 'YOUR QUESTION' --explain", soft_wrap=True
    )


def _fates(context: Context) -> Table:
    table = Table("", "chunk", "score", "decided by", "why", box=None, header_style="bold")
    for candidate in context.trace.candidates:
        last = candidate.notes[-1]
        mark = "[red]drop[/red]" if candidate.dropped else "[green]keep[/green]"
        table.add_row(mark, candidate.chunk.id, f"{last.score:.3f}", last.stage, last.reason)
    return table


def _find_loop(stream: str) -> Iterator[tuple[str, int]]:
    """Where the detector stops the stream, fed a few characters at a time as a model would send them."""
    detector = RepeatDetector()
    for at in range(0, len(stream), 5):
        stall = detector.feed(stream[at : at + 5])
        if stall:
            yield from (
                ("position", stall.position),
                ("onset", stall.onset),
                ("period", stall.period),
            )
            return
