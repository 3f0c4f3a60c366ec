"""What a settings file may set that was merely found in the current folder.

The author of a repository writes that file too, and entering a folder is not consent. So it may tune retrieval, and
place the store within its folder, where it would be without the file as well. All else comes from the environment, or
from a file that HEADGATE_CONFIG names: what guards, redacts, caps or limits, what is kept and logged, and every name of
a model, a command, an address or words for the model.
"""

from pathlib import Path

from headgate.errors import ConfigError

HINT = "set it in the environment, or name the file yourself: HEADGATE_CONFIG=headgate.toml"

GROUPS = frozenset(
    {"decide", "retrieve", "propagate", "facts", "recall", "graph", "penalize", "expand", "gate", "grade"}
)  # fmt: skip
"""Groups of settings that tune retrieval. A setting that is added to one of them may be set by a found file."""
NAMES = frozenset({"tokens", "ingest.chunk.target", "ingest.chunk.maximum"})
"""Further settings that do."""
NOT_TUNING = frozenset({"grade.weights"})
"""Settings of these groups that name a file or a model."""


def refuse(name: str, value: object, folder: Path) -> ConfigError | None:
    """Why a file found in the folder may not set this; None if it may."""
    if name == "store":
        if value == ":memory:" or _is_inside(str(value), folder):
            return None
        what = "names a path outside its folder"
    elif name in NAMES or (name.partition(".")[0] in GROUPS and name not in NOT_TUNING):
        return None
    else:
        what = "tunes no retrieval"
    return ConfigError(
        f"{name} {what}, so a headgate.toml found in the current folder may not set it", hint=HINT
    )


def _is_inside(path: str, folder: Path) -> bool:
    return (folder / path).resolve().is_relative_to(folder.resolve())
