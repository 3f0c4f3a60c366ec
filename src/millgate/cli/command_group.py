"""A group of commands that names the one which was probably meant."""

import click

from millgate.text.meant import nearest

# what people type in a group -> its commands that do it
MEANT_IN_GROUP = {
    "rm": "remove revoke forget uninstall reject",
    "delete": "remove revoke forget uninstall reject",
    "ls": "list show",
    "get": "show",
    "cat": "show",
    "new": "create remember load",
    "add": "create remember load",
}


class CommandGroup(click.Group):
    """A group whose unknown commands get a suggestion."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = error.message.partition(" Did you mean")[
                0
            ]  # newer versions of click suggest too
            raise click.UsageError(f"{said}{self.suggest(ctx, args[0])}", ctx=ctx) from None

    def suggest(self, ctx: click.Context, given: str) -> str:
        """The sentence that names the command which was probably meant, or nothing."""
        if given == "help":
            return f" Try: {ctx.command_path} --help"
        names = self.list_commands(ctx)
        meant = [name for name in MEANT_IN_GROUP.get(given, "").split() if name in names]
        close = meant[0] if meant else nearest(given, names)
        return f" Did you mean '{close}'?" if close else ""
