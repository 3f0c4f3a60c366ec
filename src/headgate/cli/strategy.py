"""`headgate strategy QUERY`: should this content be stuffed, searched, or both?"""

import click
import orjson
from rich.markup import escape
from rich.panel import Panel

from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError, LimitError
from headgate.settings import load
from headgate.stages.decide import ContextBudget, strategy_report, window_state
from headgate.stages.strategy import SIZE_HINTS, context_strategy


@click.command()
@click.argument("query")
@click.option("--file", "files", multiple=True, help="A file of the content; repeat for more.")
@click.option("--chars", type=int, help="Size of the content in characters.")
@click.option("--size", type=click.Choice(list(SIZE_HINTS)), help="Rough size of the content.")
@click.option("--context-length", default=128_000, show_default=True, help="The model's window.")
@click.option("--used-tokens", default=0, show_default=True, help="Tokens of the window in use.")
@click.option("--threshold-tokens", default=0, help="Where compression begins, in tokens.")
@click.option("--tool", "tools", multiple=True, help="A tool the agent has; repeat for more.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def strategy(
    query: str,
    files: tuple[str, ...],
    chars: int | None,
    size: str | None,
    context_length: int,
    used_tokens: int,
    threshold_tokens: int,
    tools: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say how content should reach the model for QUERY, and why."""
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
        content_size_hint=size,
        file_paths=files,
        char_count=chars,
        model_context_length=context_length,
        used_tokens=used_tokens,
        available_tools=tools,
        policy=settings.decide,
    )
    window = ContextBudget(context_length, used_tokens, threshold_tokens)
    if as_json:
        answer |= window_state(window, settings.decide)
        echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
        return
    steps = "\n".join(f"  {n}. {escape(step)}" for n, step in enumerate(answer["steps"], 1))
    task = answer["task_type"] + (f" ({answer['group']})" if answer["group"] else "")
    body = (
        f"[bold]{answer['strategy']}[/bold]  confidence {answer['confidence']:.2f}   task {task}\n"
        f"{escape(answer['reasoning'])}\n\n"
        f"content    {answer['content_tokens']:>12,} tokens ({answer['utilization_pct']} % of the window)\n"
        f"available  {answer['available_budget']:>12,} tokens\n"
        f"retrieval  {answer['retrieval_budget_tokens']:>12,} tokens\n\n"
        f"[bold]Next[/bold]\n{steps}\n\n"
        f"[bold]Window[/bold]\n{escape(strategy_report(window))}"
    )
    SafeConsole().print(Panel(body, title="context strategy", expand=False))
