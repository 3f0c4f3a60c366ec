"""`millgate status` and `millgate doctor`: what the store holds, and whether all is well here."""

import sys
from dataclasses import asdict

import click
from rich.markup import escape
from rich.table import Column, Table

from millgate.cli.console import SafeConsole
from millgate.cli.options import (
    json_option,
    open_existing,
    place_options,
    print_json,
    store_option,
)
from millgate.cli.terminal import echo
from millgate.operations.doctor import Advice, check_contents, examine
from millgate.operations.presence import require_tenant
from millgate.operations.status import Status, TenantStatus, costs_of_week
from millgate.operations.status import status as find_status
from millgate.settings import load
from millgate.stores.open import folder_of
from millgate.stores.url import is_postgres
from millgate.text.table import count_of


@click.command(epilog="Example: millgate status --store kb")
@place_options
@json_option
def status(store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show what the store holds, how large it is, and whether its indexes are up to date."""
    with open_existing(store, tenant) as gate:
        if tenant:
            require_tenant(gate, tenant)
        found = find_status(gate, tenant=tenant)
        weeks = {owner.tenant: costs_of_week(gate, owner.tenant) for owner in found.tenants}
    if as_json:
        print_json(asdict(found) | {"last_week": weeks})
    else:
        _print_status(found)
        for name, week in weeks.items():
            if week.calls:
                echo(f"{name}: last 7 days: {week.describe()}")


def _print_status(found: Status) -> None:
    sizes = f"database {_size(found.database_bytes)}, indexes {_size(found.index_bytes)}"
    echo(f"store {found.store} ({found.server}): {sizes}")
    table = Table(
        "tenant", Column("collection", overflow="fold"), Column("documents", justify="right"),
        Column("chunks", justify="right"), Column("characters", justify="right"), "index",
        box=None, header_style="bold", pad_edge=False,
    )  # fmt: skip
    for owner in found.tenants:
        for held in owner.collections:
            counts = (f"{count:,}" for count in (held.documents, held.chunks, held.chars))
            table.add_row(
                escape(owner.tenant), escape(held.name), *counts, _describe_lag(held.index_lag)
            )
    if table.row_count:
        SafeConsole().print(table)
    else:
        echo("no documents yet; add some: millgate add FOLDER")
    for owner in found.tenants:
        echo(_describe(owner))
    for name, size in found.tables.items():
        echo(f"{_size(size):>14}  {name}")


def _describe(owner: TenantStatus) -> str:
    counts = {"fact": owner.facts, "edge": owner.edges, "trace": owner.traces}
    shown = ", ".join(count_of(n, name) for name, n in counts.items() if n is not None)
    waiting = f", {count_of(owner.reviews, 'question')} for a person" if owner.reviews else ""
    return f"{owner.tenant}: {shown}{waiting}"


def _describe_lag(lag: int | None) -> str:
    if lag is None:
        return "made at the first question"
    return f"{lag:,} changes behind; the next question takes them in" if lag else "up to date"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


@click.command(epilog="Example: millgate doctor --repair")
@store_option
@click.option("--repair", is_flag=True, help="Make anew what is derived from other data in the store.")  # fmt: skip
@json_option
def doctor(store: str | None, repair: bool, as_json: bool) -> None:
    """Say what is wrong with this installation and its store, and what to do.

    All that is stored is looked at: counts, records, fingerprints, indexes. The exit code is 1 if there is a problem.
    """
    settings = load(arguments={} if store is None else {"store": store})
    folder = None if is_postgres(settings.store) else folder_of(settings.store)
    found = examine(settings, folder)
    if not any(advice.state == "problem" for advice in found):
        found += check_contents(settings.store, folder, repair=repair)
    if as_json:
        print_json([asdict(advice) for advice in found])
    else:
        _print_advice(found)
    sys.exit(1 if any(advice.state == "problem" for advice in found) else 0)


def _print_advice(found: list[Advice]) -> None:
    colors = {"ok": "green", "warning": "yellow", "problem": "red"}
    console = SafeConsole()
    for advice in found:
        todo = f"\n          {advice.todo}" if advice.todo else ""
        line = f"[{colors[advice.state]}]{advice.state:<8}[/]  {escape(advice.part)}: {escape(advice.what + todo)}"  # fmt: skip
        console.print(line, highlight=False, soft_wrap=True)
