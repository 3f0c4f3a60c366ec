"""Readers: one file in, texts out, or the reason why not.

The suffix decides how a file is read; a file without a known suffix is read as text if it is text.
Files of rows (JSON lines, CSV) are streamed row by row, so that their size does not matter and one bad row
costs only itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import MissingExtra
from headgate.ingest import child, html, tables
from headgate.ingest.decode import Undecodable, decode
from headgate.ingest.rows import FILE, Skip, Text
from headgate.ingest.tables import Items

_CODE_SUFFIXES = """
.py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .c .h .cc .cpp .cxx .hpp .cs .go
.rs .rb .php .swift .m .mm .lua .pl .pm .r .jl .sh .bash .zsh .fish .ps1 .sql .proto .graphql
.vue .svelte .css .scss .less .toml .yaml .yml .ini .cfg .conf .dockerfile .tf .ex .exs .erl
.hs .clj .dart .zig .nim .groovy .gradle
"""
_CODE = frozenset(_CODE_SUFFIXES.split())
_MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".mkd", ".rst", ".adoc"})


MAX_HTML = 5_000_000  # bytes; a larger page is a dump of something else
SMALL_HTML = 32_768  # bytes that no page can make slow; a process for each would be


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read: its path, the id its document gets, and its size."""

    path: Path
    id: str
    size: int = 0


def read(file: SourceFile, *, collection: str, max_bytes: int) -> Items:
    """The texts of a file, each ready to be cut; what cannot be read is skipped with its reason."""
    suffix = file.path.suffix.lower()
    try:
        if suffix in _STREAMED:
            yield from _STREAMED[suffix](file.path, file.id, collection)
            return
        if file.size > max_bytes:
            limit = f"{max_bytes / 1e6:.0f} MB"
            yield Skip(file.id, f"{file.size / 1e6:.0f} MB, above the limit of {limit}", file.size)
            return
        yield from _read_whole(file, suffix, collection)
    except Undecodable as error:
        yield Skip(file.id, str(error), file.size)
    except MissingExtra as error:
        yield Skip(file.id, str(error), file.size)
    except OSError as error:
        yield Skip(file.id, f"cannot be read: {error.strerror or error}", file.size)


def _read_text(file: SourceFile, data: bytes, collection: str, kind: str) -> Text:
    return Text(
        file.id,
        decode(data),
        name=file.id if kind == "code" else file.path.stem,
        kind=kind,
        collection=collection,
        size=file.size,
        origin=FILE,
    )


def _read_whole(file: SourceFile, suffix: str, collection: str) -> Items:
    data = file.path.read_bytes()
    if not data.strip():
        yield Skip(file.id, "empty file", file.size)
    elif suffix == ".pdf":
        yield _read_pdf(file, data, collection)
    elif suffix == ".json":
        yield from tables.json_rows(data, file.id, collection)
    elif suffix in (".html", ".htm", ".xhtml"):
        yield _read_html(file, data, collection)
    else:
        kind = "markdown" if suffix in _MARKDOWN else "code" if suffix in _CODE else "text"
        yield _read_text(file, data, collection, kind)


def _read_html(file: SourceFile, data: bytes, collection: str) -> Text | Skip:
    if len(data) > MAX_HTML:
        return Skip(
            file.id, f"{len(data) / 1e6:.0f} MB of HTML, above {MAX_HTML / 1e6:.0f}", file.size
        )
    if len(data) <= SMALL_HTML:
        title, text = html.extract(decode(data))
    else:
        title, text = child.extract("html", data)
    if not text:
        return Skip(file.id, "no text in this page", file.size)
    return Text(
        file.id,
        text,
        title=title,
        name=file.path.stem,
        collection=collection,
        size=file.size,
        origin=FILE,
    )


def _read_pdf(file: SourceFile, data: bytes, collection: str) -> Text:
    title, text = child.extract("pdf", data)
    return Text(
        file.id,
        text,
        title=title,
        name=file.path.stem,
        kind="text",
        collection=collection,
        size=file.size,
        origin=FILE,
    )


_STREAMED: dict[str, Callable[[Path, str, str], Items]] = {
    ".jsonl": tables.json_lines,
    ".ndjson": tables.json_lines,
    ".csv": tables.csv_rows,
    ".tsv": tables.csv_rows,
}
