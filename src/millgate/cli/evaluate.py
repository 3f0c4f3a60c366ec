"""`millgate test`: regression tests for contexts. `millgate eval`: figures on labeled data."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import click
from rich.progress import Progress
from rich.table import Table

from millgate.cli.command_group import CommandGroup
from millgate.cli.console import SafeConsole
from millgate.cli.evaluate_fit import fit
from millgate.cli.evaluate_retrieval import retrieval
from millgate.cli.options import (
    Output,
    json_option,
    open_existing,
    place_options,
    print_json,
    prints,
    write_text,
)
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.evaluate.append_only import SUFFIXES, check_append_only
from millgate.evaluate.guard import evaluate, read
from millgate.evaluate.regression import (
    CaseResult,
    case_of,
    describe,
    describe_changes,
    junit,
    record_case,
    run_case,
)
from millgate.evaluate.regression_file import as_toml, read_cases
from millgate.gateway import Millgate
from millgate.operations.presence import require_collections, whole_trace_id
from millgate.text.table import count_of
from millgate.types import Request

FAILED = 1  # exit code if an expectation is not met


@click.command(epilog="Example: millgate test context.toml --record 'How long do refunds take?'")
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

    A FILE of requests (.jsonl, one a line) is tested for this: each request of a conversation must only add to the one
    before, so that the provider reads the rest from its cache. The first thing that was changed is named.
    """
    if file.suffix in SUFFIXES:
        _test_requests(file, given=bool(record or questions or traces or report), as_json=as_json)
    if not record and (questions or traces):
        raise InputError("questions and traces are for recording", hint="add --record")
    if record and not (questions or traces):
        raise InputError("there is nothing to record", hint="give questions, or --trace ID")
    with open_existing(store, tenant) as gate:
        if record:
            _record(gate, file, questions, traces, collection, budget)
            return
        outcomes = _run_cases(gate, file, quiet=as_json)
    if report is not None:
        write_text(report, junit(outcomes, suite=file.stem))
    if as_json:
        print_json([_row(outcome) for outcome in outcomes])
    else:
        _print_results(outcomes)
    sys.exit(FAILED if any(outcome.failures for outcome in outcomes) else 0)


def _test_requests(file: Path, *, given: bool, as_json: bool) -> NoReturn:
    """Test that the conversations of a file of requests are append-only, and end with the exit code for it."""
    if given:
        raise InputError(
            f"{file} is a file of requests; it is tested as it is", hint="give the file alone"
        )
    found = check_append_only(file)
    if as_json:
        print_json([asdict(one) | {"passed": one.passed} for one in found])
    else:
        for one in found:
            echo(
                f"{'ok' if one.passed else 'FAIL':<5} {one.name}: {count_of(one.requests, 'request')}"
            )
            if not one.passed:
                echo(f"      request {one.broken_at:,}: {one.why}")
        failed = sum(not one.passed for one in found)
        echo(f"{len(found) - failed} passed, {failed} failed")
    sys.exit(0 if all(one.passed for one in found) else FAILED)


def _run_cases(gate: Millgate, file: Path, *, quiet: bool) -> list[CaseResult]:
    cases = read_cases(file)
    for case in cases:
        require_collections(gate, [case.collection])
    console = SafeConsole(stderr=True)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        return [run_case(gate, case) for case in bar.track(cases, description="asking")]


def _record(
    gate: Millgate,
    file: Path,
    questions: tuple[str, ...],
    traces: tuple[str, ...],
    collection: str,
    budget: int,
) -> None:
    require_collections(gate, [collection])
    if file.exists():
        read_cases(file)  # a file that cannot be read is an error, before anything is added
    cases = [record_case(gate, question, budget=budget, collection=collection) for question in questions]  # fmt: skip
    cases += [case_of(gate, gate.trace(whole_trace_id(gate, trace))) for trace in traces]
    empty = next((case for case in cases if not case.must), None)
    if empty is not None:
        raise InputError(
            f"nothing enters for {empty.question!r}, so there is nothing to expect",
            hint="ask it with: millgate context --explain",
        )
    former = f"{file.read_text('utf-8').rstrip()}\n\n" if file.exists() else ""
    write_text(file, former + "\n".join(map(as_toml, cases)))
    for case in cases:
        echo(f"recorded: {case.question} -> {', '.join(case.must)}")


def _print_results(outcomes: list[CaseResult]) -> None:
    for outcome in outcomes:
        echo(f"{'FAIL' if outcome.failures else 'ok':<5} {outcome.case.name}")
        lines = describe(outcome) if outcome.failures else describe_changes(outcome)
        for line in lines:
            echo(f"      {line}")
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    echo(f"{len(outcomes) - failed} passed, {failed} failed")


def _row(outcome: CaseResult) -> dict[str, object]:
    return {
        "name": outcome.case.name, "question": outcome.case.question, "passed": not outcome.failures,
        "failures": [asdict(failure) for failure in outcome.failures], "since": outcome.since,
        "tokens": outcome.tokens, "trace": outcome.trace,
    }  # fmt: skip


@click.group(cls=CommandGroup, name="eval")
def evaluation() -> None:
    """Measure Millgate on labeled data."""


@evaluation.command(epilog="Example: millgate eval guard streams.jsonl --json")
@click.argument("file", type=click.Path(path_type=Path))
@prints
def guard(file: Path) -> Output:
    """Measure the loop detector on labeled streams. FILE is .jsonl or .jsonl.gz."""
    figures = evaluate(read(file))
    table = Table("figure", "value", title=f"guard on {file.name}")
    for name, value in figures.items():
        table.add_row(name, f"{value:g}")
    return Output(figures, table)


evaluation.add_command(retrieval)
evaluation.add_command(fit)
