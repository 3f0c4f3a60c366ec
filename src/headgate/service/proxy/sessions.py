"""Sessions: which conversation a request belongs to, by what clients say of it.

First our own header, then the headers and fields that agents send, each a name that stays the same for a whole session;
else a hash of how the conversation begins. A client may name any session: what holds against one that lies are the caps
of its key and tenant.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from headgate.guard.calls import opening
from headgate.service.proxy.transport import Headers

HEADERS = (
    b"x-headgate-session", b"x-claude-code-session-id", b"session-id", b"session_id", b"x-session-id",
    b"x-opencode-session", b"x-session-affinity",
)  # fmt: skip
FIELDS = ("prompt_cache_key", "conversation", "conversation_id")
MAX_NAME = 200  # longer ones are hashed
MAX_END = 32_768  # characters of either end of a long beginning that are hashed
_LEGACY = re.compile(r"_session_([0-9a-f-]{36})$")


def session_of(headers: Headers, fields: Mapping[str, Any], messages: Sequence[object]) -> str:
    """The name of the session."""
    given = {name.lower(): value for name, value in headers}
    named = [given[name].decode("latin-1") for name in HEADERS if name in given]
    named += [_in_metadata(fields.get("metadata"))]
    named += [_in_field(fields.get(name)) for name in FIELDS]
    name = next((name.strip() for name in named if name.strip()), "")
    if name and len(name) <= MAX_NAME and name.isprintable():
        return name
    system = fields.get("system") or fields.get("instructions") or ""
    start = name or f"{_sample(str(system))}\n{_sample(opening(messages))}"
    digest = blake2b(start.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"conversation-{digest}"


def _sample(text: str) -> str:
    """The text, or of a long one its length and both ends: hashing megabytes would delay the first token."""
    if len(text) <= 2 * MAX_END:
        return text
    return f"{len(text)}\n{text[:MAX_END]}\n{text[-MAX_END:]}"


def _in_metadata(metadata: object) -> str:
    """Claude Code's user_id: JSON with a session_id, or, in older versions, a text that ends in it."""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str) or len(user) > MAX_END:
        return ""
    if found := _LEGACY.search(user):
        return found[1]
    try:
        told = orjson.loads(user)
    except orjson.JSONDecodeError:
        return ""
    return _in_field(told.get("session_id") if isinstance(told, dict) else None)


def _in_field(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) else ""
