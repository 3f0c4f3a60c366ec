"""Internal: the command line. A command parses its arguments, calls the library, and prints the answer.

It may import every other package, and no other package imports it. Start reading at SECTIONS, which says where each
command lives. A command is imported when it is called, so that `millgate --help` is instant and only the command that
needs an optional package asks for it. An error raised on purpose becomes two lines on stderr and exit code 2.
"""

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from millgate import __version__
from millgate.cli.command_group import CommandGroup
from millgate.cli.given_settings import has_file
from millgate.cli.terminal import echo
from millgate.errors import MillgateError
from millgate.text.meant import nearest
from millgate.text.table import clip, printable

if TYPE_CHECKING:
    from millgate.settings.load import File

INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended, as shells have it
MOST_TOLD = 10  # settings of a found file that are printed

# what it is for -> command -> (where it lives, its line in --help)
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Context": {
        "add": ("millgate.cli.add:add", "Add files, folders or a pipe to the store."),
        "context": ("millgate.cli.context:context", "Print the best context for a query that fits a budget."),
        "ask": ("millgate.cli.ask:ask", "Answer a question from what was added, with citations."),
        "why": ("millgate.cli.why:why", "Say what became of a request, and why a chunk entered or not."),
        "replay": ("millgate.cli.why:replay", "Run a stored request under other settings."),
        "strategy": ("millgate.cli.context:strategy", "Say whether to load content whole, search it, or both."),
        "test": ("millgate.cli.evaluate:test", "Check that what must enter a context still does."),
    },
    "Agents": {
        "wrap": ("millgate.cli.wrap:wrap", "Run an agent with its model calls guarded."),
        "guard": ("millgate.cli.guard:guard", "Pass a stream on, and end it when it loops."),
        "xray": ("millgate.cli.xray:xray", "Show what filled the window in recorded agent sessions."),
        "serve": ("millgate.cli.service:serve", "Serve the gateway, the proxy and the dashboard over HTTP."),
        "mcp": ("millgate.cli.mcp:mcp", "Serve agents over MCP; install it in their configuration."),
        "hermes": ("millgate.cli.hermes:hermes", "Install Millgate as the memory of hermes-agent."),
    },
    "Set-up": {
        "demo": ("millgate.cli.demo:demo", "Show Millgate at work on its own documentation."),
        "doctor": ("millgate.cli.status:doctor", "Say what is wrong here and what to do."),
        "status": ("millgate.cli.status:status", "Show what is in the store, and how large it is."),
        "config": ("millgate.cli.config:config", "Show or check the settings; complete commands in a shell."),
    },
    "Groups of commands": {
        "store": ("millgate.cli.store:store", "List, remove, back up, check, copy what is stored."),
        "facts": ("millgate.cli.facts:facts", "Remember and recall facts, and change them."),
        "graph": ("millgate.cli.graph:graph", "Load knowledge, follow it, cut and verify slices."),
        "reviews": ("millgate.cli.reviews:reviews", "Decide the questions that wait for a person."),
        "sessions": ("millgate.cli.service:sessions", "Show what sessions have spent; resume paused ones."),
        "keys": ("millgate.cli.service:keys", "Make, list and revoke API keys of the service."),
        "fold": ("millgate.cli.fold:fold", "Fold what a conversation holds twice, and undo it."),
        "expand": ("millgate.cli.fold:expand", "Undo `millgate fold`."),
        "eval": ("millgate.cli.evaluate:evaluation", "Measure Millgate on labeled data."),
    },
}  # fmt: skip
COMMANDS = {name: found for section in SECTIONS.values() for name, found in section.items()}

# former name -> present name; a former name still runs its command, and says where the command went
MOVED = {
    "traces": "why --list",
    "remember": "facts remember",
    "recall": "facts recall",
    "feedback": "facts feedback",
    "review": "reviews",
    "ls": "store ls",
    "show": "store show",
    "remove": "store remove",
    "reindex": "store reindex",
    "backup": "store backup",
    "restore": "store restore",
    "export": "store export",
    "import": "store import",
    "check": "store check",
    "compact": "store compact",
    "completion": "config completion",
}


