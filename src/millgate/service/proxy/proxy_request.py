"""ProxyRequest: a request to a model API as the proxy reads and changes it.

Of the body the proxy checks only what it must understand; everything else is the upstream's business and passes
untouched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from millgate.errors import InputError
from millgate.guard.dialects.dialect import Dialect, InvalidRequest
from millgate.guard.resume import Message
from millgate.service.proxy.options import Options, parse_options
from millgate.service.proxy.transport import header
from millgate.service.wire import Headers
from millgate.text.bounded_json import loads
from millgate.types.lengths import NAME_CHARS
from millgate.types.policy import ProxyPolicy


class WrongContentType(InputError):
    """A body in a form that cannot be read."""

    status = 415


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
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
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
