"""`millgate ask QUESTION`: the context for a question, and what a model answers from it."""

import os
import re

import click

from millgate.cli.options import json_option, open_existing, print_json, store_options
from millgate.cli.terminal import echo, explain_wait
from millgate.errors import ConfigError
from millgate.explain.as_data import context_data
from millgate.models.answer import answer, complete_policy
from millgate.operations.presence import require_collections
from millgate.text.table import clip
from millgate.types import Context

_CITED = re.compile(r"\[(\d{1,3})\]")


@click.command(epilog="Example: millgate ask 'how do refunds work?' --model gpt-5-mini")
@click.argument("question")
@store_options
@click.option("--budget", default=2000, show_default=True, help="Most tokens of the context.")
@click.option("--model", help="The model to ask (default: the setting `ask.model`).")
@json_option
def ask(
    question: str,
    store: str | None,
    tenant: str | None,
    collection: str,
    budget: int,
    model: str | None,
    as_json: bool,
) -> None:
    """Answer QUESTION from what was added, with citations.

    The model is that of the settings `ask`, or of OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY and
    ANTHROPIC_BASE_URL. Without a model the command prints the context that it would have sent.
    """
    with open_existing(store, tenant) as gate:
        require_collections(gate, [collection])
        wanted = model or gate.settings.ask.model
        policy = complete_policy(gate.settings.ask, os.environ)
        if wanted and policy is None:
            key = "ANTHROPIC_API_KEY" if wanted.startswith("claude") else "OPENAI_API_KEY"
            raise ConfigError(
                f"there is no key for the model {clip(wanted, 80)}",
                hint=f"set {key}, or ask.url for a service of your own",
            )
        with explain_wait():
            made = gate.context(question, budget=budget, collection=collection)
    said = ""
    if policy is not None and made.text:
        named = policy.model_copy(update={"model": model}) if model else policy
        said = answer(named, question, made.text)
    if as_json:
        print_json({"answer": said, "cited": _find_citations(said, made), **context_data(made)})
        return
    echo(
        said
        or made.text
        or f"{made.fallback_reason or 'nothing relevant was found'}; no model was asked"
    )
    for number, source in _find_citations(said, made).items():
        echo(f"[{number}] {source}")
    if policy is None:
        echo(
            "no model is configured, so this is the context alone; "
            "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or ask.url, and name the model with --model",
            err=True,
        )
    echo(f"what was left out, and why: millgate why {made.trace.id[:8]}", err=True)


def _find_citations(said: str, made: Context) -> dict[str, str]:
    """The sources that an answer cites, by number."""
    numbers = dict.fromkeys(map(int, _CITED.findall(said)))
    return {str(n): made.chunks[n - 1].id for n in numbers if 1 <= n <= len(made.chunks)}
