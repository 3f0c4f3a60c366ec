"""`headgate eval`: measure Headgate on labeled data. One subcommand a part."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from headgate.evaluate import retrieval as labeled
from headgate.evaluate.answers import Verdict, evaluate_answers, is_answers, read_answers
from headgate.evaluate.guard import evaluate, read


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


def _show_cut(verdict: Verdict) -> None:
    stall, text = verdict.stall, verdict.answer.text
    assert stall is not None
    mark = "good?" if verdict.good else "     "
    start = max(0, stall.onset - 60)
    click.echo(f"{mark} {verdict.answer.id}: {stall.reason}", err=True)
    click.echo(f"      {text[start : stall.onset + 120]!r}", err=True)


@evaluation.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--embedder", default="none", help="none, static, minilm, a folder or a URL.")
@click.option(
    "--budget", "budgets", type=click.IntRange(1), multiple=True, help="Tokens; repeatable."
)
@click.option("--misses", is_flag=True, help="Also list what was not among the first ten.")
@click.option("--context/--no-context", default=True, help="Also measure through context().")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def retrieval(
    folder: Path,
    embedder: str,
    budgets: tuple[int, ...],
    misses: bool,
    context: bool,
    as_json: bool,
) -> None:
    """Retrieval on labeled questions: FOLDER is a set (corpus.jsonl, queries.jsonl, qrels.tsv) or holds sets."""
    found = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for one in labeled.sets(folder):
            task = progress.add_task(one.name, total=len(one.queries))
            found[one.name] = labeled.evaluate(
                one,
                embedder=embedder,
                budgets=budgets or labeled.BUDGETS,
                through_context=context,
                tick=partial(progress.advance, task),
            )
    if not misses:
        found = {name: {k: v for k, v in f.items() if k != "misses"} for name, f in found.items()}
    if as_json:
        alone = len(found) == 1 and (folder / "corpus.jsonl").is_file()
        answer = next(iter(found.values())) if alone else {"sets": found}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
        return
    for name, figures in found.items():
        _table(name, figures)


def _table(name: str, figures: dict[str, Any]) -> None:
    """One set for people: ours with its interval beside the baselines."""
    baselines = figures["baselines"]
    head = f"{name}: {figures['queries']} queries, {figures['passages']} passages"
    table = Table("figure", "headgate", "95 %", *baselines, title=head)
    for figure, (low, high) in figures["intervals"].items():
        others = [f"{b[figure]:.3f}" if figure in b else "" for b in baselines.values()]
        table.add_row(figure, f"{figures[figure]:.3f}", f"{low:.3f} - {high:.3f}", *others)
    for figure in ("p50_ms", "p95_ms"):
        table.add_row(figure, f"{figures[figure]:.1f}", "", *([""] * len(baselines)))
    console = Console()
    console.print(table)
    for miss in figures.get("misses", ()):
        places = ", ".join(f"{d} ({p or 'not found'})" for d, p in miss["missed"].items())
        console.print(f"{miss['query']}: {miss['text']}\n  missed {places}", markup=False)


def _print(figures: dict[str, float], as_json: bool, title: str) -> None:
    if as_json:
        click.echo(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
        return
    table = Table("figure", "value", title=title)
    for name, value in figures.items():
        table.add_row(name, f"{value:g}")
    Console().print(table)
