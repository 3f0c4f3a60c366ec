"""`headgate eval`: measure Headgate on labeled data. One subcommand a part."""

from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from headgate.evaluate.guard import evaluate, read


@click.group(name="eval")
def evaluation() -> None:
    """Measure Headgate on labeled data."""


@evaluation.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def guard(file: Path, as_json: bool) -> None:
    """The loop detector on labeled streams: FILE is .jsonl or .jsonl.gz."""
    _print(evaluate(read(file)), as_json, f"guard on {file.name}")


def _print(figures: dict[str, float], as_json: bool, title: str) -> None:
    if as_json:
        click.echo(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
        return
    table = Table("figure", "value", title=title)
    for name, value in figures.items():
        table.add_row(name, f"{value:g}")
    Console().print(table)
