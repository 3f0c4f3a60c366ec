"""`millgate eval fit`: fit the model of relevance on labeled questions."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.progress import Progress

from millgate.cli.console import SafeConsole
from millgate.cli.options import open_existing, place_options, print_json, write_text
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.evaluate import fit as fitting
from millgate.evaluate import judgments
from millgate.evaluate.labeled import sample, sets
from millgate.evaluate.stored_set import StoredSet
from millgate.ranking.model import Model, read_model
from millgate.text.table import count_of, table


@click.command(name="fit", epilog="Example: millgate eval fit DIR --out weights.json")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--from-feedback",
    is_flag=True,
    help="Fit on judgments: test files as PATHS, and the store's decided reviews.",
)
@place_options
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
    paths: tuple[Path, ...],
    from_feedback: bool,
    store: str | None,
    tenant: str | None,
    questions: int,
    foreign: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fit the model of relevance on labeled sets, and judge each set by weights fitted without it.

    Each of PATHS is a labeled set (corpus.jsonl, queries.jsonl, qrels.tsv) or holds several. Set `grade.weights` to the
    file that --out writes, and compare before and after with `millgate eval retrieval`.

    With --from-feedback the labels are your own, in the store that you use: the questions of test files (`millgate
    test`), and the reviews that were approved or rejected. Contexts are compared before and after; each question is
    judged by weights fitted without it.
    """
    if from_feedback:
        _fit_from_feedback(paths, store, tenant, out, as_json=as_json)
        return
    if not paths:
        raise InputError("there is no labeled set", hint="name its folder, or give --from-feedback")
    every = [sample(one, questions) for folder in paths for one in sets(folder)]
    asked: list[fitting.Asked] = []
    with _bar(as_json=as_json) as bar:
        for one in bar.track(every, description="asking"):
            with StoredSet(one) as stored:
                asked += fitting.observe(stored, every, most_foreign=foreign)
    _require_labels(asked)
    names = [one.name for one in every]
    model, held_out = fitting.fit_sets(asked, names)
    figures = fitting.figures(held_out) if held_out else {}
    data = _save(model, out, sets=names, held_out=figures)
    if as_json:
        print_json(data)
        return
    echo(_weights(model, read_model()))
    if held_out:
        rows = [("set, left out", "empty", "stopped")]
        rows += [(n, f"{one.empty:.3f}", f"{one.stopped:.3f}") for n, one in held_out.items()]
        echo("\n" + table(rows))
        echo("\nmean: " + ", ".join(f"{name} {value:g}" for name, value in figures.items()))
    else:
        echo(
            f"\nwith {fitting.MIN_SETS} sets or more, each is also judged by weights fitted without it"
        )
    _say_written(out)


def _fit_from_feedback(
    files: tuple[Path, ...],
    store: str | None,
    tenant: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Fit on judgments of the store's own questions, and print contexts before and after."""
    with open_existing(store, tenant) as gate, TemporaryDirectory(prefix="millgate-fit-") as folder:
        found = judgments.read_judgments(gate, files)
        start = read_model(gate.settings.grade.weights)
        asked = [one for judgment in found for one in judgments.observe_judged(gate, judgment)]
        _require_labels(asked)
        with _bar(as_json=as_json) as bar:
            task = bar.add_task("asking", total=len(found))
            before, after = judgments.compare(
                gate, found, start=start, folder=Path(folder), tick=partial(bar.advance, task)
            )
        model = fitting.fit(asked, start=start)
    compared = {"before": asdict(before), "after": asdict(after)}
    data = _save(model, out, sets=[judgments.OWN], questions=len(found), held_out=compared)
    if as_json:
        print_json(data)
        return
    right = sum(bool(one.right) for one in found)
    echo(
        f"{count_of(right, 'question')} with chunks that are right, {len(found) - right} rejected\n"
    )
    echo(_weights(model, start, "before"))
    rows = [("contexts", "before", "after")]
    for name, was in compared["before"].items():
        now = compared["after"][name]
        if was is not None:
            digits = 0 if name == "tokens" else 3
            rows.append((name, f"{was:.{digits}f}", f"{now:.{digits}f}"))
    echo(f"\n{table(rows)}")
    _say_written(out)


def _bar(*, as_json: bool) -> Progress:
    console = SafeConsole(stderr=True)
    return Progress(console=console, transient=True, disable=as_json or not console.is_terminal)


def _require_labels(asked: list[fitting.Asked]) -> None:
    if not any(one.answerable and one.labeled.any() for one in asked):
        raise InputError("no labeled passage was found, so there is nothing to fit")


def _save(model: Model, out: Path | None, **about: object) -> dict[str, Any]:
    """The weights as data, written to the file if there is one."""
    data = fitting.as_data(model, fitted=datetime.now(UTC).date().isoformat(), **about)
    if out is not None:
        write_text(out, json.dumps(data, indent=2) + "\n")
    return data


def _say_written(out: Path | None) -> None:
    if out is not None:
        echo(f"\nwritten to {out}; to use them: MILLGATE_GRADE__WEIGHTS={out}")


def _weights(model: Model, former: Model, head: str = "shipped") -> str:
    """The weights beside the former ones."""
    rows = [("step", "feature", "weight", head)]
    for step in ("share", "holds", "knows"):
        before = getattr(former, step)
        rows += [
            (step, name, f"{weight:.2f}", f"{before[name]:.2f}")
            for name, weight in getattr(model, step).items()
        ]
    return f"{table(rows)}\n\nlower {model.lower:.3f} ({head} {former.lower:.3f})"
