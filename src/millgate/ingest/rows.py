"""Rows and texts: what becomes a document, and how.

A row is a mapping {id or _id, text or content, title, collection, source, metadata}; keys beyond these join its
metadata. A Text is a row, or a file that was read, checked and ready to be split. Its digest covers everything that the
chunks are made of, and the chunk policy too, so that an equal digest means that nothing changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from millgate.errors import InputError, LimitError
from millgate.ingest.chunk import Passage, split_text
from millgate.ingest.policy import ChunkPolicy
from millgate.text.meant import CLOSE, nearest
from millgate.text.turns import CONVERSATION, DOCUMENTS
from millgate.types import METADATA_BYTES, TITLE_CHARS, Chunk, Document

_FIELDS = frozenset({"id", "text", "title", "collection", "source", "metadata"})
_KNOWN = _FIELDS | {"_id", "content"}
# where a document of a file came from: the whole file, one of its lines, or a row of it that has an id of its own
FILE, LINE, ROW = "file", "line", "row"
_HASH_BYTES = 16
_FORMAT = b"3"  # raised when texts are split differently, so that files are split again
READ_FORMAT = 5  # raised when files are read differently, so that files are read again


class Text(NamedTuple):
    """A text on its way to become a document. `name` titles chunks that have no better title.

    `origin` is FILE, LINE or ROW for what came from a file, and says which documents lost theirs when it is gone or
    shrunk. Of a ROW, `file` is the file's id. `line` is the number of a row in its file. Rows that are packed into one
    text are cut already, into `passages`, and counted.
    """

    id: str
    text: str
    title: str = ""
    name: str = ""
    kind: str = "markdown"
    collection: str = ""
    source: str = "document"
    metadata: Mapping[str, Any] = {}
    size: int = 0
    origin: str = ""
    file: str = ""
    line: int = 0
    passages: tuple[Passage, ...] = ()
    packed: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was left out, and why. `is_empty` says that it was read, and that there is no text in it."""

    what: str
    reason: str
    size: int = 0
    is_empty: bool = False


def parse_row(row: object, *, id: str = "", size: int = 0, file: str = "", line: int = 0) -> Text:
    """A row as a Text; InputError says what is wrong with it. `id` stands in for a missing one, `file` holds it."""
    if not isinstance(row, Mapping):
        raise InputError(f"a row is {type(row).__name__}, not a mapping", hint=_HINT)
    text = row.get("text", row.get("content"))
    if not isinstance(text, str):
        raise _explain_missing_text(row)
    given = row.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise InputError(f"the metadata of a row is {type(given).__name__}, not a mapping")
    rest = {key: row[key] for key in row if key not in _KNOWN}
    own = _row_id(row)
    return Text(
        own or id or blake2b(text.encode(errors="replace"), digest_size=8).hexdigest(),
        text,
        title=_title(row),
        collection=_text_field(row, "collection", ""),
        source=_text_field(row, "source", "") or "document",
        metadata=_check_metadata({**rest, **given}),
        size=size or len(text),
        origin=(ROW if own else LINE) if file else "",
        file=file if own else "",
        line=line,
    )


def refuse_slips(row: object) -> None:
    """An error for a key that looks like a misspelt field, which would end in the metadata unseen.

    A key that holds the whole name of the field (`sources`, `subtitle`) is taken for the caller's own.
    """
    if not isinstance(row, Mapping):
        return
    for key in row.keys() - _KNOWN:
        close = nearest(str(key).casefold(), _FIELDS - row.keys(), alike=CLOSE)
        if close and close not in key:
            hint = f"did you mean {close}? Keys of your own belong into metadata"
            raise InputError(f"a row has the key {key!r:.80}, which is no field", hint=hint)


def _explain_missing_text(row: Mapping[str, Any]) -> InputError:
    for key in ("text", "content"):
        if row.get(key) is not None:
            return InputError(f"the {key} of a row is {type(row[key]).__name__}, not a text")
    keys = ", ".join(f"{key!r:.80}" for key in list(row)[:10])
    return InputError(f"a row has no text, but {keys or 'nothing'}", hint=_HINT)


