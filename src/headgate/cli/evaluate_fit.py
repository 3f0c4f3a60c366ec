"""`headgate eval fit`: fit the model of relevance on labeled questions."""

import json
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.progress import Progress

from headgate.cli.console import SafeConsole
from headgate.cli.options import print_json
from headgate.cli.terminal import echo
from headgate.errors import InputError
from headgate.evaluate import fit as fitting
from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.stored_set import StoredSet
from headgate.relevance.model import Model, read_model
from headgate.text.table import table


@click.command(name="fit", epilog="Example: headgate eval fit DIR --out weights.json")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--questions",
    type=click.IntRange(1),
    default=fitting.QUESTIONS,
    show_default=True,
    help="Most questions of a set.",
)
@click.option(
    "--foreign",
    type=click.IntRange(0),
    default=fitting.FOREIGN,
    show_default=True,
    help="Questions of the other sets that are asked in a set.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the weights to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the weights as one JSON object.")
def fit(
    folders: tuple[Path, ...], questions: int, foreign: int, out: Path | None, as_json: bool
) -> None:
    """Fit the model of relevance on labeled sets, and judge each set by weights fitted without it.

    A folder is a labeled set (corpus.jsonl, queries.jsonl, qrels.tsv) or holds several. Set `grade.weights` to the file
    that --out writes, and compare before and after with `headgate eval retrieval`.
    """
    every = [sample(one, questions) for folder in folders for one in sets(folder)]
    console = SafeConsole(stderr=True)
    asked: list[fitting.Asked] = []
    with Progress(console=console, transient=True, disable=as_json or not console.is_terminal) as bar:  # fmt: skip
        for one in bar.track(every, description="asking"):
            with StoredSet(one) as stored:
                asked += fitting.observe(stored, every, most_foreign=foreign)
    if not any(one.answerable and one.labeled.any() for one in asked):
        raise InputError("no labeled passage was found, so there is nothing to fit")
    names = [one.name for one in every]
    model, held_out = fitting.fit_sets(asked, names)
    data = fitting.as_data(
        model,
        fitted=datetime.now(UTC).date().isoformat(),
        sets=names,
        held_out=fitting.figures(held_out) if held_out else {},
    )
    if out is not None:
        _write(out, json.dumps(data, indent=2) + "\n")
    if as_json:
        print_json(data)
        return
    echo(_weights(model))
    if held_out:
        rows = [("set, left out", "empty", "stopped")]
        rows += [(n, f"{one.empty:.3f}", f"{one.stopped:.3f}") for n, one in held_out.items()]
        echo("\n" + table(rows))
        echo(
            "\nmean: " + ", ".join(f"{name} {value:g}" for name, value in data["held_out"].items())
        )
    else:
        echo(
            f"\nwith {fitting.MIN_SETS} sets or more, each is also judged by weights fitted without it"
        )
    if out is not None:
        echo(f"\nwritten to {out}; to use them: HEADGATE_GRADE__WEIGHTS={out}")


def _weights(model: Model) -> str:
    """The weights beside the shipped ones."""
    shipped = read_model()
    rows = [("step", "feature", "weight", "shipped")]
    for step in ("share", "holds", "knows"):
        before = getattr(shipped, step)
        rows += [
            (step, name, f"{weight:.2f}", f"{before[name]:.2f}")
            for name, weight in getattr(model, step).items()
        ]
    return f"{table(rows)}\n\nlower {model.lower:.3f} (shipped {shipped.lower:.3f})"


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}", hint="check its path") from error  # fmt: skip
