"""Internal: the settings of a Headgate: arguments before the environment, `headgate.toml` and defaults.

`Settings` (schema.py) joins the policies of all stages with those of stores, models and the service. The package reads
files and variables and checks them; it knows the policies, and opens nothing. Wiring builds the parts from it.
Start with schema.py, then load.py, which says where a value comes from.
"""

from headgate.settings.load import load, settings_file, with_changes
from headgate.settings.schema import Settings
from headgate.settings.show import Inspection, Setting, inspect, page

__all__ = [
    "Inspection",
    "Setting",
    "Settings",
    "inspect",
    "load",
    "page",
    "settings_file",
    "with_changes",
]
