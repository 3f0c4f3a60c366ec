"""Internal: the command line. A command parses its arguments, calls the library, and prints the answer.

It may import every other package, and no other package imports it. Start reading at SECTIONS, which says where each
command lives. A command is imported when it is called, so that `millgate --help` is instant and only the command that
needs an optional package asks for it. An error raised on purpose becomes two lines on stderr and exit code 2.
"""

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click
from click.shell_completion import CompletionItem

from millgate import __version__
from millgate.cli.given_settings import has_file
from millgate.cli.options import CommandGroup
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
    },
    "Agents": {
        "wrap": ("millgate.cli.wrap:wrap", "Run an agent with its model calls guarded."),
        "xray": ("millgate.cli.xray:xray", "Show what filled the window in recorded agent sessions."),
        "serve": ("millgate.cli.service:serve", "Serve the gateway, the proxy and the dashboard over HTTP."),
        "mcp": ("millgate.cli.mcp:mcp", "Serve agents over MCP; install it in their configuration."),
    },
    "Look and set up": {
        "test": ("millgate.cli.evaluate:test", "Check that what must enter a context still does."),
        "doctor": ("millgate.cli.status:doctor", "Say what is wrong here and in the store, and what to do."),
        "status": ("millgate.cli.status:status", "Show what is in the store, and how large it is."),
        "demo": ("millgate.cli.demo:demo", "Show Millgate at work on its own documentation."),
        "config": ("millgate.cli.config:config", "Show or check the settings; complete commands in a shell."),
        "costs": ("millgate.cli.service:costs", "List what model calls took and cost."),
    },
    "Groups of commands": {
        "store": ("millgate.cli.store:store", "List, show, remove, back up and copy what is stored."),
        "facts": ("millgate.cli.facts:facts", "Remember and recall facts, and change them."),
        "graph": ("millgate.cli.graph:graph", "Load knowledge, follow it, cut and verify slices."),
        "reviews": ("millgate.cli.reviews:reviews", "Decide the questions that wait for a person."),
        "keys": ("millgate.cli.service:keys", "Make, list and revoke API keys of the service."),
    },
}  # fmt: skip
# the same for commands that few need: they work and have their --help, but are not on the first page
HIDDEN = {
    "eval": ("millgate.cli.evaluate:evaluation", "Measure Millgate on labeled data."),
    "expand": ("millgate.cli.fold:expand", "Undo `millgate fold`."),
    "fold": ("millgate.cli.fold:fold", "Fold what a conversation holds twice, and undo it."),
    "guard": ("millgate.cli.guard:guard", "Pass a stream on, and end it when it loops."),
    "hermes": ("millgate.cli.hermes:hermes", "Install Millgate as the memory of hermes-agent."),
    "replay": ("millgate.cli.why:replay", "Run a stored request under other settings."),
    "sessions": ("millgate.cli.service:sessions", "Show how far sessions are from their caps; resume paused ones."),
    "strategy": ("millgate.cli.context:strategy", "Say whether to load content whole, search it, or both."),
}  # fmt: skip
COMMANDS = {name: found for section in (*SECTIONS.values(), HIDDEN) for name, found in section.items()}  # fmt: skip

# a command of another design -> ours; it runs, and says where it went
MOVED = {
    "remember": "facts remember",
    "recall": "facts recall",
    "feedback": "facts feedback",
    "review": "reviews",
}


# what people of other tools type -> the command of ours
MEANT = {
    "search": "context QUERY",
    "query": "context QUERY",
    "retrieve": "context QUERY",
    "chat": "ask QUESTION",
    "index": "add PATH",
    "ingest": "add PATH",
    "list": "store list",
    "check": "doctor",
    "traces": "why --list",
    "completion": "config completion",
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
        """The command that is called. One of another design runs ours and says where it went."""
        given = args[0]
        if given in MOVED:
            args = [*MOVED[given].split(), *args[1:]]
            if not ctx.resilient_parsing:  # a shell completes, and shows no notes
                echo(f"note: 'millgate {given}' is now 'millgate {MOVED[given]}'", err=True)
        return super().resolve_command(ctx, args)

    def suggest(self, ctx: click.Context, given: str) -> str:
        """The sentence that names the command which was probably meant, or nothing."""
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
        formatter.write_paragraph()
        formatter.write_text(f"More, each with its own --help: {', '.join(HIDDEN)}.")


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
    """Run the command line; print each error as what happened and what to do."""
    try:
        code = app.main(args=args, prog_name="millgate", standalone_mode=False)
    except MillgateError as error:
        _fail(error.message, error.hint)
    except click.Abort:
        _fail("stopped", code=1)
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        called = context.command_path if context else "millgate"
        _fail(error.format_message(), f"see: {called} --help")
    except PermissionError as error:
        if error.filename is None:  # not a path that somebody named
            raise
        hint = "give this user the right to use it, or name another path"
        _fail(f"{error.filename}: {error.strerror}", hint)
    sys.exit(code)


def _fail(what: str, hint: str = "", *, code: int = 2) -> NoReturn:
    """End with an error: what happened, and what to do."""
    echo(f"error: {printable(what)}", err=True)
    if hint:
        echo(f"hint: {printable(hint)}", err=True)
    sys.exit(code)
