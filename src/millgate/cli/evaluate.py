"""`millgate test`: regression tests for contexts. `millgate eval`: figures on labeled data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from millgate.cli.options import (
    CommandGroup,
    Output,
    open_existing,
    place_options,
    prints,
    write_text,
)
from millgate.cli.terminal import progress_bar, table_of
from millgate.errors import InputError
from millgate.evaluate import fit as fitting
from millgate.evaluate import guard as streams
from millgate.evaluate import retrieval as measuring
from millgate.evaluate.append_only import SUFFIXES, check_append_only
from millgate.evaluate.labeled import StoredSet, sample, sets
from millgate.evaluate.regression import (
    CaseResult,
    as_toml,
    case_of,
    describe,
    junit,
    read_cases,
    record_case,
    run_case,
)
from millgate.gateway import Millgate
from millgate.operations.presence import require_collections, whole_trace_id
from millgate.ranking.model import Model, read_model
from millgate.text.table import count_of, table
from millgate.types import Request

# Tests of contexts


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
@prints
def test(
    file: Path,
    questions: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    record: bool,
    traces: tuple[str, ...],
    report: Path | None,
    **asked: Any,  # noqa: ANN401  # collection, budget
) -> Output:
    """Run the tests of FILE: ask each question, and check which chunks enter the context.

    FILE is TOML. A [[test]] has a `question`, and `must` or `must_not` (ids of chunks or documents; * and ? stand for
    any characters) or `contains` (text of the context). The exit code is 1 if a test fails.

    A FILE of requests (.jsonl, one a line) is tested for this: each request of a conversation must only add to the one
    before, so that the provider reads the rest from its cache. The first thing that was changed is named.
    """
    if file.suffix in SUFFIXES:
        if record or questions or traces or report:
            raise InputError(
                f"{file} is a file of requests; it is tested as it is", hint="give the file alone"
            )
        return _test_requests(file)
    if record != bool(questions or traces):
        if record:
            raise InputError("there is nothing to record", hint="give questions, or --trace ID")
        raise InputError("questions and traces are for recording", hint="add --record")
    with open_existing(store, tenant) as gate:
        if record:
            return _record(gate, file, questions, traces, **asked)
        return _run(gate, file, report)


def _run(gate: Millgate, file: Path, report: Path | None) -> Output:
    cases, outcomes = read_cases(file), []
    for case in cases:
        require_collections(gate, [case.collection])
    with progress_bar("asking") as move:
        for number, case in enumerate(cases):
            move(number, len(cases))
            outcomes.append(run_case(gate, case))
    if report is not None:
        write_text(report, junit(outcomes, suite=file.stem))
    told = [(not one.failures, one.case.name, describe(one)) for one in outcomes]
    return _results([_row(outcome) for outcome in outcomes], told)


def _results(data: object, told: Sequence[tuple[bool, str, Sequence[str]]]) -> Output:
    """For each test whether it passed, its name, and what there is to say; the exit code is 1 if one failed."""
    lines = []
    for passed, name, details in told:
        lines.append(f"{'ok' if passed else 'FAIL':<5} {name}")
        lines += [f"      {line}" for line in details]
    failed = sum(not passed for passed, _, _ in told)
    lines.append(f"{len(told) - failed} passed, {failed} failed")
    return Output(data, "\n".join(lines), code=1 if failed else 0)


def _test_requests(file: Path) -> Output:
    """Test that the conversations of a file of requests are append-only."""
    found = check_append_only(file)
    told = [
        (
            one.passed, f"{one.name}: {count_of(one.requests, 'request')}",
            () if one.passed else [f"request {one.broken_at:,}: {one.why}"],
        )
        for one in found
    ]  # fmt: skip
    return _results([asdict(one) | {"passed": one.passed} for one in found], told)


def _record(
    gate: Millgate,
    file: Path,
    questions: Sequence[str],
    traces: Sequence[str],
    collection: str,
    budget: int,
) -> Output:
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
    said = "\n".join(f"recorded: {case.question} -> {', '.join(case.must)}" for case in cases)
    return Output(cases, said)


def _row(outcome: CaseResult) -> dict[str, object]:
    return {
        "name": outcome.case.name, "question": outcome.case.question, "passed": not outcome.failures,
        "failures": outcome.failures, "since": outcome.since, "tokens": outcome.tokens, "trace": outcome.trace,
    }  # fmt: skip


# Labeled data


@click.group(cls=CommandGroup, name="eval")
def evaluation() -> None:
    """Measure Millgate on labeled data."""


@evaluation.command(epilog="Example: millgate eval guard streams.jsonl --json")
@click.argument("file", type=click.Path(path_type=Path))
@prints
def guard(file: Path) -> Output:
    """Measure the loop detector on labeled streams. FILE is .jsonl or .jsonl.gz."""
    figures = streams.evaluate(streams.read(file))
    rows = ((name, f"{value:g}") for name, value in figures.items())
    return Output(figures, table_of("figure", "value", rows=rows))


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


@evaluation.command(epilog="Example: millgate eval retrieval DIR --budget 1000 --sample 60")
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
@click.option(
    "--sample", "--questions", "most", type=click.IntRange(1), help="Most questions of a set."
)
@click.option(
    "--foreign",
    type=click.IntRange(0),
    default=measuring.FOREIGN,
    show_default=True,
    help="Number of questions from other sets that each set is asked.",
)
@click.option(
    "--misses", is_flag=True, help="Also list passages that were not among the first ten."
)
@prints
def retrieval(
    folders: tuple[Path, ...],
    embedder: str,
    budgets: tuple[int, ...],
    most: int | None,
    foreign: int,
    misses: bool,
) -> Output:
    """Measure retrieval on labeled questions, beside plain BM25.

    Each of FOLDERS is a set (corpus.jsonl, queries.jsonl, qrels.tsv), or holds sets.
    """
    every = [sample(one, most) for folder in folders for one in sets(folder)]
    found: dict[str, measuring.Figures] = {}
    with progress_bar("asking") as move:
        for number, one in enumerate(every):
            move(number, len(every), one.name)
            with StoredSet(one, embedder) as stored:
                run = measuring.evaluate(
                    stored, budgets=budgets or measuring.BUDGETS, others=every, most_foreign=foreign
                )
            found[one.name] = run.figures()
    text = describe_figures(found)
    for figures in found.values():
        for miss in figures["misses"] if misses else ():
            places = ", ".join(f"{d} ({p or 'not found'})" for d, p in miss["missed"].items())
            text += f"\n{miss['query']}: {miss['text']}\n  missed {places}"
        if not misses:
            del figures["misses"]
    alone = len(found) == 1 and (folders[0] / "corpus.jsonl").is_file()
    return Output(found[every[0].name] if alone else {"sets": found, **measuring.mean(found)}, text)


def describe_figures(found: Mapping[str, measuring.Figures]) -> str:
    """A table for each budget and one for the rest: a line for each set, their mean, and its 95 % interval."""
    overall = measuring.mean(found)
    spans, rows = overall["intervals"], {n: measuring.with_baselines(f) for n, f in found.items()}
    if len(rows) > 1:
        rows["mean"] = overall["mean"]
    else:
        ((_, alone),) = found.items()
        spans = alone["intervals"]
    budgets = [name.partition("@")[2] for name in overall["mean"] if name.startswith("tokens@")]
    wanted = {
        f"at {budget} tokens": {head: f"{name}@{budget}" for head, name in _BUDGET_COLUMNS.items()}
        for budget in budgets
    }
    tables = []
    for title, columns in {**wanted, "": _SET_COLUMNS}.items():
        shown = {head: n for head, n in columns.items() if any(n in row for row in rows.values())}
        lines = [[title, *shown]]
        for label, row in rows.items():
            lines.append([label, *(_number(n, row.get(n)) for n in shown.values())])
        ends = ["-".join(_number(n, end) for end in spans.get(n, ())) for n in shown.values()]
        tables.append(table([*lines, ["95 %", *ends]]) + "\n")
    return "\n".join(tables)


def _number(name: str, value: float | None) -> str:
    """A figure with the digits that it deserves."""
    if value is None:
        return ""
    if name.partition("@")[0].endswith("tokens"):
        return f"{value:.0f}"
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:.3f}"


# The model of relevance


@evaluation.command(epilog="Example: millgate eval fit DIR --out weights.json")
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
@prints
def fit(
    paths: tuple[Path, ...],
    from_feedback: bool,
    store: str | None,
    tenant: str | None,
    questions: int,
    foreign: int,
    out: Path | None,
) -> Output:
    """Fit the model of relevance on labeled sets.

    Each of PATHS is a labeled set (corpus.jsonl, queries.jsonl, qrels.tsv) or holds several. Set `grade.weights` to the
    file that --out writes, and compare before and after with `millgate eval retrieval`.

    With --from-feedback the labels are your own, in the store that you use: the questions of test files (`millgate
    test`), and the reviews that were approved or rejected. Contexts are compared before and after; each question is
    judged by weights fitted without it.
    """
    if from_feedback:
        with open_existing(store, tenant) as gate:
            return _fit_from_feedback(gate, paths, out)
    if not paths:
        raise InputError("there is no labeled set", hint="name its folder, or give --from-feedback")
    every = [sample(one, questions) for folder in paths for one in sets(folder)]
    asked: list[fitting.Asked] = []
    with progress_bar("asking") as move:
        for number, one in enumerate(every):
            move(number, len(every), one.name)
            with StoredSet(one) as stored:
                asked += fitting.observe(stored, every, most_foreign=foreign)
    shipped = read_model()
    model = fitting.fit(asked, start=shipped if len(every) < fitting.MIN_SETS else None)
    said = _weights(model, shipped, "shipped")
    return _save(model, out, said, sets=[one.name for one in every])


def _fit_from_feedback(gate: Millgate, files: tuple[Path, ...], out: Path | None) -> Output:
    """Fit on judgments of the store's own questions, and print contexts before and after."""
    found = fitting.read_judgments(gate, files)
    start = read_model(gate.settings.grade.weights)
    asked = [one for judgment in found for one in fitting.observe_judged(gate, judgment)]
    model = fitting.fit(asked, start=start)
    with progress_bar("asking") as move, TemporaryDirectory(prefix="millgate-fit-") as folder:
        done = iter(range(len(found)))
        before, after = fitting.compare(
            gate, found, start=start, folder=Path(folder), tick=lambda: move(next(done), len(found))
        )
    right = sum(bool(ids) for _, ids in found)
    rows = [("contexts", "before", "after")]
    for name, was in before.items():
        digits = 0 if name == "tokens" else 3
        rows.append((name, f"{was:.{digits}f}", f"{after[name]:.{digits}f}"))
    said = (
        f"{count_of(right, 'question')} with chunks that are right, {len(found) - right} rejected\n\n"
        f"{_weights(model, start, 'before')}\n\n{table(rows)}"
    )
    compared = {"before": before, "after": after}
    return _save(model, out, said, sets=[fitting.OWN], questions=len(found), held_out=compared)


def _save(model: Model, out: Path | None, said: str, **about: object) -> Output:
    """The weights as data, written to the file if there is one."""
    data = fitting.as_data(model, fitted=datetime.now(UTC).date().isoformat(), **about)
    if out is not None:
        write_text(out, json.dumps(data, indent=2) + "\n")
        said += f"\n\nwritten to {out}; to use them: MILLGATE_GRADE__WEIGHTS={out}"
    return Output(data, said)


def _weights(model: Model, former: Model, head: str) -> str:
    """The weights beside the former ones."""
    rows = [("step", "feature", "weight", head)]
    for step in ("share", "holds", "knows"):
        before = getattr(former, step)
        rows += [
            (step, name, f"{weight:.2f}", f"{before[name]:.2f}")
            for name, weight in getattr(model, step).items()
        ]
    return f"{table(rows)}\n\nlower {model.lower:.3f} ({head} {former.lower:.3f})"
