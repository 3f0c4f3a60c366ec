"""`millgate hermes`: the plugin folder by which hermes-agent finds Millgate as its memory."""

from pathlib import Path

import click

from millgate.cli.options import CommandGroup, Output, prints
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
@prints
def install_command(home: Path | None) -> Output:
    """Write the plugin folder by which hermes-agent finds the memory provider."""
    folder = plugin_folder(home)
    changed, beside = install(folder), is_beside_hermes()
    done = f"wrote {folder}" if changed else f"{folder} is there already"
    return Output(
        {"path": str(folder), "changed": changed, "hermes_agent_found": beside},
        f"{done}\nto use it: hermes config set memory.provider millgate",
        ""
        if beside
        else "note: hermes-agent is not installed in this Python; install it in that of hermes-agent: in the clone of the repository, pip install .",
    )


@hermes.command("uninstall", epilog="Example: millgate hermes uninstall")
@home_option
@prints
def uninstall_command(home: Path | None) -> Output:
    """Remove the plugin folder. Stored memories stay."""
    folder = plugin_folder(home)
    changed = uninstall(folder)
    done = f"removed {folder}" if changed else f"{folder} is not there"
    return Output({"path": str(folder), "changed": changed}, done)
