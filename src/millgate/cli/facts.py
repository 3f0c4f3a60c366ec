"""`millgate facts`: what is remembered, and how much it is trusted."""

from collections.abc import Iterator
from typing import Any

import click
import orjson
from rich.markup import escape
from rich.table import Table

from millgate.cli.command_group import CommandGroup
from millgate.cli.console import SafeConsole
from millgate.cli.options import (
    json_option,
    open_existing,
    open_gate,
    place_options,
    print_json,
    read_input,
)
from millgate.cli.terminal import echo, format_minute
from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.knowledge.maintenance import decay, merge, propose_merges
from millgate.text.bounded_json import describe_json_error
from millgate.types import Fact

_CONSOLE = SafeConsole(soft_wrap=True)
Place = tuple[str | None, str | None]
"""Store and tenant, as they were given to `facts` before the name of the command."""


@click.group(
    cls=CommandGroup, invoke_without_command=True, epilog="Example: millgate facts --min-trust 0.5"
)
@place_options
@click.option("--category", help="Only facts of this category.")
@click.option(
    "--min-trust", type=float, default=0.0, help="Only facts with at least this trust, 0..1."
)
@json_option
@click.pass_context
def facts(
    ctx: click.Context,
    store: str | None,
    tenant: str | None,
    category: str | None,
    min_trust: float,
    as_json: bool,
) -> None:
    """List the facts, the most trusted first; or remember, recall, change and forget them."""
    ctx.obj = (store, tenant)
    if ctx.invoked_subcommand is not None:
        return
    with open_existing(store, tenant) as hg:
        found = hg.facts.all(category=category, min_trust=min_trust)
    if as_json:
        print_json(found)
        return
    table = Table("id", "trust", "category", "fact", box=None, pad_edge=False)
    for fact in found:
        table.add_row(fact.id, f"{fact.trust:.2f}", escape(fact.category), escape(fact.content))
    _CONSOLE.print(table if found else "(nothing is remembered)")


@facts.command(epilog="Example: millgate facts remember 'Deploys go to Frankfurt.' --tag ops")
@click.argument("content", required=False)
@place_options
@click.option("--category", default="general", show_default=True, help="Its category.")
@click.option("--tag", "tags", multiple=True, help="A tag; repeat for more.")
@click.option("--trust", type=float, help="Its trust at the start, 0..1 (default: facts.trust).")
@click.option("--session", help="Remember turns of this conversation instead of a fact.")
@click.option("--turns", help="JSON lines {role, content, time}; '-' reads stdin. With --session.")
@json_option
@click.pass_obj
def remember(
    place: Place,
    content: str | None,
    store: str | None,
    tenant: str | None,
    category: str,
    tags: tuple[str, ...],
    trust: float | None,
    session: str | None,
    turns: str | None,
    as_json: bool,
) -> None:
    """Remember CONTENT as a fact. With --session and --turns, remember the turns of a conversation instead."""
    store, tenant = store or place[0], tenant or place[1]
    if session or turns:
        _add_turns(store, tenant, session, turns, as_json=as_json)
        return
    if content is None:
        raise InputError("nothing to remember", hint="give a fact, or --session with --turns")
    with open_gate(store, tenant) as hg:
        added = hg.remember(content, category=category, tags=tags, trust=trust)
    if as_json:
        print_json(added)
        return
    echo(f"{added.fact.id}  {'remembered' if added.new else 'known already'}")


@facts.command(epilog="Example: millgate facts recall 'where do deploys go?'")
@click.argument("query")
@place_options
@click.option("--limit", type=click.IntRange(min=0), help="Most facts (default: facts.limit).")
@click.option("--min-trust", type=float, help="Least trust, 0..1 (default: facts.min_trust).")
@json_option
@click.pass_obj
def recall(
    place: Place,
    query: str,
    store: str | None,
    tenant: str | None,
    limit: int | None,
    min_trust: float | None,
    as_json: bool,
) -> None:
    """Print the facts that fit QUERY, best first."""
    with _open(place, store, tenant) as hg:
        hits = hg.recall(query, limit=limit, min_trust=min_trust)
    if as_json:
        print_json(hits)
        return
    for hit in hits:
        echo(f"{hit.score:.3f}  {hit.fact.id}  {hit.fact.content}")
    if not hits:
        echo("(nothing is remembered that fits)")


