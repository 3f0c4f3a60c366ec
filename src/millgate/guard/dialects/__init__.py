"""Dialects: the wire formats of model APIs, one file for each, with all that the guard and the proxy know of it.

`dialect.py` has the protocol. `DIALECTS` lists those of this package; a user's package adds its own under the
entry-point group `millgate.dialects`. Dialects know the guard's pieces and text, and nothing of HTTP. Start with
`dialect.py`, then read `chat.py`.
"""

from functools import cache

from millgate.errors import ConfigError
from millgate.guard.dialects.chat import ChatDialect, CompletionsDialect
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.dialects.gemini import GeminiDialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.responses import ResponsesDialect

ENTRY_POINTS = "millgate.dialects"
DIALECTS: tuple[type[Dialect], ...] = (
    ChatDialect,
    CompletionsDialect,
    GeminiDialect,
    MessagesDialect,
    ResponsesDialect,
)


@cache
def installed_dialects() -> tuple[type[Dialect], ...]:
    """The dialects of this package, then those that installed packages add, by name; read once a process."""
    from importlib.metadata import entry_points  # noqa: PLC0415  (only the proxy needs it)

    found = list(DIALECTS)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            kind = entry.load()
        except (ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError) as error:
            raise ConfigError(
                f"the dialect {entry.name!r} cannot be loaded: {error}",
                hint=f"repair or uninstall the package that offers {entry.value}",
            ) from error
        if Dialect not in getattr(kind, "__mro__", ()):
            raise ConfigError(
                f"the dialect {entry.name!r} is not a class that extends Dialect",
                hint="extend millgate.guard.dialects.dialect.Dialect, or a dialect of millgate",
            )
        _check_complete(entry.name, kind)
        taken = next((other for other in found if other.path == kind.path), None)
        if taken is not None:
            raise ConfigError(
                f"the dialect {entry.name!r} has the path {kind.path} of {taken.__name__}",
                hint=f"give {entry.value} a path of its own",
            )
        found.append(kind)
    return tuple(found)


def _check_complete(name: str, kind: type[Dialect]) -> None:
    """ConfigError if a class leaves out what only its API can say."""
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    missing += [] if isinstance(getattr(kind, "path", None), str) else ["path"]
    if missing:
        raise ConfigError(
            f"the dialect {name!r} is not complete: {kind.__name__} lacks {', '.join(missing)}",
            hint="define them, or extend a dialect that has them, such as ChatDialect",
        )


def dialect_for(path: str) -> Dialect:
    """The dialect of a path; that of OpenAI's chat for paths that belong to none."""
    return next((kind for kind in installed_dialects() if kind.owns(path)), ChatDialect)()
