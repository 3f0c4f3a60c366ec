"""Install: the small plugin folder by which hermes-agent finds the memory provider.

hermes-agent 0.19 looks for memory providers in folders alone, and not among the entry points of installed packages. So
a folder in its home names the provider; the code stays in the installed package.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from millgate.errors import InputError

_MARK = "Written by `millgate hermes install`"
FILES = {
    "__init__.py": f'"""Millgate as the memory provider of hermes-agent. {_MARK}."""\n\n'
    "# hermes-agent takes a folder for a memory provider if it reads the word register_memory_provider here\n"
    "from millgate.integrations.hermes import register\n\n"
    '__all__ = ["register"]\n',
    "plugin.yaml": f"# {_MARK}\n"
    "name: millgate\n"
    "description: Facts, passages and earlier turns within a token budget, with reasons\n"
    "kind: exclusive\n",
}


def plugin_folder(home: Path | None = None) -> Path:
    """Where hermes-agent looks for the plugin: below its home, by default where it puts that itself."""
    if home is None:
        windows = Path.home() / "AppData" / "Local" / "hermes"
        home = windows if sys.platform == "win32" else Path.home() / ".hermes"
    return home / "plugins" / "millgate"


def install(folder: Path) -> bool:
    """Write the plugin folder; whether that changed anything. A folder of someone else's is an error."""
    _refuse_foreign(folder)
    old = {name: _read(folder / name) for name in FILES}
    if old == FILES:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    return True


def uninstall(folder: Path) -> bool:
    """Take the plugin folder away; whether it was there. Files that are not ours stay, and the folder with them."""
    _refuse_foreign(folder)
    ours = [folder / name for name in FILES if _read(folder / name) is not None]
    try:
        for path in ours:
            path.unlink()
        for compiled in (folder / "__pycache__").glob("__init__.*.pyc"):
            compiled.unlink()
        for place in (folder / "__pycache__", folder):
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
    except OSError as error:
        raise InputError(f"cannot remove {folder}: {error.strerror or error}") from error
    return bool(ours)


def is_beside_hermes() -> bool:
    """Whether hermes-agent is installed in this Python, so that it can import Millgate."""
    return find_spec("hermes_constants") is not None


def _refuse_foreign(folder: Path) -> None:
    """Refuse to touch a file that another program or a person wrote."""
    for name in FILES:
        text = _read(folder / name)
        if text is not None and _MARK not in text:
            raise InputError(
                f"{folder / name} is not ours: it is left as it is",
                hint="move it away, or give another --home",
            )


def _read(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", hint="check the file") from error