@facts.command(epilog="Example: millgate facts feedback f-0123456789ab --helpful")
@click.argument("id")
@click.option("--helpful/--unhelpful", "helpful", default=None, help="Whether the fact helped.")
@click.option("--note", default="", help="Why it helped or not.")
@place_options
@json_option
@click.pass_obj
def feedback(
    place: Place,
    id: str,
    helpful: bool | None,
    note: str,
    store: str | None,
    tenant: str | None,
    as_json: bool,
) -> None:
    """Say whether the fact ID helped, which changes its trust."""
    if helpful is None:
        raise InputError("say whether it helped", hint="add --helpful or --unhelpful")
    with _open(place, store, tenant) as hg:
        moved = hg.feedback(id, helpful=helpful, note=note)
    if as_json:
        print_json(moved)
        return
    echo(f"{moved.id}  trust {moved.old:.2f} -> {moved.new:.2f}")


@facts.command(epilog="Example: millgate facts show f-0123456789ab")
@click.argument("id")
@place_options
@json_option
@click.pass_obj
def show(place: Place, id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show the fact ID and how it came to its trust."""
    with _open(place, store, tenant) as hg:
        fact = hg.facts.get(id)
    if as_json:
        print_json(fact)
        return
    echo(describe_fact(fact))


@facts.command(epilog="Example: millgate facts update f-0123456789ab --trust 0.9")
@click.argument("id")
@click.option("--content", help="What it says from now on.")
@click.option("--category", help="Its category from now on.")
@click.option("--tag", "tags", multiple=True, help="Its tags from now on; repeat for more.")
@click.option("--trust", type=float, help="Its trust from now on, 0..1.")
@place_options
@json_option
@click.pass_obj
def update(
    place: Place,
    id: str,
    content: str | None,
    category: str | None,
    tags: tuple[str, ...],
    trust: float | None,
    store: str | None,
    tenant: str | None,
    as_json: bool,
) -> None:
    """Change the fact ID. Options that are not given leave their part as it is."""
    with _open(place, store, tenant) as hg:
        fact = hg.facts.update(
            id, content=content, category=category, tags=tags or None, trust=trust
        )
    if as_json:
        print_json(fact)
        return
    echo(describe_fact(fact))


@facts.command(epilog="Example: millgate facts forget f-0123456789ab")
@click.argument("ids", nargs=-1, required=True)
@place_options
@json_option
@click.pass_obj
def forget(
    place: Place, ids: tuple[str, ...], store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Forget the facts IDS with their history."""
    with _open(place, store, tenant) as hg:
        for id in ids:
            hg.facts.get(id)  # an unknown id is an error before any fact is forgotten
        for id in dict.fromkeys(ids):
            hg.facts.forget(id)
    if as_json:
        print_json({"forgotten": ids})
        return
    echo(f"{len(ids)} forgotten")


@facts.command("decay", epilog="Example: millgate facts decay --half-life 90")
@click.option("--half-life", type=float, required=True, help="Days in which trust halves.")
@place_options
@json_option
@click.pass_obj
def fade(
    place: Place, half_life: float, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Lower the trust of facts that were not used for long."""
    with _open(place, store, tenant) as hg:
        moved = decay(hg.facts, half_life)
    if as_json:
        print_json(moved)
        return
    for step in moved:
        echo(f"{step.id}  trust {step.old:.2f} -> {step.new:.2f}")
    echo(f"{len(moved)} faded")


@facts.command("merge", epilog="Example: millgate facts merge --yes")
@click.option("--yes", is_flag=True, help="Merge them; without it they are only shown.")
@place_options
@json_option
@click.pass_obj
def join(place: Place, yes: bool, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show which facts say the same; with --yes, merge them."""
    with _open(place, store, tenant) as hg:
        merges = merge(hg.facts) if yes else propose_merges(hg.facts)
    if as_json:
        print_json(merges)
        return
    for one in merges:
        echo(f"{one.kept.id}  {one.kept.content}")
        for wording in one.gone:
            echo(f"  {'took in' if yes else 'would take in'} {wording.id}  {wording.content}")
    if merges and not yes:
        echo(f"{len(merges)} could be merged; `millgate facts merge --yes` does it")
    else:
        echo(f"{len(merges)} merged")


def _open(place: Place, store: str | None, tenant: str | None) -> Millgate:
    """Open the store that was given to the command, otherwise the one that was given to `facts` before it."""
    return open_existing(store or place[0], tenant or place[1])


def _add_turns(
    store: str | None, tenant: str | None, session: str | None, turns: str | None, *, as_json: bool
) -> None:
    if not session or not turns:
        raise InputError("turns need a session and a file", hint="give both --session and --turns")
    messages = list(_messages(turns))
    with open_gate(store, tenant) as hg:
        kept = hg.add_turns(session, messages)
    if as_json:
        print_json(kept)
        return
    echo(f"{kept.new} of {len(kept.ids)} turns are new")


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
