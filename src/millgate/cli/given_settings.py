"""Whether anything is set at all, told without loading the settings.

Loading them takes longer than all the rest of a command that must start at once, and most runs set nothing.
"""

import os

FILE = "millgate.toml"
CONFIG = "MILLGATE_CONFIG"
PREFIXES = ("MILLGATE_", "CONTEXT_GATEWAY_SELFREF_")


def has_file() -> bool:
    """Whether a settings file is named or stands in the current folder."""
    return bool(os.environ.get(CONFIG)) or os.path.isfile(FILE)  # noqa: PTH113  (Path.is_file raises in a folder that may not be read)


def has_settings() -> bool:
    """Whether a file or a variable may set something."""
    return has_file() or any(name.startswith(PREFIXES) for name in os.environ)
