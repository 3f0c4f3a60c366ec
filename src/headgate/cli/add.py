"""`headgate add`: files, folders and pipes into the store."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from headgate.cli.console import SafeConsole
from headgate.cli.options import json_option, open_gate, print_json, store_options
from headgate.cli.terminal import count_of, echo
from headgate.errors import InputError
from headgate.ingest.load import Kind, OnProgress, Summary
from headgate.ingest.load import Progress as Done

SHOWN = 20  # skipped files that a person sees: a screen of them. --json lists up to a thousand


@click.command(epilog="Example: headgate add docs/ --exclude 'drafts/'")
@click.argument("paths", nargs=-1, required=True)
@store_options
@click.option(
    "--exclude", multiple=True, help="Leave out paths that fit this git pattern; repeat for more."
)
@click.option("--ignored", is_flag=True, help="Also add files that .gitignore names.")
@click.option("--prune", is_flag=True, help="Remove documents of files that are gone.")
@click.option("--conversation", is_flag=True, help="Each row, or each line of a text, is a turn of a conversation.")  # fmt: skip
@click.option("--documents", is_flag=True, help="Treat all files as documents, even if they look like a conversation.")  # fmt: skip
@click.option("--id", default="stdin", show_default=True, help="Id of the text that '-' reads.")
@json_option
def add(
    paths: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    collection: str,
    exclude: tuple[str, ...],
    ignored: bool,
    prune: bool,
    conversation: bool,
    documents: bool,
    id: str,
    as_json: bool,
) -> None:
    """Add files and folders (PATHS), or what comes over a pipe (-). Files that have not changed are left alone."""
    if "-" in paths and len(paths) > 1:
        raise InputError("'-' stands alone", hint="add the files in a second call")
    if conversation and documents:
        raise InputError(
            "what is added is a conversation or documents, not both",
            hint="leave out --conversation or --documents; or add each in a call of its own",
        )
    last = Done()
    kind: Kind = "conversation" if conversation else "documents" if documents else ""
    with open_gate(store, tenant) as hg, _bar(quiet=as_json, last=last) as on_progress:
        try:
            if paths == ("-",):
                data = sys.stdin.buffer.read()
                made = hg.add_stream(
                    data, id=id, collection=collection, kind=kind, on_progress=on_progress
                )
            else:
                made = hg.add_files(
                    *paths, collection=collection, kind=kind, exclude=exclude, gitignore=not ignored,
                    prune=prune, on_progress=on_progress,
                )  # fmt: skip
        except KeyboardInterrupt:
            echo(f"stopped; what was added is kept: {last.documents:,} documents", err=True)
            sys.exit(130)
    _print_summary(made, as_json=as_json)
    if made.skips and not made.documents and not made.unchanged:
        sys.exit(1)


@contextmanager
def _bar(*, quiet: bool, last: Done) -> Iterator[OnProgress]:
    """Show a progress bar with rate and time left on standard error; keep `last` up to date, shown or not."""
    console = SafeConsole(stderr=True)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[chunks]:,} chunks, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    shown = console.is_terminal and not quiet
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("add", total=None, chunks=0, rate=0.0)

        def on_progress(done: Done) -> None:
            last.documents = done.documents
            spent = bar.tasks[0].elapsed or 0.0
            rate = done.chunks / spent if spent else 0.0
            bar.update(
                task,
                completed=min(done.bytes, done.total),
                total=done.total,
                chunks=done.chunks,
                rate=rate,
            )

        yield on_progress


def _print_summary(made: Summary, *, as_json: bool) -> None:
    if as_json:
        skipped = [{"what": skip.what, "reason": skip.reason} for skip in made.skipped]
        print_json(
            {
                "documents": made.documents,
                "chunks": made.chunks,
                "unchanged": made.unchanged,
                "removed": made.removed,
                "skips": made.skips,
                "skipped": skipped,
            }
        )
        return
    echo(
        f"added {count_of(made.documents, 'document')} ({count_of(made.chunks, 'chunk')} changed),"
        f" {made.unchanged:,} unchanged, {made.removed:,} removed, {made.skips:,} skipped"
    )
    if made.skipped:
        table = Table("skipped", "why", box=None, padding=(0, 2, 0, 0))
        for skip in made.skipped[:SHOWN]:
            table.add_row(escape(skip.what), escape(skip.reason))
        SafeConsole(stderr=True).print(table)
    if made.skips > SHOWN:
        echo(f"and {made.skips - SHOWN:,} more; --json lists them", err=True)
