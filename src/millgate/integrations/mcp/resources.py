"""Resources: traces and documents, for a client to show or to attach.

    millgate://traces/{id}                      what happened in a request, as JSON
    millgate://documents/{collection}/{+id}     a document's text, fenced

The last traces are listed; documents are read by the ids that results cite.
"""

import asyncio
from typing import Any
from urllib.parse import quote as encode
from urllib.parse import unquote, urlsplit

import orjson
from mcp_types import Resource, ResourceTemplate, TextResourceContents

from millgate.errors import InputError
from millgate.explain.as_data import trace_data
from millgate.integrations.mcp.tools import Access
from millgate.text.fence import quote
from millgate.types.check import check_length
from millgate.types.lengths import NAME_CHARS

LISTED = 20  # traces
URI_CHARS = (
    8 * NAME_CHARS
)  # of an address: two names, in which each character may be written as %E2%82%AC
SCHEME = "millgate"

TEMPLATES = (
    ResourceTemplate(
        name="trace",
        uri_template=f"{SCHEME}://traces/{{id}}",
        description="What happened in a request: its plan, its steps, and the fate of every candidate.",
        mime_type="application/json",
    ),
    ResourceTemplate(
        name="document",
        uri_template=f"{SCHEME}://documents/{{collection}}/{{+id}}",
        description="A document as it is stored.",
        mime_type="text/plain",
    ),
)


async def list_resources(access: Access) -> list[Resource]:
    """The last requests, newest first."""
    access.require("read")
    return [
        Resource(
            name=quote(trace.query)[:80] or trace.id,
            uri=f"{SCHEME}://traces/{encode(trace.id, safe='')}",
            description=f"{trace.kept} of {trace.candidates} candidates shown, {trace.budget:,} tokens allowed",
            mime_type="application/json",
        )
        for trace in await access.gate.atraces(limit=LISTED)
    ]


async def read_resource(access: Access, uri: str) -> TextResourceContents:
    """A trace or a document, by its address."""
    access.require("read")
    kind, path = _parse(uri)
    if kind == "traces":
        data = _without_text(trace_data(await access.gate.atrace(path)))
        text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
        return TextResourceContents(uri=uri, mime_type="application/json", text=text)
    collection, _, id = path.partition("/")

    def read() -> str:
        chunks = access.gate.scan_document(unquote(id), collection=unquote(collection))
        return access.fence(*(chunk.text for chunk in chunks))

    async with access.whole_documents:
        text = await asyncio.to_thread(read)
    return TextResourceContents(uri=uri, mime_type="text/plain", text=text)


def _parse(uri: str) -> tuple[str, str]:
    """The kind of a resource, and the rest of its address."""
    check_length("uri", uri, URI_CHARS)
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    path = parts.path.removeprefix("/")
    known = parts.scheme == SCHEME and parts.netloc in ("traces", "documents") and path
    if not known or (parts.netloc == "documents" and not all(path.partition("/"))):
        forms = ", ".join(template.uri_template for template in TEMPLATES)
        raise InputError(f"there is no resource {uri[:200]!r}", hint=f"use one of: {forms}")
    return parts.netloc, unquote(path) if parts.netloc == "traces" else path


def _without_text(data: dict[str, Any]) -> dict[str, Any]:
    """A trace with the fate of each candidate but without its text; every string is quoted."""
    for fate in data["fates"]:
        del fate["text"]
    quoted: dict[str, Any] = _quote_all(data)
    return quoted


def _quote_all(value: object) -> Any:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return {key: _quote_all(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_quote_all(part) for part in value]
    return value
