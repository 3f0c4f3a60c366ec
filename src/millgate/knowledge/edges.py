"""Edges: one that is checked, and those that files and documents hold.

CSV and JSON lines are read. A document links to another (links_to), a heading is part of it or of the heading above
(part_of), and code depends on what it imports (depends_on). Bad lines are counted, and the first of them listed, so
that one bad line of a million does not stop the rest. A file that is not text is refused whole.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin

import orjson

from millgate.errors import InputError
from millgate.protocols import EdgeStore
from millgate.text.bounded_json import describe_json_error
from millgate.text.csv_rows import split_csv
from millgate.types import Chunk, Edge
from millgate.types.lengths import NODE_CHARS

EDGE_FILES = {".csv": ",", ".tsv": "\t", ".jsonl": "", ".ndjson": ""}
"""Suffix of a file of edges -> what stands between its cells; nothing in JSON lines."""

BATCH = 10_000  # edges a transaction: large enough to be fast, small enough for memory
MAX_REASONS = 20  # bad lines listed with their reason; the rest is counted

PREDICATE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_FIELD_NAMES = {
    "source": ("source", "subject", "from"),
    "predicate": ("predicate", "relation", "type"),
    "target": ("target", "object", "to"),
}
_HEADING = re.compile(r"^(#{1,6})[ \t]++([^\n]++)", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~)[^\n]*\n.*?(?:^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINKS = re.compile(
    r"(?<!!)\[[^\]\n]{0,300}\]\(<?([^\s()<>]{1,500})>?(?:\s[^)\n]{0,200})?\)"
    r"|\[\[([^\]|#\n]{1,200})(?:[#|][^\]\n]{0,200})?\]\]|href=[\"']([^\"'\s]{1,500})[\"']"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # a single letter is a drive of Windows
_ABOVE_ROOT = re.compile(r"^(?:\.\./)++")
_IMPORTS: Mapping[str, re.Pattern[str]] = {
    "py": re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w. ,]+))", re.M),
    "js": re.compile(
        r"\b(?:import|export)\b[^;\"'\n]{0,500}?[\"']([^\"'\n]+)[\"']"
        r"|\brequire\([ ]?[\"']([^\"'\n]+)[\"'][ ]?\)"
    ),
    "go": re.compile(r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([\w./~-]+)\"[ \t]*$", re.M),
    "rs": re.compile(r"^[ \t]*(?:pub[ \t]+)?use[ \t]+(\w+(?:::\w+)*+)", re.M),
    "java": re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?([\w.]+)(?:\.\*)?[ \t]*;", re.M),
    "c": re.compile(r"^[ \t]*#[ \t]*include[ \t]+[<\"]([^>\"\n]+)[>\"]", re.M),
}
_LANGUAGES = {"pyi": "py", "h": "c", "cc": "c", "cpp": "c", "hpp": "c", "kt": "java"}
_LANGUAGES |= dict.fromkeys(("jsx", "mjs", "cjs", "ts", "tsx"), "js")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did: edges linked, lines skipped, and the first reasons why."""

    linked: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()


def edge(
    source: str,
    predicate: str,
    target: str,
    *,
    weight: float = 1.0,
    provenance: str = "",
) -> Edge:
    """A checked edge: clean names, the predicate in lower case with _, the weight within (0, 1]."""
    form = re.sub(r"[\s-]+", "_", predicate.strip()).lower()
    if not PREDICATE.fullmatch(form):
        raise InputError(
            f"predicate {predicate[:80]!r} cannot be used",
            hint="use a letter, then at most 63 letters, digits or _, as in depends_on",
        )
    if not (isfinite(weight) and 0 < weight <= 1):
        raise InputError(f"weight is {weight}; it must be above 0 and at most 1")
    return Edge(_node_name(source), form, _node_name(target), float(weight), _clean(provenance))


def link_edges(edges: EdgeStore, tenant: str, rows: Iterable[Edge | str]) -> LoadResult:
    """Link edges in batches; a text in place of an edge is the reason why a line was skipped."""
    linked = skipped = 0
    reasons: list[str] = []
    stream = iter(rows)
    while some := list(islice(stream, BATCH)):
        good = [row for row in some if isinstance(row, Edge)]
        bad = [row for row in some if isinstance(row, str)]
        edges.link(tenant, good)
        linked += len(good)
        skipped += len(bad)
        reasons += bad[: MAX_REASONS - len(reasons)]
    return LoadResult(linked, skipped, tuple(reasons))


def read_edges(path: Path) -> Iterator[Edge | str]:
    """Edges of a .csv, .tsv, .jsonl or .ndjson file, line by line; a bad line gives its reason."""
    suffix = path.suffix.lower()
    if suffix not in EDGE_FILES:
        raise InputError(
            f"{path.name} is not an edge file", hint=f"use one of {', '.join(EDGE_FILES)}"
        )
    delimiter = EDGE_FILES[suffix]
    try:
        for number, row in _csv(path, delimiter) if delimiter else _jsonl(path):
            yield _parse_row(row, f"{path.name}:{number}")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path.name} is not UTF-8: byte {error.object[error.start]:#04x}",
            hint="convert it, as in: iconv -f latin1 -t utf-8",
        ) from None
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error}") from None


