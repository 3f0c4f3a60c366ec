"""`millgate eval retrieval`: does the evidence arrive, in how many tokens, and is the rest refused?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.progress import Progress

from millgate.cli.console import SafeConsole
from millgate.cli.options import print_json
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.evaluate import fit as fitting
from millgate.evaluate import labeled
from millgate.evaluate import retrieval as measure
from millgate.evaluate.labeled import Labeled
from millgate.evaluate.retrieval import Figures, Run, Tick
from millgate.evaluate.stored_set import Settings, StoredSet
from millgate.text.table import table

# the columns of a budget: heading, and the name of the figure; `bm25_` is the baseline's
_BUDGET_COLUMNS = {
    "evidence: BM25": "bm25_context_evidence",
    "published": "published_context_evidence",
    "random": "random_context_evidence",
    "ours": "context_evidence",
    "whole": "whole_evidence",
    "answers: BM25": "bm25_answers",
    "ours ": "answers",
    "in parts": "part_answers",
    "tokens: BM25": "bm25_tokens",
    "ours  ": "tokens",
    "empty": "empty",
}
_SET_COLUMNS = {
    "nDCG@10: BM25": "bm25_ndcg@10",
    "ours": "ndcg@10",
    "stopped": "stopped",
    "unanswerable stopped": "unanswerable_stopped",
    "calibration error": "calibration_error",
    "CPU ms p50": "p50_ms",
    "p95": "p95_ms",
}


@click.command(epilog="Example: millgate eval retrieval DIR --budget 1000 --sample 60")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--embedder",
    default="none",
    help="none, static, minilm, a folder or OWNER/NAME; `settings` takes the one that the settings name.",
)
@click.option(
    "--budget",
    "budgets",
    type=click.IntRange(1),
    multiple=True,
    help="Tokens of a context; repeat for more.",
)
@click.option("--sample", "--questions", type=click.IntRange(1), help="Most questions of a set.")
@click.option(
    "--foreign",
    type=click.IntRange(0),
    default=measure.FOREIGN,
    show_default=True,
    help="Number of questions from other sets that each set is asked.",
)
@click.option(
    "--misses", is_flag=True, help="Also list passages that were not among the first ten."
)
@click.option(
    "--leave-one-out",
    "held_out",
    is_flag=True,
    help="Measure each set with weights of the model of relevance that were fitted on the others.",
)
@click.option(
    "--published",
    is_flag=True,
    help="Also measure the published gating pipeline, and a random order of its candidates.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def retrieval(
    folders: tuple[Path, ...],
    embedder: str,
    budgets: tuple[int, ...],
    sample: int | None,
    foreign: int,
    misses: bool,
    held_out: bool,
    published: bool,
    as_json: bool,
) -> None:
    """Measure retrieval on labeled questions, beside plain BM25.

    Each of FOLDERS is a set (corpus.jsonl, queries.jsonl, qrels.tsv), or holds sets.
    """
    sets = [labeled.sample(one, sample) for folder in folders for one in labeled.sets(folder)]
    runs, found = _evaluate(
        sets, embedder, budgets or measure.BUDGETS, foreign, held_out=held_out, published=published
    )
    if not misses:
        found = {name: {k: v for k, v in f.items() if k != "misses"} for name, f in found.items()}
    if as_json:
        alone = len(found) == 1 and (folders[0] / "corpus.jsonl").is_file()
        rest = {**measure.mean(found), "reliability": measure.reliability(runs)}
        print_json(next(iter(found.values())) if alone else {"sets": found, **rest})
    else:
        _print_figures(found)
        _print_reliability(measure.reliability(runs))
        for figures in found.values():
            _print_misses(figures.get("misses", ()))


# Measuring, with a bar on a terminal


def _evaluate(
    sets: Sequence[Labeled],
    embedder: str,
    budgets: Sequence[int],
    foreign: int,
    *,
    held_out: bool,
    published: bool,
) -> tuple[list[Run], dict[str, Figures]]:
    """Each set as it was measured, and its figures, judged by a grader fitted on the others if that is asked for."""
    with TemporaryDirectory(prefix="millgate-eval-") as folder:
        weights = _fit_without_each(sets, embedder, foreign, Path(folder)) if held_out else {}
        runs = [
            measure.evaluate(
                stored,
                settings=weights.get(stored.labeled.name),
                budgets=budgets,
                others=sets,
                most_foreign=foreign,
                published=published,
                tick=tick,
            )
            for stored, tick in _store_each(sets, embedder, foreign)
        ]
    return runs, {run.labeled.name: run.figures() for run in runs}


def _fit_without_each(
    sets: Sequence[Labeled], embedder: str, foreign: int, folder: Path
) -> dict[str, Settings]:
    """For each set the settings that name weights fitted on the others; their files are in the folder."""
    if len(sets) < fitting.MIN_SETS:
        raise InputError(
            f"--leave-one-out fits on the other sets, and there are {len(sets) - 1}",
            hint=f"give at least {fitting.MIN_SETS} sets",
        )
    asked: list[fitting.Asked] = []
    for stored, tick in _store_each(sets, embedder, foreign):
        asked += fitting.observe(stored, sets, most_foreign=foreign, tick=tick)
    found: dict[str, Settings] = {}
    for number, one in enumerate(sets):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(fitting.as_data(fitting.fit_without(one.name, asked))))
        found[one.name] = {"grade": {"weights": str(file)}}
    return found


def _store_each(
    sets: Sequence[Labeled], embedder: str, foreign: int
) -> Iterator[tuple[StoredSet, Tick]]:
    """Each set in a store, and a function that moves its bar."""
    with Progress(console=SafeConsole(stderr=True), transient=True) as progress:
        for one in sets:
            apart = measure.foreign(one, sets, foreign)
            asked = len(one.queries) + len(apart) + len(one.unanswerable)
            task = progress.add_task(one.name, total=asked)
            with StoredSet(one, embedder) as stored:
                yield stored, partial(progress.advance, task)
            progress.update(task, completed=asked)


# Printing


def _print_figures(found: Mapping[str, Figures]) -> None:
    """Print a table for each budget and one for the rest: a line for each set, their mean, and its 95 % interval."""
    overall = measure.mean(found)
    mean, intervals = overall["mean"], overall["intervals"]
    rows = {name: measure.with_baselines(figures) for name, figures in found.items()}
    if len(rows) > 1:
        rows["mean"] = mean
    spans = intervals if len(rows) > 1 else next(iter(found.values()))["intervals"]
    for budget in [name.partition("@")[2] for name in mean if name.startswith("tokens@")]:
        columns = {head: f"{name}@{budget}" for head, name in _BUDGET_COLUMNS.items()}
        _print_table(f"at {budget} tokens", columns, rows, spans)
    _print_table("", _SET_COLUMNS, rows, spans)


def _print_table(
    title: str,
    columns: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    spans: Mapping[str, tuple[float, float]],
) -> None:
    """Print the columns that some row has a figure for; `spans` are the intervals of the last row."""
    shown = {
        head: name
        for head, name in columns.items()
        if any(name in figures for figures in rows.values())
    }
    lines = [[title, *shown]]
    for label, figures in rows.items():
        lines.append([label, *(_number(name, figures.get(name)) for name in shown.values())])
    intervals = [
        "-".join(_number(name, end) for end in spans.get(name, ())) for name in shown.values()
    ]
    echo(table([*lines, ["95 %", *intervals]]) + "\n")


def _number(name: str, value: float | None) -> str:
    """A figure with the digits that it deserves."""
    if value is None:
        return ""
    if name.partition("@")[0].endswith("tokens"):
        return f"{value:.0f}"
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:.3f}"


def _print_reliability(found: Figures) -> None:
    """Print what the confidences say beside what is true."""
    if not found["bands"]:
        return
    error = found["calibration_error"]
    echo(f"calibration error over all pairs, each set weighing the same: {error:.3f}")
    lines = [["confidence", "said", "evidence", "share of pairs", "pairs"]]
    for band in found["bands"]:
        figures = [f"{band[name]:.3f}" for name in ("said", "true", "share")]
        lines.append([f"{band['low']:.1f}-{band['high']:.1f}", *figures, str(band["pairs"])])
    echo(table(lines))


def _print_misses(misses: Sequence[Figures]) -> None:
    for miss in misses:
        places = ", ".join(f"{d} ({p or 'not found'})" for d, p in miss["missed"].items())
        echo(f"{miss['query']}: {miss['text']}\n  missed {places}")
