"""`headgate test`: regression tests for contexts. `headgate eval`: figures on labeled data."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress
from rich.table import Table

from headgate.cli.console import SafeConsole
from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import echo
from headgate.errors import InputError
from headgate.evaluate import labeled
from headgate.evaluate import retrieval as measure
from headgate.evaluate.answers import WatchedAnswer, evaluate_answers, is_answers, read_answers
from headgate.evaluate.guard import evaluate, read
from headgate.evaluate.regression import CaseResult, case_of, describe, junit, record_case, run_case
from headgate.evaluate.regression_file import as_toml, read_cases
from headgate.gateway import Headgate
from headgate.operations.presence import require_collections, whole_trace_id
from headgate.types import Request

FAILED = 1  # exit code if an expectation is not met
MIN_SETS = 4  # sets below which a grader cannot be fitted without one of them


@click.command(epilog="Example: headgate test context.toml --record 'How long do refunds take?'")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("questions", nargs=-1)
@place_options
@click.option(
    "--record", is_flag=True, help="Add QUESTIONS to FILE, with the chunks that enter now."
)
@click.option("--trace", "traces", multiple=True, help="With --record: add the question of a trace; repeat for more.")  # fmt: skip
@click.option("--collection", default="main", show_default=True, help="With --record: the collection to ask.")  # fmt: skip
@click.option("--budget", default=Request("").budget, show_default=True, help="With --record: most tokens of the context.")  # fmt: skip
@click.option("--junit", "report", type=click.Path(path_type=Path), help="Also write a JUnit report to this file.")  # fmt: skip
@json_option
def test(
    file: Path,
    questions: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    record: bool,
    traces: tuple[str, ...],
    collection: str,
    budget: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Run the tests of FILE: ask each question, and check which chunks enter the context.

    FILE is TOML. A [[test]] has a `question`, and `must` or `must_not` (ids of chunks or documents; * and ? stand for
    any characters) or `contains` (text of the context). The exit code is 1 if a test fails.
    """
    if not record and (questions or traces):
        raise InputError("questions and traces are for recording", hint="add --record")
    if record and not (questions or traces):
        raise InputError("there is nothing to record", hint="give questions, or --trace ID")
    with open_existing(store, tenant) as hg:
        if record:
            _record(hg, file, questions, traces, collection, budget)
            return
        outcomes = _run_cases(hg, file, quiet=as_json)
    if report is not None:
        _write(report, junit(outcomes, suite=file.stem))
    if as_json:
        print_json([_row(outcome) for outcome in outcomes])
    else:
        _print_results(outcomes)
    sys.exit(FAILED if any(outcome.failures for outcome in outcomes) else 0)


def _run_cases(hg: Headgate, file: Path, *, quiet: bool) -> list[CaseResult]:
    cases = read_cases(file)
    for case in cases:
        require_collections(hg, [case.collection])
    console = SafeConsole(stderr=True)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        return [run_case(hg, case) for case in bar.track(cases, description="asking")]


def _record(
    hg: Headgate,
    file: Path,
    questions: tuple[str, ...],
    traces: tuple[str, ...],
    collection: str,
    budget: int,
) -> None:
    require_collections(hg, [collection])
    if file.exists():
        read_cases(file)  # a file that cannot be read is an error, before anything is added
    cases = [record_case(hg, question, budget=budget, collection=collection) for question in questions]  # fmt: skip
    cases += [case_of(hg, hg.trace(whole_trace_id(hg, trace))) for trace in traces]
    empty = next((case for case in cases if not case.must), None)
    if empty is not None:
        raise InputError(
            f"nothing enters for {empty.question!r}, so there is nothing to expect",
            hint="ask it with: headgate context --explain",
        )
    former = f"{file.read_text('utf-8').rstrip()}\n\n" if file.exists() else ""
    _write(file, former + "\n".join(map(as_toml, cases)))
    for case in cases:
        echo(f"recorded: {case.question} -> {', '.join(case.must)}")


def _print_results(outcomes: list[CaseResult]) -> None:
    for outcome in outcomes:
        echo(f"{'FAIL' if outcome.failures else 'ok':<5} {outcome.case.name}")
        for line in describe(outcome) if outcome.failures else ():
            echo(f"      {line}")
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    echo(f"{len(outcomes) - failed} passed, {failed} failed")


def _row(outcome: CaseResult) -> dict[str, object]:
    return {
        "name": outcome.case.name, "question": outcome.case.question, "passed": not outcome.failures,
        "failures": [asdict(failure) for failure in outcome.failures], "since": outcome.since,
        "tokens": outcome.tokens, "trace": outcome.trace,
    }  # fmt: skip


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}", hint="check its path") from error  # fmt: skip


@click.group(name="eval")
def evaluation() -> None:
    """Measure Headgate on labeled data."""


@evaluation.command(epilog="Example: headgate eval guard streams.jsonl --json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--show", is_flag=True, help="Also list answers that were cut although they go on.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def guard(file: Path, show: bool, as_json: bool) -> None:
    """Measure the loop detector on labeled streams, or on answers.

    FILE is .jsonl, .jsonl.gz, .json, or a folder of answers.
    """
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


@evaluation.command(epilog="Example: headgate eval retrieval DIR --json")
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
@click.option("--questions", type=click.IntRange(1), help="Most questions of a set.")
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
    """Measure retrieval on labeled questions.

    Each of FOLDERS is a set (corpus.jsonl, queries.jsonl, qrels.tsv), or holds sets.
    """
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
