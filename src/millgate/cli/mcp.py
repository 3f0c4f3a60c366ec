"""`millgate mcp`: the MCP server over stdio, and its entry in the configuration of MCP clients."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from millgate.cli.options import (
    CommandGroup,
    Output,
    collection_option,
    note_missing,
    open_gate,
    place_options,
    prints,
    shipped,
)
from millgate.cli.terminal import echo
from millgate.errors import InputError, MissingExtra, NotFound
from millgate.integrations.mcp_clients import CLIENTS, Entry, find_place, launch_command

TOOLS_S = 0.5  # in which a client asks for the tools, after it has started us: agents do so within some 50 ms

client_option = click.option(
    "--client", type=click.Choice(list(CLIENTS)), required=True, help="The client to configure."
)
scope_option = click.option(
    "--scope", type=click.Choice(["user", "project"]), default="user", show_default=True,
    help="Configure all projects of the user, or the project in the current folder.",
)  # fmt: skip
name_option = click.option(
    "--name", default="millgate", show_default=True, help="The server's name in the client."
)


@click.group(
    cls=CommandGroup, invoke_without_command=True, epilog="Example: millgate mcp --store ./kb"
)
@place_options
@collection_option
@click.pass_context
def mcp(ctx: click.Context, store: str | None, tenant: str | None, collection: str) -> None:
    """Serve one MCP client over stdin and stdout until it closes them."""
    if ctx.invoked_subcommand is not None:
        return
    _require_package()
    from millgate.integrations.mcp.early import EarlyClient  # noqa: PLC0415  (to install needs none)

    if sys.stdin.isatty():
        echo("waiting for an MCP client on stdin; to set one up: millgate mcp install", err=True)
    client = EarlyClient.claim()
    if client is not None:
        client.wait_until_needed(TOOLS_S)
    from millgate.integrations.mcp.server import serve  # noqa: PLC0415  (an extra, and slow to load)

    note_missing(store)
    with open_gate(store, tenant) as gate:
        serve(gate, collection=collection, client=client)


@mcp.command("install", epilog="Example: millgate mcp install --client claude")
@client_option
@scope_option
@name_option
@place_options
@collection_option
@click.option("--print", "only_print", is_flag=True, help="Print the entry; change nothing.")
@prints
def install_command(
    client: str,
    scope: str,
    name: str,
    only_print: bool,
    **served: Any,  # noqa: ANN401  # store, tenant, collection
) -> Output:
    """Add Millgate to the configuration of an MCP client."""
    if not only_print:
        _require_package()
    place = find_place(client, scope)
    command, *arguments = launch_command(**served, portable=scope == "project")
    entry = Entry(_check_name(name), command, tuple(arguments))
    told = {"client": client, "path": str(place.path), "changed": False}
    if only_print:
        return Output(told, place.snippet(entry).rstrip("\n"), f"this belongs into {place.path}")
    note_missing(served["store"])
    if not place.install(entry):
        return Output(told, f"{name} is in {place.path} already")
    done = f"added {name} to {place.path}; restart {place.title} to use it"
    return Output(told | {"changed": True}, done)


@mcp.command("uninstall", epilog="Example: millgate mcp uninstall --client claude")
@client_option
@scope_option
@name_option
@prints
def uninstall_command(client: str, scope: str, name: str) -> Output:
    """Remove Millgate from the configuration of an MCP client."""
    place = find_place(client, scope)
    changed = place.uninstall(_check_name(name))
    done = f"removed {name} from {place.path}" if changed else f"{name} is not in {place.path}"
    return Output({"client": client, "path": str(place.path), "changed": changed}, done)


@mcp.command("plugin-path", epilog="Example: millgate mcp plugin-path")
def plugin_path() -> None:
    """Print the folder of the Claude Code plugin."""
    echo(str(plugin_folder()))


def _require_package() -> None:
    """Refuse to serve, or to have a client start, a server whose package is not installed."""
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", extra="mcp")


def _check_name(name: str) -> str:
    """Refuse a name that is not a plain key in both JSON and TOML."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InputError(f"the name {name!r} cannot be used", hint="use letters, digits, - and _")
    return name


def plugin_folder() -> Path:
    """The folder to give to Claude Code."""
    manifest = shipped("plugins/claude-code/.claude-plugin/plugin.json")
    if manifest is None:
        raise NotFound(
            "this installation has no plugin folder",
            hint="take plugins/claude-code from the source",
        )
    return manifest.parents[1]
