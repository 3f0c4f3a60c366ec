"""The Claude Code plugin: where its folder is, in an installed package or in a checkout."""

from pathlib import Path

from headgate.errors import NotFound


def plugin_folder() -> Path:
    """The folder to give to Claude Code."""
    package = Path(__file__).resolve().parents[1]
    for folder in (
        package / "plugins" / "claude-code",
        package.parents[1] / "plugins" / "claude-code",
    ):
        if (folder / ".claude-plugin" / "plugin.json").is_file():
            return folder
    raise NotFound(
        "this installation has no plugin folder", hint="take plugins/claude-code from the source"
    )
