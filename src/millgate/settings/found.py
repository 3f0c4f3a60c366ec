"""What a settings file may set that was merely found in the current folder.

The author of a repository writes that file too, and entering a folder is not consent. So it may tune retrieval, and
place the store within its folder, where it would be without the file as well. All else comes from the environment, or
from a file that MILLGATE_CONFIG names: what guards, redacts, caps or limits, what is kept and logged, and every name of
a model, a command, an address or words for the model. What it may not set, or sets wrongly, is left out with a warning:
whoever clones a repository goes on working.
"""

import logging
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from millgate.errors import ConfigError
from millgate.text.table import clip, printable

_log = logging.getLogger(__name__)

HINT = "set it in the environment, or name the file yourself: MILLGATE_CONFIG=millgate.toml"
MOST_NAMED = 5  # settings that a warning names


class IgnoredSetting(ConfigError):
    """Something in a found file that is left out."""


GROUPS = frozenset(
    {"decide", "retrieve", "propagate", "facts", "recall", "graph", "penalize", "expand", "gate", "grade"}
)  # fmt: skip
"""Groups of settings that tune retrieval. A setting that is added to one of them may be set by a found file."""
NAMES = frozenset({"tokens", "ingest.chunk.target", "ingest.chunk.maximum"})
"""Further settings that do."""
NOT_TUNING = frozenset({"grade.weights"})
"""Settings of these groups that name a file or a model."""


@lru_cache(maxsize=64)  # a command loads the settings several times, and says this once
def warn(ignored: tuple[tuple[str, str], ...]) -> None:
    """Say in the log what of a found file is left out, and what to do: pairs of a message and its hint."""
    named = "; ".join(_tell(*one) for one in ignored[:MOST_NAMED])
    more = f"; and {len(ignored) - MOST_NAMED} more" if len(ignored) > MOST_NAMED else ""
    refused = any(hint == HINT for _, hint in ignored)
    advice = " (to set what a found file may not: MILLGATE_CONFIG=millgate.toml)" if refused else ""
    _log.warning("ignored: %s%s%s", named, more, advice)


def _tell(message: str, hint: str) -> str:
    """What is left out, and what to do; the advice for what may not be set is given once, for all."""
    said = clip(printable(message), 200)
    return said if hint in ("", HINT) else f"{said} ({clip(printable(hint), 100)})"


def refuse(name: str, value: object, folder: Path) -> IgnoredSetting | None:
    """Why a file found in the folder may not set this; None if it may."""
    if name == "store":
        if value == ":memory:" or _is_inside(str(value), folder):
            return None
        what = "names a path outside its folder"
    elif name in NAMES or (name.partition(".")[0] in GROUPS and name not in NOT_TUNING):
        return None
    else:
        what = "tunes no retrieval"
    return IgnoredSetting(
        f"{name} {what}, so a millgate.toml found in the current folder may not set it", hint=HINT
    )


def _is_inside(path: str, folder: Path) -> bool:
    with suppress(
        OSError, RuntimeError, ValueError
    ):  # a link that leads to itself, a name that no path can have
        return (folder / path).resolve().is_relative_to(folder.resolve())
    return False
