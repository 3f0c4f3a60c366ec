"""`headgate sessions list|resume`: what went through the proxy, and who may go on."""

from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError
from headgate.guard.fuse import CapStatus
from headgate.guard.tools import clip
from headgate.types import Spend, SpendScope


@click.group()
def sessions() -> None:
    """What sessions, keys and the tenant have spent; resume what is paused."""


@sessions.command("list")
@place_options
@click.option(
    "--scope", type=click.Choice(["session", "key", "tenant", "all"]), default="session", show_default=True
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
def show(store: str | None, tenant: str | None, scope: str, limit: int, as_json: bool) -> None:
    """Those used last first: calls, tokens, money, and how they stand to their cap."""
    chosen: SpendScope | None = None if scope == "all" else scope  # type: ignore[assignment]
    with open_existing(store, tenant) as hg:
        found = hg.spending.list_spends(chosen, limit=limit)
    if as_json:
        print_json([as_row(spend, status) for spend, status in found])
        return
    table = Table(
        "", "name", "calls", "tokens", "money", "state", "", box=None, header_style="bold"
    )
    for spend, status in found:
        state = "no cap" if status is None else status.state
        forecast = status.forecast if status else ""
        table.add_row(
            spend.scope, escape(clip(spend.name, 60)), f"{spend.total_calls:,}", f"{spend.total_tokens:,}",
            f"{spend.total_micros / 1e6:,.4f}", state, forecast,
        )  # fmt: skip
    SafeConsole().print(table if found else "nothing was spent under a cap yet")


@sessions.command()
@click.argument("name", required=False)
@click.option("--key", help="Resume an API key instead of a session.")
@click.option("--all", "whole", is_flag=True, help="Resume the tenant instead of a session.")
@place_options
@json_option
def resume(
    name: str | None, key: str | None, whole: bool, store: str | None, tenant: str | None, as_json: bool
) -> None:  # fmt: skip
    """Let session NAME go on with its whole cap again; running services notice at once."""
    named: list[tuple[SpendScope, str]] = []
    if name is not None:
        named.append(("session", name))
    if key is not None:
        named.append(("key", key))
    if whole:
        named.append(("tenant", ""))
    if len(named) != 1:
        raise InputError(
            "name one session, or --key ID, or --all", hint="see: headgate sessions list"
        )
    scope, who = named[0]
    with open_existing(store, tenant) as hg:
        spend = hg.spending.resume(who, scope)
    if as_json:
        print_json(as_row(spend, None))
    else:
        echo(f"resumed {scope} {who}".rstrip())


def as_row(spend: Spend, status: CapStatus | None) -> dict[str, Any]:
    """A spender as JSON."""
    return asdict(spend) | {"reading": status}
