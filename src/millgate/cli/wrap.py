"""`millgate wrap AGENT [ARGS]`: an agent with the gateway beside it."""

import asyncio
import os
import sys
from contextlib import suppress

import click

from millgate.cli.given_settings import has_settings
from millgate.cli.terminal import echo
from millgate.errors import InputError, MillgateError
from millgate.text.meant import nearest
from millgate.wrap.run import run_wrapped
from millgate.wrap.spec import MEMORY, GatewaySpec


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: millgate wrap claude",
)
@click.option("--store", help="Store for context and traces (default: neither is kept).")
@click.option(
    "--inject/--no-inject",
    default=None,
    help="Add context from the store (default: if --store is given).",
)
@click.option(
    "--remember",
    is_flag=True,
    help="Put back rules and what a question needs if the agent compacts its window.",
)
@click.option(
    "--upstream",
    "given",
    multiple=True,
    metavar="PROVIDER=URL",
    help="Where to send calls, as openai=http://localhost:11434/v1 (default: where the agent would send them).",
)
@click.option(
    "--fold",
    is_flag=True,
    help="Fold what already stands in the window into pointers to it (default: the setting `fold.mode`).",
)
@click.option(
    "--patience",
    type=click.FloatRange(0.1, 600),
    default=0.8,
    show_default=True,
    help="Seconds that the gateway may delay a call before the call goes on without it.",
)
@click.option("--quiet", is_flag=True, help="Print no summary at the end.")
@click.argument("agent")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def wrap(
    store: str | None,
    inject: bool | None,
    remember: bool,
    given: tuple[str, ...],
    fold: bool,
    patience: float,
    quiet: bool,
    agent: str,
    args: tuple[str, ...],
) -> None:
    """Run an agent (claude, codex, gemini, hermes, opencode, openhands, pi, any command) with its model calls guarded.

    Only the process of the agent learns where to send its calls; no configuration is written. Calls go on to where the
    agent would have sent them, and straight there if the gateway fails. If that place is not clear, the agent is not
    started.
    """
    if agent.startswith("-"):
        known = [name for each in click.get_current_context().command.params for name in each.opts]
        close = nearest(agent, known)
        raise click.NoSuchOption(agent, possibilities=[close] if close else None)
    if os.name != "posix":
        raise InputError("wrap needs a POSIX system", hint="use the proxy: millgate serve")
    args = args[1:] if args[:1] == ("--",) else args
    upstreams = dict(map(_parse_upstream, given))
    fail_closed = _check_settings()
    wanted = store is not None if inject is None else inject
    spec = GatewaySpec(
        store or (None if wanted else MEMORY),
        inject=wanted,
        remember=remember,
        fold=fold,
        patience_s=patience,
        fail_closed=fail_closed,
    )
    code, summary = asyncio.run(
        run_wrapped((agent, *args), environ=os.environ, spec=spec, upstreams=upstreams)
    )
    if not quiet and (summary.routes.total() or not code):  # a command that failed says why itself
        with suppress(OSError):  # stderr is closed; the exit code is still the agent's
            for line in summary.lines():
                echo(f"millgate: {line}", err=True)
            in_vain = wanted and not summary.lost_store and not summary.sums["injected"]
            if in_vain and (empty := _describe_empty(store)):
                echo(f"millgate: {empty}", err=True)
    sys.exit(code)


def _describe_empty(store: str | None) -> str:
    """That the store of the session holds nothing to add, as one whose name was mistyped; "" if it does."""
    from millgate.cli.options import open_existing  # noqa: PLC0415  (the agent starts sooner)
    from millgate.operations.presence import describe_empty  # noqa: PLC0415

    with suppress(MillgateError), open_existing(store, None) as gate:
        return describe_empty(gate)
    return ""


def _check_settings() -> bool:
    """Whether calls are refused that are not counted; settings that cannot be used are an error before all else."""
    if not has_settings():
        return False
    from millgate.settings import load  # noqa: PLC0415

    fuse = load().fuse
    return fuse.fail_closed and bool(fuse.caps)


def _parse_upstream(given: str) -> tuple[str, str]:
    name, _, url = given.partition("=")
    if not url.startswith(("http://", "https://")):
        raise InputError(
            f"--upstream {given!r} is not PROVIDER=URL",
            hint="for example --upstream openai=http://localhost:11434/v1",
        )
    return name, url