def document_edges(name: str, text: str) -> list[Edge]:
    """The edges of one document: its links and headings, or the imports of code."""
    name = _shorten(name)
    if not name:
        raise InputError("a document without a name cannot be in the graph", hint="name it")
    suffix = PurePosixPath(name).suffix.lstrip(".").lower()
    language = _LANGUAGES.get(suffix, suffix)
    if language in _IMPORTS:
        found = [(name, "depends_on", module) for module in _imports(text, language)]
    else:
        prose = _FENCE.sub("", text)
        found = [*_headings(name, prose), *_links(name, prose)]
    rows = dict.fromkeys((s, p, _shorten(t)) for s, p, t in found)
    return [edge(s, p, t, provenance=name) for s, p, t in rows if t and s != t]


def chunk_edges(chunks: Iterable[Chunk]) -> Iterator[Edge]:
    """The edges of stored documents, from their chunks in reading order."""
    name, texts = "", list[str]()
    for chunk in chunks:
        if chunk.document != name:
            if texts:
                yield from document_edges(name, "\n\n".join(texts))
            name, texts = chunk.document, []
        if name:
            texts.append(chunk.text)
    if texts:
        yield from document_edges(name, "\n\n".join(texts))


def _csv(path: Path, delimiter: str) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = split_csv((line.replace("\0", "") for line in file), delimiter=delimiter)
        columns: Sequence[str] = ("source", "predicate", "target", "weight", "provenance")
        for index, (number, row) in enumerate(rows):
            lowered = [cell.strip().lower() for cell in row]
            if index == 0 and any(name in lowered for name in _FIELD_NAMES["predicate"]):
                columns = lowered
            elif any(row):
                yield number, dict(zip(columns, row, strict=False))


def _jsonl(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    yield number, f"not JSON ({describe_json_error(error)})"


def _parse_row(row: object, where: str) -> Edge | str:
    if not isinstance(row, Mapping):
        return f"{where}: {row if isinstance(row, str) else 'not an object'}"
    cells = {
        name: next((row[key] for key in keys if row.get(key)), "")
        for name, keys in _FIELD_NAMES.items()
    }
    missing = [name for name, value in cells.items() if not isinstance(value, str) or not value]
    if missing:
        return f"{where}: no {missing[0]}"
    try:
        return edge(
            cells["source"],
            cells["predicate"],
            cells["target"],
            weight=float(row.get("weight") or 1.0),
            provenance=str(row.get("provenance") or where.rpartition(":")[0]),
        )
    except (InputError, TypeError, ValueError) as error:
        return f"{where}: {error}"


def _headings(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    above: list[tuple[int, str]] = [(0, name)]
    for match in _HEADING.finditer(text):
        words = match[2].rstrip().rstrip("#").rstrip(" \t")
        if not words:
            continue
        level, title = len(match[1]), _shorten(f"{name}#{words}")
        while above[-1][0] >= level:
            above.pop()
        yield title, "part_of", above[-1][1]
        above.append((level, title))


def _links(name: str, text: str) -> Iterator[tuple[str, str, str]]:
    for match in _LINKS.finditer(text):
        address, wiki_name = match[1] or match[3], match[2]
        target = wiki_name.strip() if wiki_name else _resolve(name, address)
        if target:
            yield name, "links_to", target


def _resolve(name: str, address: str) -> str:
    """The document that a link leads to: a relative one from the folder of its document, a web address as it is.

    Empty for a link that leads to no document, as to a mail address or within the page.
    """
    if scheme := _SCHEME.match(address):
        return address if scheme[0].lower() in ("http:", "https:") else ""
    if _SCHEME.match(name):  # a page of the web
        return urljoin(name, address).split("#", 1)[0]
    path = unquote(address.split("#", 1)[0].split("?", 1)[0])
    if not path:
        return ""
    if path.startswith("/"):
        return path if name.startswith("/") else path.lstrip("/")
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    return _ABOVE_ROOT.sub("", joined)


def _imports(text: str, language: str) -> Iterator[str]:
    for match in _IMPORTS[language].finditer(text):
        for module in next(group for group in match.groups() if group).split(","):
            if module.split():
                yield module.split()[0]


def _shorten(name: str) -> str:
    return " ".join(name.split())[:NODE_CHARS]


def _node_name(text: str) -> str:
    name = _clean(text)
    if not name:
        raise InputError("an edge has an empty node name", hint="name both source and target")
    if len(name) > NODE_CHARS:
        raise InputError(
            f"a node name has {len(name)} characters; at most {NODE_CHARS} are allowed"
        )
    return name


def _clean(text: str) -> str:
    """The text with white space and control characters collapsed, and what UTF-8 cannot hold replaced."""
    return _SPACES.sub(" ", text.encode("utf-8", "replace").decode()).strip()
