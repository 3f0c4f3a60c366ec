"""`millgate ask QUESTION`: the context for a question, and what a model answers from it."""

import os
import re

import click

from millgate.cli.options import Output, collection_option, on_store
from millgate.cli.terminal import explain_wait
from millgate.errors import ConfigError
from millgate.explain.as_data import context_data
from millgate.gateway import Millgate
from millgate.models.answer import answer, complete_policy
from millgate.operations.presence import require_collections
from millgate.text.table import clip

_CITED = re.compile(r"\[(\d{1,3})\]")


@click.command(epilog="Example: millgate ask 'how do refunds work?' --model gpt-5-mini")
@click.argument("question")
@collection_option
@click.option("--budget", default=2000, show_default=True, help="Most tokens of the context.")
@click.option("--model", help="The model to ask (default: the setting `ask.model`).")
@on_store
def ask(gate: Millgate, question: str, collection: str, budget: int, model: str | None) -> Output:
    """Answer QUESTION from what was added, with citations.

    The model is that of the settings `ask`, or of OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY and
    ANTHROPIC_BASE_URL. Without a model the command prints the context that it would have sent.
    """
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
    said, notes = "", [f"what was left out, and why: millgate why {made.trace.id[:8]}"]
    if policy is None:
        notes.insert(
            0,
            "no model is configured, so this is the context alone; "
            "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or ask.url, and name the model with --model",
        )
    elif made.text:
        named = policy.model_copy(update={"model": model}) if model else policy
        said = answer(named, question, made.text)
    numbers = dict.fromkeys(map(int, _CITED.findall(said)))
    cited = {str(n): made.chunks[n - 1].id for n in numbers if 1 <= n <= len(made.chunks)}
    none = f"{made.fallback_reason or 'nothing relevant was found'}; no model was asked"
    lines = [said or made.text or none, *(f"[{n}] {id}" for n, id in cited.items())]
    data = {"answer": said, "cited": cited, **context_data(made)}
    return Output(data, "\n".join(lines), "\n".join(notes))
