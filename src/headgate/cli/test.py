"""`headgate test FILE`: regression tests for context, and recording them."""

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.progress import Progress

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError
from headgate.evaluate.junit import junit
from headgate.evaluate.regression import CaseResult, case_of, describe, record_case, run_case
from headgate.evaluate.regression_file import as_toml, read_cases
from headgate.gateway import Headgate
from headgate.operations.presence import require_collections, whole_trace_id
from headgate.types import Request

FAILED = 1  # exit code when an expectation is not met


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("questions", nargs=-1)
@place_options
@click.option("--record", is_flag=True, help="Add QUESTIONS to FILE with what enters now.")
@click.option("--trace", "traces", multiple=True, help="With --record: add the question of a trace; repeat.")  # fmt: skip
@click.option("--collection", default="main", show_default=True, help="With --record: where to ask.")  # fmt: skip
@click.option("--budget", default=Request("").budget, show_default=True, help="With --record: most tokens of the block.")  # fmt: skip
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
    """Run the tests of FILE: which chunks must and must not enter, and if they do not, why.

    FILE is TOML: a [[test]] with a `question` and `must`, `must_not` (ids of chunks or documents, * and ? allowed) or
    `contains` (text of the block). Exit code 1 when a test fails.
    """
    if not record and (questions or traces):
        raise InputError("questions and traces are for recording", hint="add --record")
    if record and not (questions or traces):
        raise InputError("there is nothing to record", hint="give questions, or --trace ID")
    with open_existing(store, tenant) as hg:
        if record:
            _record(hg, file, questions, traces, collection, budget)
            return
        outcomes = _run(hg, file, quiet=as_json)
    if report is not None:
        _write(report, junit(outcomes, suite=file.stem))
    if as_json:
        print_json([_row(outcome) for outcome in outcomes])
    else:
        _print(outcomes)
    sys.exit(FAILED if any(outcome.failures for outcome in outcomes) else 0)


def _run(hg: Headgate, file: Path, *, quiet: bool) -> list[CaseResult]:
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
        read_cases(file)  # nothing is added to a file that cannot be read
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


def _print(outcomes: list[CaseResult]) -> None:
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
