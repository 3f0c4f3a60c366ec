"""Install: write one server into a client's configuration, and take it out again.

A file that cannot be read or parsed is left alone. Writing is atomic: a crash leaves the old file or the new one.
"""

import os
import stat
import sys
from pathlib import Path
from uuid import uuid4

from millgate.errors import InputError
from millgate.integrations.mcp_clients.clients import Entry, Place
from millgate.settings import load

# Of a configuration. Claude Code keeps its history in its own, which may have tens of megabytes.
_MOST_BYTES = 256 << 20


def install(place: Place, entry: Entry) -> bool:
    """Add a server to a configuration; whether that changed it. Another server of the same name is an error."""
    text = _read(place.path)
    try:
        known = None if text is None else place.find(text, entry.name)
        changed = place.add(text, entry) if known is None else ""
    except InputError as error:
        raise _unchanged_error(
            place, error, "add the entry by hand: millgate mcp install --print"
        ) from error
    if known == place.value(entry):
        return False
    if known is not None:
        raise InputError(
            f"{place.path} has another server named {entry.name}",
            hint="remove it with: millgate mcp uninstall, or choose a --name",
        )
    _write(place.path, changed)
    return True


def uninstall(place: Place, name: str) -> bool:
    """Take a server out of a configuration; whether it was there. The file is as it was before `install`."""
    text = _read(place.path)
    if text is None:
        return False
    try:
        changed = place.remove(text, name)
    except InputError as error:
        raise _unchanged_error(place, error, "take the entry out by hand") from error
    if changed == text:
        return False
    if changed is None:
        place.path.unlink()
    else:
        _write(place.path, changed)
    return True


def _unchanged_error(place: Place, error: InputError, hint: str) -> InputError:
    return InputError(f"{place.path} is left as it is: {error.message}", hint=hint)


def _read(path: Path) -> str | None:
    """The text of a file with its own line ends; None if there is no file."""
    try:
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES:
            return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is left as it is: it cannot be read: {error}", hint="check the file"
        ) from error
    why = f"a regular file of at most {_MOST_BYTES:,} bytes is expected"
    raise InputError(f"{path} is left as it is: {why}", hint="check the file")


def _write(path: Path, text: str) -> None:
    """Replace a file at once, with the permissions it had; a link stays a link.

    Nobody else can read the copy while it is written: such a file may hold keys.
    """
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o7777)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def launch_command(
    store: str | None, *, tenant: str | None, collection: str, result: str, portable: bool
) -> list[str]:
    """The command and its arguments.

    A client may start it anywhere and without the user's PATH, so program and store are absolute; if it is
    `portable`, for a file that a team shares, both stay as they are.
    """
    program = ["millgate"] if portable else _program()
    arguments = ["mcp", *_place(store, portable=portable)]
    if tenant is not None:
        arguments += ["--tenant", tenant]
    if collection != "main":
        arguments += ["--collection", collection]
    if result != "text":
        arguments += ["--result", result]
    return [*program, *arguments]


def _program() -> list[str]:
    script = Path(sys.executable).parent / (
        "millgate.exe" if sys.platform == "win32" else "millgate"
    )
    return [str(script)] if script.exists() else [sys.executable, "-m", "millgate"]


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
