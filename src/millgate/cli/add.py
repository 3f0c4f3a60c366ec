"""`millgate add`: files, folders and pipes into the store."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from millgate.cli.console import SafeConsole
from millgate.cli.options import json_option, open_gate, print_json, store_name, store_options
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.ingest.load import Kind, OnProgress, Summary
from millgate.ingest.load import Progress as Done
from millgate.ingest.readers import SourceFile
from millgate.ingest.rows import Skip
from millgate.ingest.walk import check_paths, walk
from millgate.stores.open import folder_of
from millgate.stores.sqlite.store import has_store
from millgate.text.table import count_of

LOOK_EVERY_S = 1.0  # between two looks at watched folders: a person who saves a file and asks does not wait longer
LOOK_SHARE = 20  # and a large folder is looked at so rarely that it takes a twentieth of one core
SHOWN = 20  # skipped files that a person sees: a screen of them. --json lists up to a thousand


@click.command(epilog="Example: millgate add docs/ --exclude 'drafts/'")
@click.argument("paths", nargs=-1, required=True)
@store_options
@click.option(
    "--exclude", multiple=True, help="Leave out paths that fit this git pattern; repeat for more."
)
@click.option("--ignored", is_flag=True, help="Also add files that .gitignore names.")
@click.option(
    "--prune",
    is_flag=True,
    help="Remove documents of files that are gone, and rows that are gone from theirs.",
)
@click.option("--conversation", is_flag=True, help="Each row, or each line of a text, is a turn of a conversation.")  # fmt: skip
@click.option("--documents", is_flag=True, help="Treat all files as documents, even if they look like a conversation.")  # fmt: skip
@click.option("--watch", is_flag=True, help="Go on, and add what changes, until you press Ctrl-C.")
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
    watch: bool,
    id: str,
    as_json: bool,
) -> None:
    """Add files and folders (PATHS), or what comes over a pipe (-). Files that have not changed are left alone."""
    if "-" in paths and (len(paths) > 1 or watch):
        raise InputError("'-' stands alone", hint="add the files in a second call")
    kind = _choose_kind(conversation=conversation, documents=documents)

    def add_once() -> Summary:
        with open_gate(store, tenant) as gate, _bar(quiet=as_json) as on_progress:
            if paths == ("-",):
                data = sys.stdin.buffer.read()
                return gate.add_stream(
                    data, id=id, collection=collection, kind=kind, on_progress=on_progress
                )
            return gate.add_files(
                *paths, collection=collection, kind=kind, exclude=exclude, gitignore=not ignored,
                prune=prune, on_progress=on_progress,
            )  # fmt: skip

    if paths != ("-",):
        check_paths(paths)  # before the store is opened, which would make one
    own = folder_of(store_name(store))

    def look() -> Iterator[SourceFile | Skip]:
        return walk(paths, exclude=exclude, gitignore=not ignored, store=own)

    if watch:
        _watch(look, add_once, as_json=as_json)
        return
    nothing = None if paths == ("-",) else _find_nothing(look(), own)
    made = nothing or add_once()
    _print_summary(made, as_json=as_json)
    if made.skips and not made.documents and not made.unchanged:
        sys.exit(1)


def _choose_kind(*, conversation: bool, documents: bool) -> Kind:
    """What the files are said to be, or nothing."""
    if conversation and documents:
        raise InputError(
            "what is added is a conversation or documents, not both",
            hint="leave out --conversation or --documents; or add each in a call of its own",
        )
    return "conversation" if conversation else "documents" if documents else ""


def _find_nothing(found: Iterable[SourceFile | Skip], store: Path | None) -> Summary | None:
    """What is skipped, if there is no file to add and no store yet: none is made then."""
    if store is None or has_store(store):
        return None
    skipped = []
    for one in found:
        if isinstance(one, SourceFile):
            return None
        skipped.append(one)
    return Summary(skips=len(skipped), skipped=tuple(skipped))


def _watch(
    look: Callable[[], Iterable[SourceFile | Skip]],
    add_once: Callable[[], Summary],
    *,
    as_json: bool,
) -> None:
    """Add once, and again whenever a file is new, gone, or has another size or time.

    The store is open only while it is written, so that other commands can use it.
    """
    seen = list(look())
    _print_summary(add_once(), as_json=as_json)
    echo("watching; Ctrl-C ends it", err=True)
    with suppress(KeyboardInterrupt):
        while True:
            start = time.perf_counter()
            found = list(look())
            if found != seen:
                made, seen = add_once(), found
                if made.documents or made.removed or made.missing:
                    _print_summary(made, as_json=as_json)
            took = time.perf_counter() - start
            time.sleep(max(LOOK_EVERY_S, LOOK_SHARE * took))


@contextmanager
def _bar(*, quiet: bool) -> Iterator[OnProgress]:
    """Show a progress bar with rate and time left on standard error. Ctrl-C ends the command and says what is kept."""
    documents = 0
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
            nonlocal documents
            documents = done.documents
            spent = bar.tasks[0].elapsed or 0.0
            rate = done.chunks / spent if spent else 0.0
            bar.update(
                task,
                completed=min(done.bytes, done.total),
                total=done.total,
                chunks=done.chunks,
                rate=rate,
            )

        try:
            yield on_progress
        except KeyboardInterrupt:
            bar.stop()
            echo(f"stopped; what was added is kept: {count_of(documents, 'document')}", err=True)
            sys.exit(130)


def _print_summary(made: Summary, *, as_json: bool) -> None:
    if as_json:
        skipped = [{"what": skip.what, "reason": skip.reason} for skip in made.skipped]
        print_json(
            {
                "documents": made.documents,
                "chunks": made.chunks,
                "unchanged": made.unchanged,
                "removed": made.removed,
                "missing": made.missing,
                "packed": made.packed,
                "skips": made.skips,
                "skipped": skipped,
            }
        )
        return
    if made.unchanged and not (made.documents or made.removed):
        echo(f"nothing has changed: {count_of(made.unchanged, 'document')}, {made.skips:,} skipped")
    else:
        echo(
            f"added {count_of(made.documents, 'document')} ({count_of(made.chunks, 'chunk')} changed),"
            f" {made.unchanged:,} unchanged, {made.removed:,} removed, {made.skips:,} skipped"
        )
    if made.packed and made.documents:
        rows = count_of(made.packed, "short row")
        echo(f"{rows} of large tables share documents; each has its id in the text")
    if made.missing:
        gone = count_of(made.missing, "file")
        echo(f"{gone} gone, but still in the store: --prune removes such documents", err=True)
    if made.skipped:
        _print_skipped(made.skipped[:SHOWN])
    if made.skips > SHOWN:
        echo(f"and {made.skips - SHOWN:,} more; --json lists them", err=True)


def _print_skipped(skipped: Sequence[Skip]) -> None:
    """Print what was skipped under its reason, each on a line of its own, so that a path can be copied."""
    by_reason: dict[str, list[str]] = {}
    for skip in skipped:
        by_reason.setdefault(skip.reason, []).append(skip.what)
    for reason, paths in by_reason.items():
        echo(f"skipped: {reason}", err=True)
        for path in paths:
            echo(f"  {path}", err=True)