def declare(item: Text, collection: str, kind: str) -> Text:
    """A text with the collection and the kind that the caller declared, unless it names its own.

    Of a conversation a row is a turn, and a file holds one on each line.
    """
    item = item._replace(collection=item.collection or collection)
    if not kind:
        return item
    is_log = kind == CONVERSATION and item.origin == FILE
    metadata = {"kind": kind, **item.metadata}
    return item._replace(kind=kind if is_log else item.kind, metadata=metadata)


_HINT = 'give {"id": …, "text": …}, and optionally title, collection, source, metadata'


def digest(item: Text, policy: ChunkPolicy) -> str:
    """A short hash of everything that the document will hold, after where it came from; behind it a row's file."""
    head = (item.title, item.name, item.kind, item.source, policy.target, policy.maximum)
    hash = blake2b(_FORMAT, digest_size=_HASH_BYTES)
    try:
        hash.update(orjson.dumps([head, item.metadata], option=orjson.OPT_SORT_KEYS))
    except TypeError:  # keys that are not text, or values that JSON lacks: the store refuses them
        hash.update(repr((head, item.metadata)).encode(errors="replace"))
    hash.update(item.text.encode(errors="surrogatepass"))
    hash.update(",".join(passage.rows for passage in item.passages).encode())
    return f"{item.origin}{hash.hexdigest()}{item.file}"


def file_of(id: str, digest: str) -> str:
    """The id of the file that a document came from, by its digest; empty if it came from none."""
    if digest.startswith(FILE):
        return id
    if digest.startswith(LINE):
        return id.rpartition(":")[0]
    return digest[len(ROW) + 2 * _HASH_BYTES :] if digest.startswith(ROW) else ""


def assemble(
    item: Text, policy: ChunkPolicy, *, digest: str = "", tokens: int | None = None
) -> Document:
    """Split a text of `tokens` tokens into the chunks of a document. A single chunk keeps the document's id."""
    may_be_log = item.metadata.get("kind") != DOCUMENTS
    passages = item.passages or split_text(
        item.text, policy, kind=item.kind, tokens=tokens, may_be_log=may_be_log
    )
    single = len(passages) == 1
    chunks = tuple(
        Chunk(
            item.id if single else f"{item.id}#{n}",
            passage.text,
            document=item.id,
            collection=item.collection,
            source=item.source,
            title=(item.title or " > ".join(passage.path) or item.name)[:TITLE_CHARS],
            position=n,
            metadata={**item.metadata, "rows": passage.rows} if passage.rows else item.metadata,
        )
        for n, passage in enumerate(passages)
    )
    return Document(
        item.id,
        collection=item.collection,
        title=(item.title or item.name)[:TITLE_CHARS],
        digest=digest,
        source=item.source,
        metadata=item.metadata,
        chunks=chunks,
    )


def _title(row: Mapping[str, Any]) -> str:
    title = _text_field(row, "title", "")
    if len(title) > TITLE_CHARS:
        raise LimitError(
            f"the title of a row has {len(title):,} characters; at most {TITLE_CHARS} are allowed",
            hint="put the rest into its text",
        )
    return title


def _check_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata, which must be small because every chunk of the document has it."""
    if metadata and len(repr(metadata)) > METADATA_BYTES // 4:
        try:
            size = len(orjson.dumps(metadata, option=orjson.OPT_NON_STR_KEYS))
        except TypeError:  # the store says what is wrong with it
            return metadata
        if size > METADATA_BYTES:
            raise LimitError(
                f"the metadata of a row has {size:,} bytes; at most {METADATA_BYTES:,} are allowed",
                hint="put what should be found into its text",
            )
    return metadata


def _row_id(row: Mapping[str, Any]) -> str:
    """The row's own id as text, from `id` or `_id`; empty if it has none."""
    found = row.get("id", row.get("_id"))
    if found is None:
        return ""
    if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
        raise InputError(f"a row has the id {found!r}; an id is a text or a whole number")
    return str(found)


def _text_field(row: Mapping[str, Any], key: str, default: str) -> str:
    found = row.get(key)
    if found is None:
        return default
    if not isinstance(found, str):
        raise InputError(f"the {key} of a row is {type(found).__name__}, not a text")
    return found
