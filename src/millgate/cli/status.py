"""`millgate status` and `millgate doctor`: what the store holds, and whether all is well here."""

from dataclasses import asdict

import click

from millgate.cli.options import Output, folder_named, open_existing, prints, store_option
from millgate.cli.terminal import table_of
from millgate.operations.doctor import check_contents, examine
from millgate.operations.presence import require_tenant
from millgate.operations.status import Status, costs_of_week
from millgate.operations.status import status as find_status
from millgate.settings import load
from millgate.text.table import count_of


@click.command(epilog="Example: millgate status --store kb")
@store_option
@click.option("--tenant", help="Only this tenant (default: all).")
@prints
def status(store: str | None, tenant: str | None) -> Output:
    """Show what the store holds, how large it is, and whether its indexes are up to date."""
    with open_existing(store, tenant) as gate:
        if tenant:
            require_tenant(gate, tenant)
        found = find_status(gate, tenant=tenant)
        weeks = {owner.tenant: costs_of_week(gate, owner.tenant) for owner in found.tenants}
    week_lines = [f"{n}: last 7 days: {w.describe()}" for n, w in weeks.items() if w.calls]
    text = "\n".join([*describe_status(found), *week_lines])
    return Output(asdict(found) | {"last_week": weeks}, text)


def describe_status(found: Status) -> list[str]:
    """A store, its collections and its files, in lines."""
    rows = [
        (owner.tenant, held.name, f"{held.documents:,}", f"{held.chunks:,}", f"{held.chars:,}", describe_lag(held.index_lag))
        for owner in found.tenants
        for held in owner.collections
    ]  # fmt: skip
    heads = ("tenant", "collection", "documents", "chunks", "characters", "index")
    lines = [
        f"store {found.store} ({found.server}): database {size(found.database_bytes)}, indexes {size(found.index_bytes)}",
        table_of(*heads, rows=rows, empty="no documents yet; add some: millgate add FOLDER"),
    ]
    for owner in found.tenants:
        counts = {"fact": owner.facts, "edge": owner.edges, "trace": owner.traces}
        shown = ", ".join(count_of(n, name) for name, n in counts.items() if n is not None)
        waiting = f", {count_of(owner.reviews, 'question')} for a person" if owner.reviews else ""
        lines.append(f"{owner.tenant}: {shown}{waiting}")
    return [*lines, *(f"{size(taken):>14}  {name}" for name, taken in found.tables.items())]


def describe_lag(lag: int | None) -> str:
    """How far an index is behind the store."""
    if lag is None:
        return "made at the first question"
    return f"{lag:,} changes behind; the next question takes them in" if lag else "up to date"


def size(count: int) -> str:
    """A number of bytes for a person."""
    return f"{count / 1e6:,.1f} MB"


@click.command(epilog="Example: millgate doctor --repair")
@store_option
@click.option("--repair", is_flag=True, help="Make anew what is derived from other data in the store.")  # fmt: skip
@prints
def doctor(store: str | None, repair: bool) -> Output:
    """Say what is wrong with this installation and its store, and what to do.

    All that is stored is looked at: counts, records, indexes. The exit code is 1 if there is a problem.
    """
    settings = load(arguments={} if store is None else {"store": store})
    folder = folder_named(settings.store)
    found = examine(settings, folder)
    if not any(advice.state == "problem" for advice in found):
        found += check_contents(settings.store, folder, repair=repair)
    lines = []
    for advice in found:
        lines.append(f"{advice.state:<8}  {advice.part}: {advice.what}")
        if advice.todo:
            lines.append(f"{'':<8}  {advice.todo}")
    problem = any(advice.state == "problem" for advice in found)
    return Output(found, "\n".join(lines), code=1 if problem else 0)
