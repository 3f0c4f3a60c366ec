"""Session name: to which session of an agent a request belongs.

It is our own header, else a header or field that agents send and that stays the same for a whole session, else a hash
of how the conversation begins. A name that is too long or holds a secret is hashed. Session names are not trusted;
limits that must hold belong on the key or tenant.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from millgate.circles.reader import opening, without_digits
from millgate.service.proxy.transport import SECRET_HEADER, header
from millgate.service.wire import Headers
from millgate.text.redact import redact
from millgate.types.lengths import SESSION_CHARS

# Names of a session, as Claude Code, Codex, OpenCode and others send them.
SESSION_HEADERS = (
    b"x-millgate-session", b"x-claude-code-session-id", b"session-id", b"session_id", b"x-session-id",
    b"x-opencode-session", b"x-session-affinity",
)  # fmt: skip
SESSION_FIELDS = ("prompt_cache_key", "conversation", "conversation_id")
UNNAMED = "conversation-"  # how the names of sessions begin that no client gave
MAX_END = 32_768  # characters of either end of a long beginning that are hashed
_LEGACY_USER = re.compile(r"_session_([0-9a-f-]{36})$")


def session_of(
    headers: Headers, fields: Mapping[str, Any], messages: Sequence[object], *, api: str = ""
) -> str:
    """The name of the session: the one that the client gives, else a hash of how the conversation begins.

    Scripts begin alike each time they run, so under `wrap` each run has sessions of its own, as has each API.
    """
    if name := named_session(headers, fields):
        return name
    run = header(headers, SECRET_HEADER).hex()
    system = (
        fields.get("system") or fields.get("instructions") or fields.get("systemInstruction") or ""
    )
    begin = f"{without_digits(_sample(str(system)))}\n{_sample(opening(messages))}"
    return _hashed_name(f"{run} {api}\n{begin}")


def named_session(headers: Headers, fields: Mapping[str, Any]) -> str:
    """The name of the session that a header or a field gives; "" if none does."""
    given = {name.lower(): value for name, value in headers}
    named = [given[name].decode("latin-1") for name in SESSION_HEADERS if name in given]
    named += [_in_metadata(fields.get("metadata"))]
    named += [_in_field(fields.get(name)) for name in SESSION_FIELDS]
    return safe_name(next((name.strip() for name in named if name.strip()), ""))


def safe_name(name: str) -> str:
    """The name of a session as it is kept: hashed if it is too long, or holds a secret or control characters."""
    is_safe = len(name) <= SESSION_CHARS and name.isprintable() and redact(name) == name
    return name if is_safe else _hashed_name(name)


def _hashed_name(text: str) -> str:
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{UNNAMED}{digest}"


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
    if found := _LEGACY_USER.search(user):
        return found[1]
    try:
        parsed = orjson.loads(user)
    except orjson.JSONDecodeError:
        return ""
    return _in_field(parsed.get("session_id") if isinstance(parsed, dict) else None)


def _in_field(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) else ""
