"""ProxyRequest: a client's request to a model, checked as far as the gate must understand it.

Everything else in the body is the upstream's business and passes untouched. What the client wants of the gate itself
stands in `x-headgate-*` headers, which never reach the upstream.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from headgate.errors import InputError
from headgate.guard.dialects.dialect import Dialect, InvalidRequest
from headgate.guard.policy import CirclesPolicy
from headgate.guard.resume import Message
from headgate.policy import ProxyPolicy
from headgate.service.proxy.transport import Headers, header
from headgate.text.bounded_json import loads

GUARD_HEADERS = {
    "detector": "x-headgate-guard-detector",
    "divergence_token": "x-headgate-guard-divergence-token",
    "tool_calls": "x-headgate-guard-tool-calls",
}
ENTROPY_HEADERS = {
    "window": "x-headgate-guard-window",
    "min_bits": "x-headgate-guard-min-bits",
    "max_drop": "x-headgate-guard-max-drop",
}
SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}  # fmt: skip


class WrongContentType(InputError):
    """A body in a form that cannot be read."""

    status = 415


@dataclass(frozen=True, slots=True)
class Options:
    """What the client wants of the gate."""

    guard: bool = True
    guard_changes: Mapping[str, Any] = field(default_factory=dict)
    context: bool = False
    collection: str = "main"
    budget: int = 1000
    k: int | None = None
    window: int = 0
    upstream: str = ""
    session: str = ""
    circles: CirclesPolicy | None = None
    """The rungs that the client wants; None: as the settings say."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A checked request: its bytes, its fields, its conversation, and the options."""

    body: bytes = field(repr=False)
    fields: Mapping[str, Any] = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    model: str
    options: Options

    def with_fields(self, changed: Mapping[str, Any]) -> "ProxyRequest":
        """The same request with some fields replaced, each at its place in the body."""
        fields = {**self.fields, **changed}
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
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidRequest("the body is not a JSON object")
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model must be a name", param="model")
    messages = dialect.conversation(fields)
    return ProxyRequest(body, fields, messages, model, parse_options(headers, policy))


def _check_content_type(headers: Headers) -> None:
    kind = header(headers, b"content-type").split(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise WrongContentType(
            f"content-type is {kind.decode('latin-1')!r}; it must be application/json"
        )
    packed = header(headers, b"content-encoding").strip().lower()
    if packed not in (b"", b"identity"):
        raise WrongContentType(
            f"content-encoding is {packed.decode('latin-1')!r}", hint="send it plain"
        )


def parse_options(headers: Iterable[tuple[bytes, bytes]], policy: ProxyPolicy) -> Options:
    """What the headers say about guard and context; an error names the header."""
    given = {
        name.decode("latin-1").lower(): value.decode("latin-1").strip()
        for name, value in headers
        if name.lower().startswith(b"x-headgate-")
    }
    if not given:
        return Options(context=policy.context, collection=policy.collection, budget=policy.budget)
    return Options(
        guard=_parse_switch(given, "x-headgate-guard", default=True),
        guard_changes=_parse_guard(given),
        context=_parse_switch(given, "x-headgate-context", default=policy.context),
        collection=given.get("x-headgate-collection") or policy.collection,
        budget=_parse_number(given, "x-headgate-budget") or policy.budget,
        k=_parse_number(given, "x-headgate-k") or None,
        window=_parse_number(given, "x-headgate-window"),
        session=given.get("x-headgate-session", ""),
        upstream=given.get("x-headgate-upstream", ""),
        circles=_parse_rungs(given),
    )


def _parse_guard(given: Mapping[str, str]) -> dict[str, Any]:
    """What the headers change in the guard's policy, which checks the values."""
    rule = {name: given[header] for name, header in ENTROPY_HEADERS.items() if header in given}
    changes: dict[str, Any] = {"entropy": rule} if rule else {}
    changes |= {name: given[header] for name, header in GUARD_HEADERS.items() if header in given}
    return changes


def _parse_switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if value.lower() not in SWITCH:
        raise InvalidRequest(f"{name} is {value[:80]!r}; it must be on or off", param=name)
    return SWITCH[value.lower()]


def _parse_rungs(given: Mapping[str, str]) -> CirclesPolicy | None:
    """`x-headgate-circles`: off, on, or rungs as note=3, list=5, end=8."""
    name = "x-headgate-circles"
    value = given.get(name)
    if value is None or SWITCH.get(value.lower()):
        return None
    if SWITCH.get(value.lower()) is False:
        return CirclesPolicy(rungs={})
    pairs = [part.split("=") for part in value.replace(" ", "").split(",")]
    try:
        return CirclesPolicy.model_validate({"rungs": dict(pairs)})
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is {value[:80]!r}; it must be on, off, or rungs as note=3,list=5,end=8",
            param=name,
        ) from error


def _parse_number(given: Mapping[str, str], name: str) -> int:
    value = given.get(name)
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and int(value[:10]) > 0 and len(value) < 10):
        raise InvalidRequest(f"{name} is {value[:80]!r}; it must be a positive number", param=name)
    return int(value)
