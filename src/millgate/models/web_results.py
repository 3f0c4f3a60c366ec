"""Web results: what a search engine found, as untrusted chunks that carry their address.

A result without an address or without text is left out, and so are repeats.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

from millgate.types import Chunk

MAX_QUERY = 500  # characters; search engines refuse or cut longer ones
MAX_TEXT = 4_000  # characters of one result; more is a page, not a snippet


def web_chunks(results: Iterable[object], limit: int) -> list[Chunk]:
    """Search results as untrusted chunks, each address once, at most `limit`."""
    found: dict[str, Chunk] = {}
    for result in results:
        if len(found) >= limit:
            break
        chunk = _chunk(result)
        if chunk is not None:
            found.setdefault(chunk.id, chunk)
    return list(found.values())


def _chunk(result: object) -> Chunk | None:
    if not isinstance(result, Mapping):
        return None
    address = _text(result, "url", "link", "href")
    text = _text(result, "content", "snippet", "text", "description")[:MAX_TEXT]
    if not address.startswith(("http://", "https://")) or not text:
        return None
    id = "web:" + sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    metadata = {"url": address, "untrusted": True}
    title = _text(result, "title", "name")[:300]
    return Chunk(id, text, document=address, source="web", title=title, metadata=metadata)


def _text(result: Mapping[str, object], *names: str) -> str:
    """The first of the named fields that holds a text."""
    for name in names:
        value = result.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""
