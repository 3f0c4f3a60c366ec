"""Request: a request to a model API as the proxy reads and changes it, its options, and the session that it belongs to.

Of the body the proxy checks only what it must understand; everything else is the upstream's business and passes
untouched. What the client wants of the proxy itself stands in `x-millgate-*` headers, which never reach the upstream.

A session is named by our own header, else by a header or field that agents send and that stays the same for a whole
session, else by a hash of how the conversation begins. A name that is too long or holds a secret is hashed. Session
names are not trusted; limits that must hold belong on the key or tenant.
"""

import io
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import opening, without_digits
from millgate.errors import InputError, LimitError, MissingExtra
from millgate.guard.dialects.dialect import Dialect, InvalidRequest
from millgate.guard.resume import Message
from millgate.service.proxy.http_client import FORMATS, SECRET_HEADER, codings_of, header
from millgate.service.wire import Headers
from millgate.sessions.compaction.policy import Mode as CompactionMode
from millgate.sessions.folding.policy import Mode as FoldMode
from millgate.text.bounded_json import loads, loads_loosely
from millgate.text.redact import redact
from millgate.types.lengths import NAME_CHARS, SESSION_CHARS
from millgate.types.policy import ProxyPolicy

try:
    import zstandard
except ImportError as error:
    raise MissingExtra("zstandard", extra="service") from error

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


PREFIX = "x-millgate-"
MUST_BE = {"bool_parsing": "on or off", "value_error": "on, off, or rungs as note=3,list=5,end=8"}


def _read_rungs(value: str) -> CirclesPolicy | None:
    """`x-millgate-circles`: off, on, or rungs as note=3, list=5, end=8."""
    if value.lower() in ("on", "off"):
        return None if value.lower() == "on" else CirclesPolicy(rungs={})
    pairs = [part.split("=") for part in value.replace(" ", "").split(",")]
    return CirclesPolicy.model_validate({"rungs": dict(pairs)})


Count = Annotated[int, Field(gt=0, lt=10**9)]
Lower = BeforeValidator(str.lower)


class Options(BaseModel):
    """What the client wants of the proxy; each in the header `x-millgate-NAME`. None: as the settings say."""

    model_config = ConfigDict(frozen=True)

    guard: bool = True
    guard_detector: str = ""
    guard_divergence_token: str = ""
    guard_tool_calls: str = ""
    context: bool = False
    collection: str = "main"
    budget: Count = 1000
    k: Count | None = None
    window: Count | Literal[0] = 0
    upstream: str = ""
    session: Annotated[str, BeforeValidator(safe_name)] = ""
    circles: Annotated[CirclesPolicy | None, BeforeValidator(_read_rungs)] = None
    compaction: Annotated[CompactionMode, Lower] | None = None
    fold: Annotated[FoldMode, Lower] | None = None

    @property
    def guard_changes(self) -> dict[str, str]:
        """What the client changes in the guard's policy, which checks the values."""
        fields = ("detector", "divergence_token", "tool_calls")
        given = {name: getattr(self, f"guard_{name}") for name in fields}
        return {name: value for name, value in given.items() if value}


def parse_options(headers: Headers, policy: ProxyPolicy) -> Options:
    """What the headers say about guard and context; an error names the header."""
    wanted: dict[str, Any] = {"context": policy.context, "collection": policy.collection, "budget": policy.budget}  # fmt: skip
    given = {
        name.lower()[len(PREFIX) :].decode("latin-1"): value.decode("latin-1").strip()
        for name, value in headers
        if name.lower().startswith(PREFIX.encode())
    }
    if not given:
        return Options.model_construct(**wanted)
    for name, value in given.items():
        if len(value) > NAME_CHARS:
            raise InvalidRequest(
                f"{PREFIX}{name[:68]} has {len(value):,} characters; it may have {NAME_CHARS}",
                param=f"{PREFIX}{name[:68]}",
            )
    named = {name.replace("-", "_"): value for name, value in given.items() if value}
    try:
        return Options.model_validate(wanted | named)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        expected = str(first.get("ctx", {}).get("expected", "a positive number")).replace("'", "")
        must_be = MUST_BE.get(first["type"], expected)
        raise InvalidRequest(
            f"{PREFIX}{name} is {given[name][:80]!r}; it must be {must_be}",
            param=f"{PREFIX}{name}",
        ) from error


