"""The settings of a Millgate: arguments before the environment, `millgate.toml` and defaults.

For example: `Millgate.open("./kb", settings=Settings(retrieve={"k1": 1.5}))`. The page of settings says what each of
them does.

`Settings` (schema.py) joins the policies of all stages with those of stores, models and the service. The package reads
files and variables and checks them; it knows the policies, and opens nothing. Wiring builds the parts from it.
Start with schema.py, then load.py, which says where a value comes from.
"""

from millgate.settings.load import (
    Inspection,
    Setting,
    inspect,
    load,
    settings_file,
    with_changes,
)
from millgate.settings.schema import Settings

__all__ = [
    "Inspection",
    "Setting",
    "Settings",
    "inspect",
    "load",
    "settings_file",
    "with_changes",
]
