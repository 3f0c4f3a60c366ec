"""Settings: arguments > environment > `headgate.toml` > defaults."""

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
