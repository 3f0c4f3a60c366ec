"""Options that many commands share, and opening the store they name."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from headgate.cli.terminal import echo
from headgate.errors import InputError
from headgate.gateway import Headgate
from headgate.operations.presence import existing
from headgate.settings import load
from headgate.stores.open import folder_of
from headgate.stores.url import is_postgres

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
store_option = click.option(
    "--store", help="Folder or address of the store (default: the setting `store`)."
)


def place_options(command: F) -> F:
    """Which store, and whose."""
    command = click.option("--tenant", help="Whose data (default: the setting `tenant`).")(command)
    return store_option(command)


def store_options(command: F) -> F:
    """Which store, whose, and which collection of it."""
    of_store = click.option(
        "--collection", default="main", show_default=True, help="Which collection."
    )
    return place_options(of_store(command))


def read_input(name: str) -> bytes:
    """What a file holds, or standard input where its name is '-'."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", hint="check its path") from error


def print_json(value: object) -> None:
    """A value, dataclasses included, as indented JSON."""
    echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def open_gate(store: str | None, tenant: str | None) -> Headgate:
    """Headgate over the named store, or the one that the settings name; it is made when it is not there."""
    return Headgate.open(store, tenant=tenant)


def open_existing(store: str | None, tenant: str | None) -> Headgate:
    """The same for commands that only read: a store that is not there is an error that says what is."""
    given = {"store": store, "tenant": tenant}
    settings = load(arguments={name: value for name, value in given.items() if value is not None})
    if not is_postgres(settings.store):
        folder = folder_of(settings.store)
        if folder is not None:
            existing(folder)
    return Headgate.open(settings=settings)
