"""`millgate context QUERY`: the context for a query. `millgate strategy QUERY`: whether to search at all."""

from pathlib import Path
from typing import Any

import click

from millgate.cli.options import Output, collection_option, on_store, prints, read_input
from millgate.cli.terminal import explain_wait, fit
from millgate.errors import InputError, LimitError
from millgate.explain.as_data import context_data
from millgate.gateway import Millgate
from millgate.operations.presence import require_collections
from millgate.pipeline.stages.decide import window_state
from millgate.pipeline.stages.strategy import SIZE_HINTS, context_strategy
from millgate.published.context_strategy import build_strategy_report
from millgate.settings import load
from millgate.text.table import count_of
from millgate.types import Context, ContextBudget


@click.command(epilog="Example: millgate context 'how do refunds work?' --budget 500 --explain")
@click.argument("query")
@collection_option
@click.option("--budget", default=1000, show_default=True, help="Most tokens of the context.")
@click.option("--k", type=int, help="Most chunks (default: as many as fit).")
@click.option("--window", help="File with the text that the model already sees; '-' reads stdin.")
@click.option("--context-length", type=int, help="Size of the model's window, in tokens.")
@click.option("--used-tokens", type=int, default=0, help="Tokens of the window that are in use.")
@click.option(
    "--threshold-tokens",
    type=int,
    default=0,
    help="Tokens at which the agent compresses its window.",
)
@click.option("--task", help="The kind of task, if you know it: factual_qa, code_review, ...")
@click.option("--cwd", default="", help="The folder of the project that the query is about.")
@click.option(
    "--detail",
    type=click.Choice(["whole", "preview"]),
    default="whole",
    help="Whole chunks, or at most 300 characters of each.",
)
@click.option(
    "--order",
    type=click.Choice(["rank", "edges"]),
    default="rank",
    help="Best first, or the best at both ends.",
)
@click.option(
    "--best-effort",
    is_flag=True,
    help="If nothing else fits, show text that the window already has.",
)
@click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    help="The share of the evidence that 1,000 tokens of a chunk must hold (default: grade.floor; 0 fills the budget).",
)
@click.option(
    "--penalize/--no-penalize",
    default=True,
    help="Lower the score of text that the window already has.",
)
@click.option("--explain", is_flag=True, help="Also show what became of the candidates, and why.")
@click.option("--debug", is_flag=True, help="With --json: add the numbers behind each chunk.")
@on_store
def context(
    gate: Millgate,
    query: str,
    collection: str,
    window: str | None,
    context_length: int | None,
    used_tokens: int,
    threshold_tokens: int,
    cwd: str,
    explain: bool,
    debug: bool,
    **how: Any,  # noqa: ANN401  # the other options, by the names that the library has for them
) -> Output:
    """Print the best context for QUERY that fits the budget.

    `millgate strategy QUERY` says whether content should be loaded whole, searched, or both.
    """
    full = None
    if context_length is not None:
        full = ContextBudget(context_length, used_tokens, threshold_tokens)
    require_collections(gate, [collection])
    with explain_wait():
        made = gate.context(
            query,
            window=None if window is None else read_input(window).decode("utf-8", "replace"),
            context_budget=full,
            cwd=str(Path(cwd).absolute()) if cwd else "",
            collection=collection,
            **how,
        )
    lines = [made.text or _say_why_empty(made)]
    if explain:
        lines += ["", *(f"[{n}] cites {source}" for n, source in enumerate(made.sources, 1))]
        lines.append(fit(made.explain()))
    about = _describe(made, with_plan=full is not None)
    return Output(context_data(made, debug=debug), "\n".join(lines), about)


def _describe(made: Context, *, with_plan: bool) -> str:
    """What was decided, what went wrong and what it cost, apart from the block."""
    plan, lines = made.plan, []
    if with_plan:
        lines.append(
            f"{'skipped' if plan.skip else plan.tier.name}, pressure {plan.pressure:.1%}, "
            f"{plan.limit} facts a provider, least trust {plan.min_trust}: {plan.reasoning}"
        )
    lines += [f"degraded: {line}" for line in made.degraded]
    graded = f"{made.verdict}, " if made.verdict else ""
    lines.append(
        f"{graded}{made.token_estimate:,} of {plan.budget:,} tokens, {made.report.kept} of "
        f"{made.report.total_candidates} candidates, trace {made.trace.id[:8]}"
    )
    return "\n".join(lines)


def _say_why_empty(made: Context) -> str:
    """Say why the block is empty, from what the stages noted on the candidates."""
    candidates = made.trace.candidates
    if made.plan.skip:
        return f"(nothing was looked up: {made.plan.reasoning or 'the window is full'})"
    if not candidates:
        return "(nothing relevant was found: no chunk shares a word with the question)"
    last = candidates[0].notes[-1]
    why = made.fallback_reason.partition(";")[0] or "nothing relevant was found"
    return (
        f"({why}; of {count_of(len(candidates), 'candidate')} none entered; "
        f"the best was dropped by {last.stage}: {last.reason}; --explain lists them)"
    )


@click.command(epilog="Example: millgate strategy 'summarize the report' --chars 240000")
@click.argument("query")
@click.option("--file", "file_paths", multiple=True, help="A file of the content; repeat for more.")
@click.option("--chars", "char_count", type=int, help="Size of the content in characters.")
@click.option("--size", "content_size_hint", type=click.Choice(list(SIZE_HINTS)), help="Rough size of the content.")  # fmt: skip
@click.option("--context-length", default=128_000, show_default=True, help="Size of the model's window, in tokens.")  # fmt: skip
@click.option("--used-tokens", default=0, show_default=True, help="Tokens of the window that are in use.")  # fmt: skip
@click.option("--threshold-tokens", default=0, help="Tokens at which the agent compresses its window.")  # fmt: skip
@click.option("--tool", "available_tools", multiple=True, help="A tool that the agent has; repeat for more.")  # fmt: skip
@prints
def strategy(
    query: str, context_length: int, used_tokens: int, threshold_tokens: int, **content: Any  # noqa: ANN401
) -> Output:  # fmt: skip
    """Say whether to load content whole for QUERY, to search it, or both; and why."""
    settings = load()
    if not query.strip():
        raise InputError("the query is empty", hint="say what is to be done or answered")
    if len(query) > settings.limits.query_chars:
        raise LimitError(
            f"the query has {len(query):,} characters; limits.query_chars is "
            f"{settings.limits.query_chars:,}"
        )
    answer = context_strategy(
        query,
        model_context_length=context_length,
        used_tokens=used_tokens,
        policy=settings.decide,
        **content,
    )
    window = ContextBudget(context_length, used_tokens, threshold_tokens)
    task = answer["task_type"] + (f" ({answer['group']})" if answer["group"] else "")
    lines = [
        f"{answer['strategy']}  confidence {answer['confidence']:.2f}, task {task}",
        answer["reasoning"],
        "",
        f"content    {answer['content_tokens']:>12,} tokens ({answer['utilization_pct']} % of the window)",
        f"available  {answer['available_budget']:>12,} tokens",
        f"retrieval  {answer['retrieval_budget_tokens']:>12,} tokens",
        "\nnext",
        *(f"  {number}. {step}" for number, step in enumerate(answer["steps"], 1)),
        "\nwindow",
        build_strategy_report(window),
    ]
    skipped = "\n".join(f"not counted: {one}" for one in answer["skipped_files"])
    return Output(answer | window_state(window, settings.decide), "\n".join(lines), skipped)
