"""Launch: the command line with which a client starts `headgate mcp`."""

import sys
from pathlib import Path

from headgate.errors import InputError
from headgate.settings import load


def launch_command(
    store: str | None, *, tenant: str | None, collection: str, result: str, portable: bool
) -> list[str]:
    """The command and its arguments.

    A client may start it anywhere and without the user's PATH, so program and store are absolute; where it is
    `portable`, for a file that a team shares, both stay as they are.
    """
    program = ["headgate"] if portable else _program()
    arguments = ["mcp", *_place(store, portable=portable)]
    if tenant is not None:
        arguments += ["--tenant", tenant]
    if collection != "main":
        arguments += ["--collection", collection]
    if result != "both":
        arguments += ["--result", result]
    return [*program, *arguments]


def _program() -> list[str]:
    script = Path(sys.executable).parent / (
        "headgate.exe" if sys.platform == "win32" else "headgate"
    )
    return [str(script)] if script.exists() else [sys.executable, "-m", "headgate"]


def _place(store: str | None, *, portable: bool) -> list[str]:
    if portable:
        return [] if store is None else ["--store", store]
    if store is None:
        store = load().store
        if "://" in store:
            raise InputError(
                "the store of the settings is an address, which may hold a password",
                hint="name it with --store to write it into the client's configuration",
            )
    return ["--store", store if "://" in store else str(Path(store).absolute())]
