"""`headgate eval`: measure Headgate on labeled data. One subcommand a part."""

from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress
from rich.table import Table

from headgate.cli.options import print_json
from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError
from headgate.evaluate import labeled
from headgate.evaluate import retrieval as measure
from headgate.evaluate.answers import WatchedAnswer, evaluate_answers, is_answers, read_answers
from headgate.evaluate.guard import evaluate, read

MIN_SETS = 4  # sets below which a grader cannot be fitted without one of them


@click.group(name="eval")
def evaluation() -> None:
    """Measure Headgate on labeled data."""


@evaluation.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--show", is_flag=True, help="Also list the answers that were cut and go on.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def guard(file: Path, show: bool, as_json: bool) -> None:
    """The loop detector on labeled streams or on answers: FILE is .jsonl, .jsonl.gz, .json, or a folder of answers."""
    if is_answers(file):
        figures = evaluate_answers(read_answers(file), show=_show_cut if show else None)
    else:
        figures = evaluate(read(file))
    _print(figures, as_json, f"guard on {file.name}")


def _show_cut(verdict: WatchedAnswer) -> None:
    stall, text = verdict.stall, verdict.answer.text
    assert stall is not None
    mark = "good?" if verdict.good else "     "
    start = max(0, stall.onset - 60)
    echo(f"{mark} {verdict.answer.id}: {stall.reason}", err=True)
    echo(f"      {text[start : stall.onset + 120]!r}", err=True)


@evaluation.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--embedder",
    default="none",
    help="none, static, minilm, a folder or OWNER/NAME; settings: the one that the settings name.",
)
@click.option(
    "--budget", "budgets", type=click.IntRange(1), multiple=True, help="Tokens; repeatable."
)
@click.option("--questions", type=click.IntRange(1), help="At most so many questions of a set.")
@click.option(
    "--foreign",
    type=click.IntRange(0),
    default=measure.FOREIGN,
    show_default=True,
    help="Questions of the other sets that are asked in a set.",
)
@click.option("--misses", is_flag=True, help="Also list what was not among the first ten.")
@click.option("--context/--no-context", default=True, help="Also measure through context().")
@click.option(
    "--leave-one-out", is_flag=True, help="Judge each set by a grader fitted on the others."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def retrieval(
    folders: tuple[Path, ...],
    embedder: str,
    budgets: tuple[int, ...],
    questions: int | None,
    foreign: int,
    misses: bool,
    context: bool,
    leave_one_out: bool,
    as_json: bool,
) -> None:
    """Retrieval on labeled questions. FOLDERS are sets (corpus.jsonl, queries.jsonl, qrels.tsv), or hold some."""
    sets = [labeled.sample(one, questions) for folder in folders for one in labeled.sets(folder)]
    if leave_one_out and (len(sets) < MIN_SETS or not context):
        raise InputError(
            f"--leave-one-out fits on the other sets, and there are {len(sets) - 1}",
            hint=f"give at least {MIN_SETS} sets, without --no-context",
        )
    runs = []
    with Progress(console=SafeConsole(stderr=True), transient=True) as progress:
        for one in sets:
            apart = measure.foreign(one, sets, foreign) if context else []
            asked = len(one.queries) + len(apart)
            task = progress.add_task(one.name, total=asked)
            runs.append(
                measure.evaluate(
                    one,
                    embedder=embedder,
                    budgets=budgets or measure.BUDGETS,
                    through_context=context,
                    others=sets,
                    most_foreign=foreign,
                    tick=partial(progress.advance, task),
                )
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
        print_json(next(iter(found.values())) if alone else {"sets": found, **measure.mean(found)})
        return
    for name, figures in found.items():
        _table(name, figures)
    if len(found) > 1:
        _means(found)


def _table(name: str, figures: dict[str, Any]) -> None:
    """Print one set: our figures with their intervals, beside the baselines."""
    baselines = figures["baselines"]
    head = f"{name}: {figures['queries']} queries, {figures['passages']} passages"
    table = Table("figure", "headgate", "95 %", *baselines, title=head)
    for figure, (low, high) in figures["intervals"].items():
        others = [f"{b[figure]:.3f}" if figure in b else "" for b in baselines.values()]
        table.add_row(figure, f"{figures[figure]:.3f}", f"{low:.3f} - {high:.3f}", *others)
    for figure in ("p50_ms", "p95_ms"):
        table.add_row(figure, f"{figures[figure]:.1f}", "", *([""] * len(baselines)))
    console = SafeConsole()
    console.print(table)
    for miss in figures.get("misses", ()):
        places = ", ".join(f"{d} ({p or 'not found'})" for d, p in miss["missed"].items())
        console.print(f"{miss['query']}: {miss['text']}\n  missed {places}", markup=False)


def _means(found: dict[str, dict[str, Any]]) -> None:
    """Print all sets in one table, a line each, and their mean with its interval."""
    overall = measure.mean(found)
    mean, interval = overall["mean"], overall["intervals"]
    budgets = [name.partition("@")[2] for name in mean if name.startswith("empty@")]
    kinds = ("bm25_framed_evidence", "context_evidence", "empty")
    columns = ["ndcg@10", *(f"{kind}@{b}" for b in budgets for kind in kinds), "stopped"]
    columns = [name for name in columns if name in mean]
    echo(f"{'':16}" + "".join(f"{_short(name):>13}" for name in columns))
    for name, figures in {**found, "mean": mean}.items():
        bm25 = figures.get("baselines", {}).get("bm25", {})
        values = figures | {f"bm25_{k}": v for k, v in bm25.items()}
        shown = [f"{values[c]:.3f}" if c in values else "" for c in columns]
        echo(f"{name:16}" + "".join(f"{value:>13}" for value in shown))
    spans = ["{:.3f}-{:.3f}".format(*interval[c]) for c in columns]
    echo(f"{'95 %':16}" + "".join(f"{span:>13}" for span in spans))


def _short(figure: str) -> str:
    """The name of a figure, shortened for a narrow column."""
    return figure.replace("bm25_framed_evidence", "BM25").replace("_evidence", "")


def _print(figures: dict[str, float], as_json: bool, title: str) -> None:
    if as_json:
        print_json(figures)
        return
    table = Table("figure", "value", title=title)
    for name, value in figures.items():
        table.add_row(name, f"{value:g}")
    SafeConsole().print(table)
