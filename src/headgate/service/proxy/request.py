"""Ask: a client's request to a model, checked as far as the gate must understand it.

Everything else in the body is the upstream's business and passes untouched. What the client wants of the gate itself
stands in `x-headgate-*` headers, which never reach the upstream.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from headgate.errors import InputError
from headgate.policy import ProxyPolicy
from headgate.service.proxy.transport import Headers, header

SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}  # fmt: skip


class Malformed(InputError):
    """A request that these APIs would refuse: which parameter is wrong, and how."""

    status = 400

    def __init__(self, message: str, *, param: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.param = param


class WrongType(InputError):
    """A body in a form that cannot be read."""

    status = 415


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the client wants of the gate."""

    guard: bool = True
    context: bool = False
    collection: str = "main"
    budget: int = 1000
    k: int | None = None
    window: int = 0
    session: str = ""
    upstream: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request: its bytes, its fields, and the knobs."""

    body: bytes = field(repr=False)
    fields: Mapping[str, Any] = field(repr=False)
    model: str
    knobs: Knobs

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The conversation."""
        return tuple(self.fields["messages"])

    def changed(self, **fields: object) -> "Ask":
        """The same request with some fields replaced."""
        now = {**self.fields, **fields}
        return replace(self, fields=now, body=orjson.dumps(now))


def ask_of(headers: Headers, body: bytes, policy: ProxyPolicy) -> Ask:
    """The request in a body, or an error that names what is wrong with it."""
    _kind(headers)
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise Malformed("the body is not a JSON object")
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise Malformed("model must be a name", param="model")
    _conversation(fields.get("messages"))
    return Ask(body, fields, model, knobs_of(headers, policy))


def _kind(headers: Headers) -> None:
    kind = header(headers, b"content-type").split(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise WrongType(f"content-type is {kind.decode('latin-1')!r}; it must be application/json")
    packed = header(headers, b"content-encoding").strip().lower()
    if packed not in (b"", b"identity"):
        raise WrongType(f"content-encoding is {packed.decode('latin-1')!r}", hint="send it plain")


def _conversation(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        raise Malformed("messages must be a list of at least one message", param="messages")
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Malformed(
                f"messages[{at}] must be an object with a role", param=f"messages[{at}]"
            )
        if not isinstance(message.get("content"), str | list | None):
            raise Malformed(
                f"messages[{at}].content must be a text or a list of parts",
                param=f"messages[{at}].content",
            )


def knobs_of(headers: Iterable[tuple[bytes, bytes]], policy: ProxyPolicy) -> Knobs:
    """What the headers say about guard and context; an error names the header."""
    given = {
        name.decode("latin-1").lower(): value.decode("latin-1").strip()
        for name, value in headers
        if name.lower().startswith(b"x-headgate-")
    }
    return Knobs(
        guard=_switch(given, "x-headgate-guard", default=True),
        context=_switch(given, "x-headgate-context", default=policy.context),
        collection=given.get("x-headgate-collection") or policy.collection,
        budget=_number(given, "x-headgate-budget") or policy.budget,
        k=_number(given, "x-headgate-k") or None,
        window=_number(given, "x-headgate-window"),
        session=given.get("x-headgate-session", ""),
        upstream=given.get("x-headgate-upstream", ""),
    )


def _switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if value.lower() not in SWITCH:
        raise Malformed(f"{name} is {value[:80]!r}; it must be on or off", param=name)
    return SWITCH[value.lower()]


def _number(given: Mapping[str, str], name: str) -> int:
    value = given.get(name)
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and int(value[:10]) > 0 and len(value) < 10):
        raise Malformed(f"{name} is {value[:80]!r}; it must be a positive number", param=name)
    return int(value)
