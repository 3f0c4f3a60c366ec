"""The command line: parses, calls, prints.

Commands load when they are used, so that `headgate --help` is instant and an optional package is only
asked for by the command that needs it. An error raised on purpose becomes two lines and exit code 2.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from headgate import __version__
from headgate.cli.terminal import echo, printable
from headgate.errors import HeadgateError

# what it is for -> command -> (where it lives, its line in --help)
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("headgate.cli.demo:demo", "See Headgate at work on its own documentation."),
        "add": ("headgate.cli.add:add", "Add files, folders or a pipe to the store."),
        "context": ("headgate.cli.context:context", "Print the best context for a query that fits a budget."),
        "why": ("headgate.cli.why:why", "Say why a chunk was left out, and what would let it in."),
    },
    "Agents": {
        "wrap": ("headgate.cli.wrap:wrap", "Run an agent with its model calls guarded."),
        "serve": ("headgate.cli.serve:serve", "Serve the gateway, the proxy and the dashboard over HTTP."),
        "mcp": ("headgate.cli.mcp:mcp", "Serve agents over MCP; install it in their configuration."),
        "guard": ("headgate.cli.guard:guard", "Pass a stream on, and end it when it loops."),
        "xray": ("headgate.cli.xray:xray", "Show what filled the window in recorded agent sessions."),
        "sessions": ("headgate.cli.sessions:sessions", "Show what sessions have spent; resume paused ones."),
        "strategy": ("headgate.cli.strategy:strategy", "Say whether to load content whole, search it, or both."),
    },
    "Requests": {
        "traces": ("headgate.cli.traces:traces", "List the last requests, or show one in full."),
        "replay": ("headgate.cli.replay:replay", "Run a stored request under other settings."),
        "test": ("headgate.cli.test:test", "Check that what must enter a context still does."),
        "eval": ("headgate.cli.eval:evaluation", "Measure Headgate on labeled data."),
        "review": ("headgate.cli.review:review", "Decide the questions that wait for a person."),
    },
    "Memory": {
        "remember": ("headgate.cli.memory:remember", "Remember a fact, or the turns of a conversation."),
        "recall": ("headgate.cli.memory:recall", "Recall the facts that fit a query."),
        "feedback": ("headgate.cli.memory:feedback", "Tell whether a fact helped."),
        "facts": ("headgate.cli.memory:facts", "List, change, forget, fade and merge facts."),
        "graph": ("headgate.cli.graph:graph", "Load knowledge, follow it, cut and verify slices."),
    },
    "Store": {
        "status": ("headgate.cli.status:status", "Show what is in the store, and how large it is."),
        "ls": ("headgate.cli.status:ls", "List collections, or the documents of one."),
        "show": ("headgate.cli.show:show", "Show a document, chunk, fact, trace or review."),
        "remove": ("headgate.cli.add:remove", "Remove documents, chunks or a collection."),
        "reindex": ("headgate.cli.operations:reindex", "Rebuild the index of a collection from the store."),
        "backup": ("headgate.cli.operations:backup", "Copy the store while it is in use."),
        "restore": ("headgate.cli.operations:restore", "Put a backup in the place of the store."),
        "export": ("headgate.cli.operations:export", "Write what the store holds as JSON lines."),
        "import": ("headgate.cli.operations:import_records", "Add what an export wrote."),
        "check": ("headgate.cli.operations:check", "Check the store, and repair what is derived."),
        "compact": ("headgate.cli.operations:compact", "Give back the space of what was removed."),
        "store": ("headgate.cli.store:store", "Migrate, copy, check, distribute, measure a store."),
    },
    "Set-up": {
        "doctor": ("headgate.cli.operations:doctor", "Say what is wrong here and what to do."),
        "config": ("headgate.cli.config:config", "Show or check the settings in force."),
        "keys": ("headgate.cli.keys:keys", "Make, list and revoke API keys of the service."),
        "completion": ("headgate.cli.completion:completion", "Let the shell complete commands."),
    },
}  # fmt: skip
COMMANDS = {name: found for section in SECTIONS.values() for name, found in section.items()}


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All command names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        with _quick_imports():
            command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; a mistyped one is an error that names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # noqa: PLC0415  (--help stays instant)

            close = get_close_matches(args[0], COMMANDS, n=1)
            if not close:
                raise
            meant = f"{error.message} Did you mean '{close[0]}'?"
            raise click.UsageError(meant, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, and the options, without importing any command."""
        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are for, without importing them."""
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{width}}", line) for name, (_, line) in section.items()]
                )


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Import without what a command has no use for.

    What an import makes stays, so it is not searched for garbage, neither now nor when the process ends: a command that
    asks for a context takes 520 ms of CPU with this and 720 without. The command line owns its process; the library
    leaves the collector alone. numpy starts threads for large matrix products when it is imported: there are none
    here. Programs that a command starts see nothing of it.
    """
    alone = "OPENBLAS_NUM_THREADS" not in os.environ
    if alone:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
        if alone:
            del os.environ["OPENBLAS_NUM_THREADS"]


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headgate")
def app() -> None:
    """Headgate: the gate between an LLM agent and its model."""
    with _quick_imports():
        from headgate.settings import settings_file  # noqa: PLC0415  (--help stays instant)

    file = settings_file()
    if file:
        echo(f"settings: {printable(str(file.path.absolute()))}", err=True)


def main(args: list[str] | None = None) -> None:
    """Run the command line; print errors as what happened and what to do."""
    try:
        app.main(args=args, prog_name="headgate")
    except HeadgateError as error:
        echo(f"error: {printable(error.message)}", err=True)
        if error.hint:
            echo(f"hint: {printable(error.hint)}", err=True)
        sys.exit(2)
