"""Tables: files whose lines are rows: JSON lines, CSV, and JSON that is a row or a list of rows.

A row without an id is named by its file and line. A line that is not a row is skipped with its number and reason.
A document takes much more than a few words do, so the short rows of a large table are packed: many rows are one
document, its chunks say which rows they hold, and a row's own id is in its text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TextIO

import orjson

from millgate.errors import InputError
from millgate.ingest.chunk import Passage
from millgate.ingest.decode import HEAD, Undecodable, bom_encoding, decode, is_binary
from millgate.ingest.policy import ChunkPolicy
from millgate.ingest.rows import FILE, LINE, ROW, Skip, Text, parse_row
from millgate.text.bounded_json import describe_json_error, loads
from millgate.text.csv_rows import split_csv
from millgate.text.tokens import estimate_all
from millgate.text.turns import part

MAX_LINE = 64 << 20  # characters of the longest row; a file without line ends is not a table
MOST_COLUMNS = 100_000  # of a table: each has a name in memory
# Rows from which a table of short ones is packed, and the most of one document. As documents of their own, so many take
# about a second and 6 MB.
PACKED_FROM = 10_000
# A JSON file may take the memory of so many bodies: six million values, which a file of rows with text does not reach.
_BODIES = 12

Items = Iterator[Text | Skip]
Rows = Iterable[tuple[int, object, int] | Skip]
"""The line of each row (0 if it is the whole file), the row or the error in its place, and its size."""


def read_table(path: Path, id: str) -> Items:
    """The rows of a file of JSON lines or of CSV."""
    is_csv = path.suffix.lower() in (".csv", ".tsv")
    with path.open("rb") as raw:
        head = raw.read(HEAD)
    if is_binary(head):
        raise Undecodable("binary file")
    if not head.strip():
        yield Skip(id, "empty file", is_empty=True)
        return
    encoding = bom_encoding(head) or (_csv_encoding(path) if is_csv else "utf-8")
    # a byte that is no text costs its own line
    with path.open(encoding=encoding, errors="surrogateescape", newline="") as file:
        first = head.split(b"\n", 1)[0]
        rows = _csv(file, id, first) if is_csv else json_lines(file)
        yield from texts_of(rows, id)


def texts_of(rows: Rows, id: str) -> Items:
    """The texts of rows; what is no row is skipped with its reason."""
    for row in rows:
        if isinstance(row, Skip):
            yield row
            continue
        line, value, size = row
        name = f"{id}:{line}" if line else id
        try:
            if isinstance(value, InputError):
                raise value
            yield parse_row(value, id=name, size=size, file=id, line=line)
        except InputError as error:
            yield Skip(name, error.message, size)


def json_lines(file: TextIO) -> Rows:
    """The values of JSON lines."""
    number, former = 0, "\n"
    while line := file.readline(MAX_LINE):
        begins, former = former.endswith("\n"), line
        number += begins
        data = line.encode("utf-8", "surrogateescape").removeprefix(b"\xef\xbb\xbf")
        if len(line) == MAX_LINE and not line.endswith("\n"):
            if begins:
                error = InputError(f"line longer than {MAX_LINE >> 20} MB")
                yield number, error, len(data)
        elif begins and data.strip():
            try:
                yield number, loads(data), len(data)
            except orjson.JSONDecodeError as error:
                said = InputError(f"not valid JSON: {describe_json_error(error)}")
                yield number, said, len(data)


def json_rows(data: bytes, id: str) -> Items:
    """A JSON file: a row, a list of rows, or any other JSON, which is kept as text."""
    text = decode(data)
    try:
        value = loads(text.encode(), times=_BODIES)
    except orjson.JSONDecodeError as error:
        yield Skip(id, f"JSON that cannot be read: {error}", len(data))
        return
    rows = value if isinstance(value, list) else [value]
    if rows and all(isinstance(row, Mapping) and _has_text(row) for row in rows):
        size = len(data) // len(rows)
        numbered = ((line, row, size) for line, row in enumerate(rows, int(rows is value)))
        yield from texts_of(numbered, id)
    else:
        yield Text(id, text, name=id, kind="code", size=len(data), origin=FILE)


def _csv(file: TextIO, id: str, first: bytes) -> Rows:
    """The rows of a CSV file; without a text column a row reads as `column: value` lines."""
    delimiter = max(",;\t|", key=lambda mark: first.count(mark.encode()))
    rows = ((number, cells) for number, cells in split_csv(file, delimiter=delimiter) if any(cells))
    number, names = next(rows, (0, []))
    if len(names) > MOST_COLUMNS:
        yield Skip(id, f"more than {MOST_COLUMNS:,} columns")
        return
    columns, header = _unique(names), number
    for number, cells in rows:
        full = {key: cell for key, cell in _pair(columns, cells, delimiter) if cell}
        yield number, _with_text(full), sum(map(len, full.values()))
    if number == header:
        yield Skip(id, "a table without rows", is_empty=True)


def _unique(names: Sequence[str]) -> list[str]:
    """The names of columns; one that is empty or taken gets its number, so that no cell is lost."""
    columns = dict[str, None]()
    for at, name in enumerate(names, 1):
        free = name
        while not free or free in columns:
            free = f"{free or 'column'} {at}"
        columns[free] = None
    return list(columns)


def _pair(
    columns: Sequence[str], cells: Sequence[str], delimiter: str
) -> Iterator[tuple[str, str]]:
    """The cells of a row with their columns; those beyond the last column belong to it, as `a, b` without quotes."""
    last = len(columns) - 1
    if any(cells[last + 1 :]):
        cells = [*cells[:last], delimiter.join(cells[last:]).rstrip(delimiter)]
    return zip(columns, cells, strict=False)


def _with_text(row: Mapping[str, str]) -> Mapping[str, str]:
    if _has_text(row):
        return row
    shown = "\n".join(f"{key}: {cell}" for key, cell in row.items() if key not in _OWN_FIELDS)
    return {key: row[key] for key in _OWN_FIELDS if key in row} | {"text": shown}


_OWN_FIELDS = ("id", "_id", "title", "collection")


def _csv_encoding(path: Path) -> str:
    """UTF-8, or what the whole file turns out to be; reading it once is cheaper than losing rows halfway."""
    with path.open("rb") as raw:
        try:
            for block in iter(lambda: raw.readlines(1 << 20), []):
                b"".join(block).decode()
        except UnicodeDecodeError:
            raw.seek(0)
            decode(raw.read(1 << 20))
            return "cp1252"
    return "utf-8"


def _has_text(row: Mapping[str, object]) -> bool:
    return isinstance(row.get("text", row.get("content")), str)


def pack_rows(items: Items, file: str, policy: ChunkPolicy) -> Items:
    """The rows of a large table with its short ones packed. A smaller table and all else stay as they are.

    Short is what has no more characters than an eighth of a full chunk. The mean of the first rows must be short too,
    and turns of a conversation are not packed.
    """
    short = policy.target // 2  # at four characters for each token
    head, chars = list[Text | Skip](), 0
    for item in items:
        head.append(item)
        if isinstance(item, Text):
            chars += len(item.text) if item.line else PACKED_FROM * short
        if len(head) == PACKED_FROM or chars >= PACKED_FROM * short:
            break
    is_large = len(head) == PACKED_FROM and chars < PACKED_FROM * short
    packs = is_large and 2 * sum(map(_is_turn, head)) < len(head)
    rest = chain(head, items)
    yield from _pack(rest, short, file, policy) if packs else rest


def _pack(items: Items, short: int, file: str, policy: ChunkPolicy) -> Items:
    """Neighbors that are short and differ in nothing but id and text, joined."""
    pack, common = list[Text](), None
    for item in items:
        if isinstance(item, Skip) or len(item.text) > short or not item.text.strip():
            yield item
            continue
        alike = item.title, item.collection, item.source, item.metadata
        if pack and (alike != common or len(pack) == PACKED_FROM):
            yield _join_rows(pack, file, policy)
            pack = []
        common = alike
        pack.append(item)
    if pack:
        yield _join_rows(pack, file, policy)


def _is_turn(item: Text | Skip) -> bool:
    if isinstance(item, Skip):
        return False
    found = part(item.text, item.metadata)
    return found.declared or (found.certain and found.date != "")  # "user: 7" may be a column


def _join_rows(rows: Sequence[Text], file: str, policy: ChunkPolicy) -> Text:
    """Rows as one document; one row stays what it is."""
    first = rows[0]
    if len(rows) == 1:
        return first
    texts = [f"id: {row.id}\n{row.text}" if row.origin == ROW else row.text for row in rows]
    cuts, tokens = [0], 0
    for at, more in enumerate(estimate_all(texts)):
        if tokens + more > policy.target and at > cuts[-1]:
            cuts.append(at)
            tokens = 0
        tokens += more + 1  # the blank line
    passages = tuple(
        Passage("\n\n".join(texts[start:end]), rows=f"{rows[start].line}-{rows[end - 1].line}")
        for start, end in pairwise([*cuts, len(rows)])
    )
    return first._replace(
        id=f"{file}:{first.line}",
        text="\n\n".join(texts),
        size=sum(row.size for row in rows),
        origin=LINE,
        file="",
        passages=passages,
        packed=len(rows),
    )
