"""`headgate keys create|list|revoke`: who may call the service, for which tenant, to do what."""

import click
import orjson
from rich.markup import escape
from rich.table import Table

from headgate.cli.options import (
    json_option,
    open_existing,
    open_gate,
    place_options,
    print_json,
    store_option,
)
from headgate.cli.terminal import SafeConsole, echo
from headgate.keys import SCOPES


@click.group()
def keys() -> None:
    """Make, list and revoke the API keys of the service."""


@keys.command()
@place_options
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    help=f"What it may do: {', '.join(SCOPES)}, or proxy:NAME; repeat.",
)
@click.option("--name", default="", help="What it is for.")
@json_option
def create(
    store: str | None, tenant: str | None, scopes: tuple[str, ...], name: str, as_json: bool
) -> None:
    """Make a key (default: read and write). It is shown once and kept only as a hash."""
    with open_gate(store, tenant) as hg:
        made = hg.keys.create(scopes or ("read", "write"), name=name)
    if as_json:
        told = {"key": made.token, "id": made.key.id, "tenant": made.key.tenant}
        echo(orjson.dumps(told | {"scopes": made.key.scopes}).decode())
        return
    echo(made.token)
    echo(
        f"key {made.key.id} for tenant {made.key.tenant}: {', '.join(made.key.scopes)}; "
        "it is not shown again",
        err=True,
    )


@keys.command("list")
@store_option
@click.option("--tenant", help="Only this tenant's.")
@json_option
def show(store: str | None, tenant: str | None, as_json: bool) -> None:
    """All keys: id, tenant, scopes, name, and whether they still work."""
    with open_existing(store, tenant) as hg:
        known = hg.keys.list_keys(all_tenants=tenant is None)
    rows = [
        {
            "id": key.id, "tenant": key.tenant, "scopes": list(key.scopes), "name": key.name,
            "created": key.created, "revoked": key.revoked,
        }
        for key in known
    ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    table = Table("id", "tenant", "scopes", "name", "", box=None, header_style="bold")
    for key in known:
        state = "works" if key.revoked is None else "revoked"
        table.add_row(key.id, escape(key.tenant), ", ".join(key.scopes), escape(key.name), state)
    SafeConsole().print(table)


@keys.command()
@click.argument("id")
@place_options
@json_option
def revoke(id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Let a key work no more; running services notice within seconds."""
    with open_existing(store, tenant) as hg:
        hg.keys.revoke(id)
    echo(orjson.dumps({"revoked": id}).decode() if as_json else f"revoked {id}")
