"""`millgate hermes`: the plugin folder by which hermes-agent finds Millgate as its memory."""

from pathlib import Path

import click

from millgate.cli.command_group import CommandGroup
from millgate.cli.options import json_option, print_json
from millgate.cli.terminal import echo
from millgate.integrations.hermes.install import (
    install,
    is_beside_hermes,
    plugin_folder,
    uninstall,
)

home_option = click.option(
    "--home", type=click.Path(path_type=Path, file_okay=False), envvar="HERMES_HOME",
    help="The home of hermes-agent (default: HERMES_HOME, else ~/.hermes).",
)  # fmt: skip


@click.group(cls=CommandGroup)
def hermes() -> None:
    """Install Millgate as the memory of hermes-agent, or take it out."""


@hermes.command("install", epilog="Example: millgate hermes install")
@home_option
@json_option
def install_command(home: Path | None, as_json: bool) -> None:
    """Write the plugin folder by which hermes-agent finds the memory provider."""
    folder = plugin_folder(home)
    changed, beside = install(folder), is_beside_hermes()
    if as_json:
        print_json({"path": str(folder), "changed": changed, "hermes_agent_found": beside})
        return
    echo(f"wrote {folder}" if changed else f"{folder} is there already")
    if not beside:
        echo(
            "note: hermes-agent is not installed in this Python; install it in that of hermes-agent: in the clone of the repository, pip install .",
            err=True,
        )
    echo("to use it: hermes config set memory.provider millgate")


@hermes.command("uninstall", epilog="Example: millgate hermes uninstall")
@home_option
@json_option
def uninstall_command(home: Path | None, as_json: bool) -> None:
    """Remove the plugin folder. Stored memories stay."""
    folder = plugin_folder(home)
    changed = uninstall(folder)
    if as_json:
        print_json({"path": str(folder), "changed": changed})
        return
    echo(f"removed {folder}" if changed else f"{folder} is not there")
