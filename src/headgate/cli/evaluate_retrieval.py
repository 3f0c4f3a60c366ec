"""`headgate eval retrieval`: does the evidence arrive, in how many tokens, and is the rest refused?"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from headgate.cli.console import SafeConsole
from headgate.cli.options import print_json
from headgate.cli.terminal import echo
from headgate.errors import InputError
from headgate.evaluate import labeled
from headgate.evaluate import retrieval as measure
from headgate.evaluate.labeled import Labeled
from headgate.evaluate.retrieval import Figures, Run
from headgate.text.table import table

MIN_SETS = 4  # sets below which a grader cannot be fitted without one of them
# the columns of a budget: heading, and the name of the figure; `bm25_` is the baseline's
_BUDGET_COLUMNS = {
    "evidence: BM25": "bm25_context_evidence",
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


@click.command(epilog="Example: headgate eval retrieval DIR --budget 1000 --sample 60")
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
    "--leave-one-out", is_flag=True, help="Judge each set by a grader fitted on the others."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def retrieval(
    folders: tuple[Path, ...],
    embedder: str,
    budgets: tuple[int, ...],
    sample: int | None,
    foreign: int,
    misses: bool,
    leave_one_out: bool,
    as_json: bool,
) -> None:
    """Measure retrieval on labeled questions, beside plain BM25.

    Each of FOLDERS is a set (corpus.jsonl, queries.jsonl, qrels.tsv), or holds sets.
    """
    sets = [labeled.sample(one, sample) for folder in folders for one in labeled.sets(folder)]
    if leave_one_out and len(sets) < MIN_SETS:
        raise InputError(
            f"--leave-one-out fits on the other sets, and there are {len(sets) - 1}",
            hint=f"give at least {MIN_SETS} sets",
        )
    runs = _measure(
        sets,
        embedder=embedder,
        budgets=budgets or measure.BUDGETS,
        most_foreign=foreign,
        to_fit=leave_one_out,
    )
    found = (
        measure.leave_one_out(runs)
        if leave_one_out
        else {run.labeled.name: run.figures() for run in runs}
    )
    if not misses:
        found = {name: {k: v for k, v in f.items() if k != "misses"} for name, f in found.items()}
    if as_json:
        alone = len(found) == 1 and (folders[0] / "corpus.jsonl").is_file()
        rest = {**measure.mean(found), "reliability": measure.reliability(runs)}
        print_json(next(iter(found.values())) if alone else {"sets": found, **rest})
        return
    _print_figures(found)
    _print_reliability(measure.reliability(runs))
    for figures in found.values():
        _print_misses(figures.get("misses", ()))


def _measure(sets: Sequence[Labeled], *, most_foreign: int, **how: Any) -> list[Run]:  # noqa: ANN401
    """Measure each set, with a bar on a terminal."""
    runs = []
    with Progress(console=SafeConsole(stderr=True), transient=True) as progress:
        for one in sets:
            apart = measure.foreign(one, sets, most_foreign)
            asked = len(one.queries) + len(apart) + len(one.unanswerable)
            tick = partial(progress.advance, progress.add_task(one.name, total=asked))
            runs.append(
                measure.evaluate(one, others=sets, most_foreign=most_foreign, tick=tick, **how)
            )
    return runs


def _print_figures(found: Mapping[str, Figures]) -> None:
    """Print a table for each budget and one for the rest: a line for each set, their mean, and its 95 % interval."""
    overall = measure.mean(found)
    mean, intervals = overall["mean"], overall["intervals"]
    rows = {name: _with_baseline(figures) for name, figures in found.items()}
    if len(rows) > 1:
        rows["mean"] = mean
    spans = intervals if len(rows) > 1 else next(iter(found.values()))["intervals"]
    for budget in [name.partition("@")[2] for name in mean if name.startswith("tokens@")]:
        columns = {head: f"{name}@{budget}" for head, name in _BUDGET_COLUMNS.items()}
        _print_table(f"at {budget} tokens", columns, rows, spans)
    _print_table("", _SET_COLUMNS, rows, spans)


def _with_baseline(figures: Figures) -> Figures:
    """The figures of a set, those of BM25 beside ours."""
    return figures | {f"bm25_{k}": v for k, v in figures["baselines"]["bm25"].items()}


def _print_table(
    title: str,
    columns: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    spans: Mapping[str, tuple[float, float]],
) -> None:
    """Print the columns that some row has a figure for; `spans` are the intervals of the last row."""
    kept = {head: name for head, name in columns.items() if any(name in row for row in rows.values())}  # fmt: skip
    lines = [[title, *kept]]
    for label, row in rows.items():
        lines.append([label, *(_number(name, row.get(name)) for name in kept.values())])
    intervals = [spans.get(name) for name in kept.values()]
    shown = [
        "-".join(_number(name, end) for end in span) if span else ""
        for name, span in zip(kept.values(), intervals, strict=True)
    ]
    lines.append(["95 %", *shown])
    echo(table(lines) + "\n")


def _number(name: str, value: float | None) -> str:
    """A figure with the digits that it deserves."""
    if value is None:
        return ""
    if "tokens@" in name:
        return f"{value:.0f}"
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:.3f}"


def _print_reliability(found: Figures) -> None:
    """Print what the confidences say beside what is true."""
    if not found["bands"]:
        return
    echo(f"calibration error over all pairs, each set weighing the same: {found['calibration_error']:.3f}")  # fmt: skip
    rows = [
        (f"{b['low']:.1f}-{b['high']:.1f}", *(f"{b[name]:.3f}" for name in ("said", "true", "share")), str(b["pairs"]))
        for b in found["bands"]
    ]  # fmt: skip
    echo(table([("confidence", "said", "evidence", "share of pairs", "pairs"), *rows]))


def _print_misses(misses: Sequence[Figures]) -> None:
    for miss in misses:
        places = ", ".join(f"{d} ({p or 'not found'})" for d, p in miss["missed"].items())
        echo(f"{miss['query']}: {miss['text']}\n  missed {places}")
