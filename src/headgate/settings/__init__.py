"""Settings: arguments > environment > `headgate.toml` > defaults."""

from headgate.settings.load import changed, load, settings_file
from headgate.settings.schema import Settings
from headgate.settings.show import Inspection, Setting, inspect, page

__all__ = [
    "Inspection",
    "Setting",
    "Settings",
    "changed",
    "inspect",
    "load",
    "page",
    "settings_file",
]
