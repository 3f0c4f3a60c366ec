"""Options that many commands share, and opening the store they name."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import orjson

from headgate.cli.terminal import echo
from headgate.gateway import Headgate

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def place_options(command: F) -> F:
    """Which store, and whose."""
    command = click.option("--tenant", help="Whose data (default: the setting `tenant`).")(command)
    return click.option("--store", help="Store folder (default: the setting `store`).")(command)


def store_options(command: F) -> F:
    """Which store, whose, and which collection of it."""
    return place_options(click.option("--collection", default="main", show_default=True)(command))


def print_json(value: object) -> None:
    """A value, dataclasses included, as indented JSON."""
    echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def open_gate(store: str | None, tenant: str | None) -> Headgate:
    """Headgate over the named store, or the one that the settings name."""
    return Headgate.open(store, tenant=tenant)