class WrongContentType(InputError):
    """A body in a form that cannot be read."""

    status = 415


class UnreadBody(InvalidRequest):
    """A body that an upstream may read and we do not: it is passed on as it is."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A checked request: its bytes, its fields, its conversation, and the options."""

    body: bytes = field(repr=False)
    fields: Mapping[str, Any] = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    model: str
    options: Options

    def with_fields(self, changed: Mapping[str, Any]) -> "ProxyRequest":
        """The same request with some fields replaced, each at its place in the body; None takes one out."""
        gone = [name for name, value in changed.items() if value is None]
        fields = {name: v for name, v in {**self.fields, **changed}.items() if name not in gone}
        return replace(self, fields=fields, body=orjson.dumps(fields))

    def with_added(self, added: Mapping[str, Any]) -> bytes:
        """The body with more fields at its end, and all else as the client wrote it."""
        if added.keys() & self.fields.keys():
            return self.with_fields(added).body
        return b"%b,%b" % (self.body.rstrip()[:-1], orjson.dumps(added)[1:])

    def with_messages(self, messages: Sequence[Message], dialect: Dialect) -> "ProxyRequest":
        """The same request with another conversation."""
        changed = self.with_fields(dialect.replace_conversation(messages))
        return replace(changed, messages=tuple(messages))


def parse_request(
    headers: Headers, body: bytes, dialect: Dialect, policy: ProxyPolicy
) -> ProxyRequest:
    """The request in a body, or an error that names what is wrong with it."""
    _check_content_type(headers)
    try:
        fields = loads(body)
    except orjson.JSONDecodeError as error:
        kind = UnreadBody if fields_of(headers, body) else InvalidRequest
        raise kind(f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidRequest("the body is not a JSON object")
    model = dialect.model(fields)
    if model is None:
        raise InvalidRequest("model is missing", hint="name the model to call", param="model")
    if not isinstance(model, str) or not 0 < len(model) <= NAME_CHARS:
        raise InvalidRequest(
            f"model must be a name of at most {NAME_CHARS} characters", param="model"
        )
    messages = dialect.conversation(fields)
    return ProxyRequest(body, fields, messages, model, parse_options(headers, policy))


def fields_of(headers: Headers, body: bytes) -> dict[str, Any]:
    """The fields of a JSON body, however loosely it is written; none of any other."""
    if b"json" not in header(headers, b"content-type").lower():
        return {}
    try:
        fields = loads_loosely(body)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _check_content_type(headers: Headers) -> None:
    kind = header(headers, b"content-type").split(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise WrongContentType(
            f"content-type is {kind.decode('latin-1')!r}; it must be application/json"
        )
    if codings := codings_of(headers):
        raise UnreadBody(f"the body is compressed: {b', '.join(codings).decode('latin-1')}")


def unpack(headers: Headers, body: bytes, *, limit: int) -> tuple[Headers, bytes]:
    """Headers and body without compression, as Codex sends it. One that we do not know stays, and so do several.

    The guard reads what it watches, so a body is plain from here on, also on its way to the upstream.

    LimitError if the plain body is larger than `limit`, whatever the packed one has.
    """
    codings = codings_of(headers)
    if len(codings) != 1 or codings[0] not in (*FORMATS, b"zstd"):
        return headers, body
    form = FORMATS.get(codings[0])
    try:
        plain = _inflate(body, limit + 1, form) if form else _zstd(body, limit + 1)
    except (zlib.error, zstandard.ZstdError) as error:
        raise InvalidRequest(f"the body is not {codings[0].decode()}: {error}") from error
    if len(plain) > limit:
        raise LimitError(
            f"the body is larger than {limit:,} bytes", hint="the limit is service.body_bytes"
        )
    return [pair for pair in headers if pair[0].lower() != b"content-encoding"], plain


def _inflate(body: bytes, most: int, form: int) -> bytes:
    packed = zlib.decompressobj(form)
    plain = packed.decompress(body, most)
    if len(plain) < most and not packed.eof:
        raise zlib.error("it is not complete")
    return plain


def _zstd(body: bytes, most: int) -> bytes:
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
        io.BytesIO(body), read_across_frames=True
    ) as reader:
        return reader.read(most)
