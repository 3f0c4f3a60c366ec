"""Readers: one file in, texts out, or the reason why not.

The suffix decides how a file is read; a file without a known suffix is read as text if it is text.
Files of rows (JSON lines, CSV) are streamed row by row, so that their size does not matter and one bad row
costs only itself. Formats that a stranger can make slow are read by a child process (child.py).
"""

import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from millgate.ingest import html, notebook, tables
from millgate.ingest.chats import is_chat, read_chats
from millgate.ingest.child import FileKind, ParserProcess
from millgate.ingest.decode import Undecodable, decode
from millgate.ingest.mail import split_mbox
from millgate.ingest.plain_markup import rst_to_markdown, subtitles_to_text
from millgate.ingest.rows import FILE, LINE, Skip, Text
from millgate.ingest.tables import Items
from millgate.text.turns import DOCUMENTS

_CODE_SUFFIXES = """
.py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .c .h .cc .cpp .cxx .hpp .cs .go
.rs .rb .php .swift .m .mm .lua .pl .pm .r .jl .sh .bash .zsh .fish .ps1 .sql .proto .graphql
.vue .svelte .css .scss .less .toml .yaml .yml .ini .cfg .conf .dockerfile .tf .ex .exs .erl
.hs .clj .dart .zig .nim .groovy .gradle
"""
_CODE = frozenset(_CODE_SUFFIXES.split())
_MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".mkd", ".adoc"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_CHATS = frozenset({".jsonl", ".ndjson", ".json"})
_TABLES = frozenset({".jsonl", ".ndjson", ".csv", ".tsv"})
_PARSED: Mapping[str, FileKind] = {
    ".docx": "docx",
    ".eml": "eml",
    ".epub": "epub",
    ".odp": "opendocument",
    ".ods": "sheets",
    ".odt": "opendocument",
    ".pdf": "pdf",
    ".pptx": "pptx",
    ".xls": "sheets",
    ".xlsx": "sheets",
}
_PLAIN: Mapping[str, Callable[[str], str]] = {
    ".rst": rst_to_markdown,
    ".srt": subtitles_to_text,
    ".vtt": subtitles_to_text,
}

SMALL_HTML = 32_768  # bytes that no page can make slow; a process for each would be


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read: its path, the id its document gets, its size, and when it was written."""

    path: Path
    id: str
    size: int = 0
    modified_ns: int = 0


def read(file: SourceFile, *, max_bytes: int, parser: ParserProcess) -> Items:
    """The texts of a file, each ready to be cut; what cannot be read is skipped with its reason."""
    suffix = file.path.suffix.lower()
    try:
        if suffix in _CHATS and file.size <= max_bytes and is_chat(file.path):
            yield from _read_chats(file)
        elif suffix in _TABLES:
            yield from tables.read_table(file.path, file.id)
        elif suffix == ".gz":
            yield from _read_compressed(file, max_bytes, parser)
        elif suffix == ".mbox":
            yield from _read_mbox(file, parser)
        elif file.size > max_bytes:
            limit = f"{max_bytes / 1e6:.0f} MB"
            yield Skip(file.id, f"{file.size / 1e6:.0f} MB, above the limit of {limit}", file.size)
        else:
            yield from _read_whole(file, file.path.read_bytes(), suffix, parser)
    except (Undecodable, UnicodeError) as error:
        yield Skip(file.id, str(error), file.size)
    except OSError as error:
        yield Skip(file.id, f"cannot be read: {error.strerror or error}", file.size)


def _read_compressed(file: SourceFile, max_bytes: int, parser: ParserProcess) -> Items:
    """A file that gzip compressed, as the file it was before."""
    suffix = Path(file.path.stem).suffix.lower()
    if suffix in _TABLES or suffix in {".mbox", ".tar"}:
        yield Skip(file.id, f"a compressed {suffix} file; unpack it and add it again", file.size)
        return
    try:
        with gzip.open(file.path) as opened:
            data = opened.read(max_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Undecodable(f"damaged: {error}") from error
    if len(data) > max_bytes:
        yield Skip(file.id, f"above the limit of {max_bytes / 1e6:.0f} MB once unpacked", file.size)
    else:
        yield from _read_whole(file, data, suffix, parser)


def _read_whole(file: SourceFile, data: bytes, suffix: str, parser: ParserProcess) -> Items:
    if not data.strip():
        yield Skip(file.id, "empty file", file.size, is_empty=True)
    elif suffix in _PARSED:
        title, text = parser.extract(_PARSED[suffix], data)
        cut = "text" if suffix == ".pdf" else "markdown"
        yield _whole_text(file, text, title=title, kind=cut)
    elif suffix == ".json":
        yield from tables.json_rows(data, file.id)
    elif suffix in _HTML:
        is_small = len(data) <= SMALL_HTML
        title, text = html.extract(decode(data)) if is_small else parser.extract("html", data)
        yield _whole_text(file, text, title=title)
    elif suffix == ".ipynb":
        yield _whole_text(file, notebook.extract(data))
    elif suffix in _PLAIN:
        yield _whole_text(file, _PLAIN[suffix](decode(data)))
    else:
        kind = "markdown" if suffix in _MARKDOWN else "code" if suffix in _CODE else "text"
        name = file.id if kind == "code" else ""
        yield _whole_text(file, decode(data), name=name, kind=kind)


def _whole_text(
    file: SourceFile,
    text: str,
    *,
    title: str = "",
    name: str = "",
    kind: str = "markdown",
    line: int = 0,
    size: int = 0,
) -> Text | Skip:
    """A file that is one document, or the document that begins at one of its lines."""
    id, size = f"{file.id}:{line}" if line else file.id, size or file.size
    if not text.strip():
        return Skip(id, "no text in it", size, is_empty=True)
    name, origin = name or file.path.stem, LINE if line else FILE
    return Text(id, text, title=title, name=name, kind=kind, size=size, origin=origin)


def _read_chats(file: SourceFile) -> Items:
    """Each conversation of a file as a document; the only one of a file has the file's id."""
    found, unread = read_chats(file.path)
    if unread:
        yield Skip(f"{file.id}: {unread} of its lines", "not valid JSON")
    if not found:
        yield Skip(file.id, "a conversation in which nothing is said", file.size, is_empty=True)
    for number, chat in enumerate(found, 1):
        line, size = number if len(found) > 1 else 0, file.size // len(found)
        text = _whole_text(file, chat.text, title=chat.title, kind="text", line=line, size=size)
        # cut at turns, a question would lose its answer
        yield text._replace(metadata={"kind": DOCUMENTS}) if isinstance(text, Text) else text


def _read_mbox(file: SourceFile, parser: ParserProcess) -> Items:
    """Each message of a mailbox as a document, named by its first line."""
    for line, data in split_mbox(file.path):
        try:
            title, text = parser.extract("eml", data)
            yield _whole_text(file, text, title=title, line=line, size=len(data))
        except Undecodable as error:
            yield Skip(f"{file.id}:{line}", str(error), len(data))
