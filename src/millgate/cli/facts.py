"""`millgate facts`: what is remembered, and how much it is trusted."""

from collections.abc import Iterator
from typing import Any

import click
import orjson

from millgate.cli.options import CommandGroup, Output, on_new_store, on_store, read_input
from millgate.cli.terminal import format_minute, table_of
from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.knowledge.maintenance import merge
from millgate.text.bounded_json import describe_json_error
from millgate.types import Fact


@click.group(cls=CommandGroup)
def facts() -> None:
    """Remember and recall facts; list, change and forget them."""


@facts.command("list", epilog="Example: millgate facts list --min-trust 0.5")
@click.option("--category", help="Only facts of this category.")
@click.option(
    "--min-trust", type=float, default=0.0, help="Only facts with at least this trust, 0..1."
)
@on_store
def list_facts(gate: Millgate, category: str | None, min_trust: float) -> Output:
    """List the facts, the most trusted first."""
    found = gate.facts.all(category=category, min_trust=min_trust)
    rows = [(fact.id, f"{fact.trust:.2f}", fact.category, fact.content) for fact in found]
    none = "(nothing is remembered)"
    return Output(found, table_of("id", "trust", "category", "fact", rows=rows, empty=none))


@facts.command(epilog="Example: millgate facts remember 'Deploys go to Frankfurt.' --tag ops")
@click.argument("content", required=False)
@click.option("--category", default="general", show_default=True, help="Its category.")
@click.option("--tag", "tags", multiple=True, help="A tag; repeat for more.")
@click.option("--trust", type=float, help="Its trust at the start, 0..1 (default: facts.trust).")
@click.option("--session", help="Remember turns of this conversation instead of a fact.")
@click.option("--turns", help="JSON lines {role, content, time}; '-' reads stdin. With --session.")
@on_new_store
def remember(
    gate: Millgate,
    content: str | None,
    session: str | None,
    turns: str | None,
    **about: Any,  # noqa: ANN401  # category, tags, trust
) -> Output:
    """Remember CONTENT as a fact. With --session and --turns, remember the turns of a conversation instead."""
    if session or turns:
        if not session or not turns:
            raise InputError("turns need a session and a file", hint="give both --session and --turns")  # fmt: skip
        kept = gate.add_turns(session, list(_messages(turns)))
        return Output(kept, f"{kept.new} of {len(kept.ids)} turns are new")
    if content is None:
        raise InputError("nothing to remember", hint="give a fact, or --session with --turns")
    added = gate.remember(content, **about)
    if added.repeats_injected_text:
        return Output(
            added, "not remembered: a context gave this text, so the store holds it already"
        )
    return Output(added, f"{added.fact.id}  {'remembered' if added.new else 'known already'}")


@facts.command(epilog="Example: millgate facts recall 'where do deploys go?'")
@click.argument("query")
@click.option("--limit", type=click.IntRange(min=0), help="Most facts (default: facts.limit).")
@click.option("--min-trust", type=float, help="Least trust, 0..1 (default: facts.min_trust).")
@on_store
def recall(gate: Millgate, query: str, limit: int | None, min_trust: float | None) -> Output:
    """Print the facts that fit QUERY, best first."""
    hits = gate.recall(query, limit=limit, min_trust=min_trust)
    lines = [f"{hit.score:.3f}  {hit.fact.id}  {hit.fact.content}" for hit in hits]
    return Output(hits, "\n".join(lines) or "(nothing is remembered that fits)")


@facts.command(epilog="Example: millgate facts feedback f-0123456789ab --helpful")
@click.argument("id")
@click.option("--helpful/--unhelpful", "helpful", default=None, help="Whether the fact helped.")
@click.option("--note", default="", help="Why it helped or not.")
@on_store
def feedback(gate: Millgate, id: str, helpful: bool | None, note: str) -> Output:
    """Say whether the fact ID helped, which changes its trust."""
    if helpful is None:
        raise InputError("say whether it helped", hint="add --helpful or --unhelpful")
    moved = gate.feedback(id, helpful=helpful, note=note)
    return Output(moved, f"{moved.id}  trust {moved.old:.2f} -> {moved.new:.2f}")


@facts.command(epilog="Example: millgate facts show f-0123456789ab")
@click.argument("id")
@on_store
def show(gate: Millgate, id: str) -> Output:
    """Show the fact ID and how it came to its trust."""
    fact = gate.facts.get(id)
    return Output(fact, describe_fact(fact))


@facts.command(epilog="Example: millgate facts update f-0123456789ab --trust 0.9")
@click.argument("id")
@click.option("--content", help="What it says from now on.")
@click.option("--category", help="Its category from now on.")
@click.option("--tag", "tags", multiple=True, help="Its tags from now on; repeat for more.")
@click.option("--trust", type=float, help="Its trust from now on, 0..1.")
@on_store
def update(gate: Millgate, id: str, tags: tuple[str, ...], **changes: Any) -> Output:  # noqa: ANN401  # by option
    """Change the fact ID. Options that are not given leave their part as it is."""
    fact = gate.facts.update(id, tags=tags or None, **changes)
    return Output(fact, describe_fact(fact))


@facts.command(epilog="Example: millgate facts forget f-0123456789ab")
@click.argument("ids", nargs=-1, required=True)
@on_store
def forget(gate: Millgate, ids: tuple[str, ...]) -> Output:
    """Forget the facts IDS with their history."""
    for id in ids:
        gate.facts.get(id)  # an unknown id is an error before any fact is forgotten
    for id in dict.fromkeys(ids):
        gate.facts.forget(id)
    return Output({"forgotten": ids}, f"{len(ids)} forgotten")


@facts.command("merge", epilog="Example: millgate facts merge --yes")
@click.option("--yes", is_flag=True, help="Merge them; without it they are only shown.")
@on_store
def join(gate: Millgate, yes: bool) -> Output:
    """Show which facts say the same; with --yes, merge them."""
    merges = merge(gate.facts, saves=yes)
    lines = []
    for one in merges:
        lines.append(f"{one.kept.id}  {one.kept.content}")
        took = "took in" if yes else "would take in"
        lines += [f"  {took} {wording.id}  {wording.content}" for wording in one.gone]
    proposed = merges and not yes
    lines.append(f"{len(merges)} {'could be merged; `millgate facts merge --yes` does it' if proposed else 'merged'}")  # fmt: skip
    return Output(merges, "\n".join(lines))


def _messages(path: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_input(path).splitlines(), 1):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                reason = describe_json_error(error)
                raise InputError(
                    f"{path}:{number} is not JSON: {reason}", hint="one {role, content} a line"
                ) from error


def describe_fact(fact: Fact) -> str:
    """A fact and how it came to its trust, in lines."""
    lines = [
        f"{fact.id}  {fact.content}",
        f"  trust {fact.trust:.2f}, {fact.category}, tags: {', '.join(fact.tags) or '-'}",
        f"  names: {', '.join(fact.entities) or '-'}",
        *(f"  also worded: {wording}" for wording in fact.wordings),
        f"  helpful {fact.helpful}, unhelpful {fact.unhelpful}, recalled {fact.recalled}",
    ]
    lines += [
        f"  {format_minute(step.when)}  {step.old:.2f} -> {step.new:.2f}  {step.reason}"
        for step in fact.history
    ]
    return "\n".join(lines)
