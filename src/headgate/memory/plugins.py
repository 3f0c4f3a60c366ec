"""Plugins: memory providers that installed packages offer.

A package names them under the entry-point group `headgate.memory`. Most installations have none, and a look at the
files says so ten times faster than the standard library does, which reads the entry points of all packages.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from headgate.errors import ConfigError
from headgate.protocols import MemoryProvider

ENTRY_POINTS = "headgate.memory"


def load_plugins() -> list[MemoryProvider]:
    """Providers that installed packages offer under the entry-point group `headgate.memory`, by name.

    An entry names a class or function that makes a provider without arguments.
    """
    if not _may_have_any():
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415  (it takes as long to load as all of sqlite3)

    made: list[MemoryProvider] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            provider = entry.load()()
        except (ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError) as error:
            raise ConfigError(
                f"the memory plugin {entry.name!r} cannot be loaded: {error}",
                hint=f"repair or uninstall the package that offers {entry.value}",
            ) from error
        if not callable(getattr(provider, "prefetch", None)):
            raise ConfigError(
                f"the memory plugin {entry.name!r} has no prefetch()",
                hint="a provider has a name, is_available() and prefetch(query, ...)",
            )
        made.append(provider)
    return made


def _may_have_any() -> bool:
    """Whether a package may offer providers; surely not where no list of entry points names the group."""
    if any(
        hasattr(finder, "find_distributions")
        for finder in sys.meta_path
        if finder is not PathFinder
    ):
        return True
    return any(map(_may_hold_any, sys.path))


def _may_hold_any(place: str) -> bool:
    """Whether a package in a place of the path names the group; in an archive one may."""
    group = f"[{ENTRY_POINTS}]".encode()
    folder = Path(place)
    try:
        lists = folder.glob("*-info/entry_points.txt")
        return folder.is_file() or any(group in path.read_bytes() for path in lists)
    except OSError:
        return True