# what people of other tools type -> the command of ours
MEANT = {
    "search": "context QUERY",
    "query": "context QUERY",
    "retrieve": "context QUERY",
    "chat": "ask QUESTION",
    "index": "add PATH",
    "ingest": "add PATH",
    "list": "store ls",
    "help": "--help",
    "version": "--version",
}


class LazyGroup(CommandGroup):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All command names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or None if there is none of that name."""
        return _import_command(COMMANDS[cmd_name][0]) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called. A former name runs its command and says where it went."""
        given = args[0]
        if given in MOVED:
            args = [*MOVED[given].split(), *args[1:]]
            if not ctx.resilient_parsing:  # a shell completes, and shows no notes
                echo(f"note: 'millgate {given}' is now 'millgate {MOVED[given]}'", err=True)
        return super().resolve_command(ctx, args)

    def suggest(self, ctx: click.Context, given: str) -> str:
        """The sentence that names the command which was probably meant, former names included, or nothing."""
        if given in MEANT:
            return f" Try: millgate {MEANT[given]}"
        close = nearest(given, [*COMMANDS, *MOVED])
        return f" Did you mean '{MOVED.get(close, close)}'?" if close else ""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that is called. Ctrl-C ends it with 130, also at a question; click's own 1 is our "no"."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:  # click names all that are a little alike
            close = nearest(error.option_name, error.possibilities or ())
            meant = [close] if close else None
            raise click.NoSuchOption(
                error.option_name, possibilities=meant, ctx=error.ctx
            ) from None
        except (KeyboardInterrupt, click.Abort) as error:
            # click makes an Abort of Ctrl-C at a question, and of the answer "no"
            if isinstance(error, click.Abort) and not isinstance(error.__context__, KeyboardInterrupt):  # fmt: skip
                raise
            echo("\nstopped", err=True)
            sys.exit(INTERRUPTED)

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


def _import_command(place: str) -> click.Command:
    """Import the command at `module:name`, without two things that a short process has no use for.

    Objects that an import makes are not searched for garbage, neither now nor when the process ends: `millgate context`
    takes 1.32 s of CPU so and 1.50 s otherwise. numpy starts threads for large matrix products; a command has none:
    1.32 s instead of 1.38 s. (Medians of 15 alternated runs on a slow machine with two cores, 471 chunks; `millgate
    --help` imports no command and takes 0.15 s.) Programs that a command starts see the environment unchanged.
    """
    module, _, name = place.partition(":")
    user_decides = "OPENBLAS_NUM_THREADS" in os.environ
    if not user_decides:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.disable()
    try:
        command = getattr(import_module(module), name)
    finally:
        gc.freeze()
        gc.enable()
        if not user_decides:
            del os.environ["OPENBLAS_NUM_THREADS"]
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="millgate")
def app() -> None:
    """Millgate: the gate between an LLM agent and its model."""
    if not has_file():
        return
    from millgate.settings import settings_file  # noqa: PLC0415  (most runs have none)

    file = settings_file()
    if file:
        where = printable(str(file.path.absolute()))
        echo(f"settings: {where}{'' if file.named else _tell_found(file)}", err=True)


def _tell_found(file: "File") -> str:
    """What a file sets that the user did not name: whoever wrote the folder may have written it."""
    from millgate.settings.load import list_public_settings  # noqa: PLC0415  (as above)

    told = [f"{name} = {value!r}" for name, value in list_public_settings(file).items()]
    more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    shown = ", ".join(clip(printable(one), 100) for one in told[:MOST_TOLD])
    return f", found in this folder, sets {shown}{more}" if told else ""


def main(args: list[str] | None = None) -> None:
    """Run the command line; print errors as what happened and what to do."""
    try:
        app.main(args=args, prog_name="millgate")
    except MillgateError as error:
        echo(f"error: {printable(error.message)}", err=True)
        if error.hint:
            echo(f"hint: {printable(error.hint)}", err=True)
        sys.exit(2)
    except PermissionError as error:
        if error.filename is None:  # not a path that somebody named
            raise
        echo(f"error: {printable(str(error.filename))}: {error.strerror}", err=True)
        echo("hint: give this user the right to use it, or name another path", err=True)
        sys.exit(2)
