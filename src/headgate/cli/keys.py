"""`headgate keys create|list|revoke`: who may call the service, for which tenant, to do what."""

import click
import orjson
from rich.markup import escape
from rich.table import Table

from headgate.cli.options import json_option, open_gate
from headgate.cli.terminal import SafeConsole, echo
from headgate.keys import SCOPES

_STORE = click.option("--store", help="Store folder (default: the setting `store`).")
_TENANT = click.option("--tenant", help="Whose data (default: the setting `tenant`).")


@click.group()
def keys() -> None:
    """Make, list and revoke the API keys of the service."""


@keys.command()
@_STORE
@_TENANT
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
@_STORE
@click.option("--tenant", help="Only this tenant's.")
@json_option
def show(store: str | None, tenant: str | None, as_json: bool) -> None:
    """All keys: id, tenant, scopes, name, and whether they still work."""
    with open_gate(store, tenant) as hg:
        known = hg.keys.list_keys(all_tenants=tenant is None)
    rows = [
        {
            "id": key.id, "tenant": key.tenant, "scopes": list(key.scopes), "name": key.name,
            "created": key.created, "revoked": key.revoked,
        }
        for key in known
    ]  # fmt: skip
    if as_json:
        echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("id", "tenant", "scopes", "name", "", box=None, header_style="bold")
    for key in known:
        state = "works" if key.revoked is None else "revoked"
        table.add_row(key.id, escape(key.tenant), ", ".join(key.scopes), escape(key.name), state)
    SafeConsole().print(table)


@keys.command()
@click.argument("id")
@_STORE
@_TENANT
@json_option
def revoke(id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Let a key work no more; running services notice within seconds."""
    with open_gate(store, tenant) as hg:
        hg.keys.revoke(id)
    echo(orjson.dumps({"revoked": id}).decode() if as_json else f"revoked {id}")
