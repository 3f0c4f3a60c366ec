"""Plugins: memory providers that installed packages offer under the entry-point group `millgate.memory`."""

from importlib.metadata import EntryPoint, entry_points

from millgate.errors import ConfigError, UpstreamError
from millgate.own_parts import contain
from millgate.protocols import MemoryProvider

ENTRY_POINTS = "millgate.memory"


def load_plugins() -> list[MemoryProvider]:
    """The providers that installed packages offer, by name of their entry point.

    An entry names a class or function that makes a provider without arguments.
    """
    made: list[MemoryProvider] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            provider = contain("plugin", _make, entry)
        except (
            UpstreamError,
            ImportError,
            AttributeError,
            TypeError,
            ValueError,
            OSError,
            RuntimeError,
        ) as error:
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


def _make(entry: EntryPoint) -> MemoryProvider:
    made: MemoryProvider = entry.load()()
    return made
