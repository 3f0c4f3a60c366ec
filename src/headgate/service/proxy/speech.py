"""Speech: how each API writes its events, ends, errors and usage; the wires of the guard know the rest.

Usage after a rollback is the sum over all calls, each standing in `headgate.calls`. A call that was severed told no
usage of its own in most APIs, so its part is estimated and says so.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from headgate.errors import (
    AccessError,
    BusyError,
    ConfigError,
    GuardError,
    HeadgateError,
    InputError,
    LimitError,
    NotFound,
    ScopeError,
    StoreError,
)
from headgate.guard.dialects import Event, Wire
from headgate.guard.dialects.chat import ChatWire
from headgate.guard.dialects.messages import MessagesWire
from headgate.service.proxy.sse import END_OF_STREAM, event

Usage = dict[str, Any]

_KINDS: tuple[tuple[type[HeadgateError], str, str], ...] = (
    (LimitError, "invalid_request_error", "too_large"),
    (NotFound, "invalid_request_error", "model_not_found"),
    (InputError, "invalid_request_error", "invalid_request"),
    (ScopeError, "permission_error", "insufficient_scope"),
    (AccessError, "authentication_error", "invalid_api_key"),
    (BusyError, "rate_limit_error", "rate_limit_exceeded"),
    (StoreError, "server_error", "not_available"),
    (ConfigError, "server_error", "not_configured"),
    (GuardError, "upstream_error", "model_loop"),
    (HeadgateError, "upstream_error", "upstream_failed"),
)


def status_of(error: HeadgateError) -> int:
    """The status that clients of these APIs expect."""
    if isinstance(error, ConfigError):
        return 503
    return 400 if error.status == 422 else error.status


class Speech(Protocol):
    """One API."""

    wire: Wire
    done: bytes  # what ends a stream that the proxy wrote itself
    ended: bool  # whether the call of now said its last word

    def plainly(self, found: Event) -> str | None:
        """The text of an event that brings content and nothing else, which is what nearly all are."""

    def note(self, found: Event) -> None:
        """See an event of the call of now: usage, its end."""

    def failed(self, found: Event) -> bool:
        """Whether an event tells of an error."""

    def write(self, made: Event) -> bytes:
        """An event as bytes."""

    def error(self, error: HeadgateError, param: str | None = None) -> Event:
        """An error as this API shapes it."""

    def broken(self, error: HeadgateError) -> bytes:
        """An error in the middle of a stream."""

    def usage(self, found: Event) -> Usage | None:
        """The usage inside an event or answer, or None."""

    def estimate(self, prompt: int, said: int) -> Usage:
        """Usage as this API writes it."""

    def limited(self, body: Mapping[str, Any], said: int) -> dict[str, int]:
        """What is left of the request's limit of tokens."""

    def counted(self, last: Event) -> list[Event]:
        """The events that tell usage after the last one, where this API has such."""


class ChatSpeech:
    """OpenAI's chat completions."""

    done = END_OF_STREAM

    def __init__(self) -> None:
        self.wire: Wire = ChatWire()
        self.ended = False

    def plainly(self, found: Event) -> str | None:
        """The content of a chunk with one delta that has nothing else."""
        match found:
            case {
                "choices": [
                    {"delta": {"content": str(text), **rest}, "finish_reason": None, "index": 0}
                ]
            }:
                if text and not rest and not found.get("usage"):
                    return text
        return None

    def note(self, found: Event) -> None:
        """A finish reason is the last word."""
        choices = found.get("choices")
        if choices and choices[0].get("finish_reason"):
            self.ended = True

    def failed(self, found: Event) -> bool:
        """Whether an event tells of an error."""
        return bool(found.get("error")) and not found.get("choices")

    def write(self, made: Event) -> bytes:
        """A data line."""
        return event(made)

    def error(self, error: HeadgateError, param: str | None = None) -> Event:
        """{"error": {message, type, param, code}}."""
        kind, code = next((k, c) for cls, k, c in _KINDS if isinstance(error, cls))
        said = {"message": str(error), "type": kind, "param": param, "code": code}
        return {"error": said}

    def broken(self, error: HeadgateError) -> bytes:
        """An error event; no [DONE] follows."""
        return event(self.error(error))

    def usage(self, found: Event) -> Usage | None:
        """The usage of a chunk or an answer."""
        usage = found.get("usage")
        return usage if isinstance(usage, dict) else None

    def estimate(self, prompt: int, said: int) -> Usage:
        """Prompt, completion and total."""
        total = prompt + said
        return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": total}

    def limited(self, body: Mapping[str, Any], said: int) -> dict[str, int]:
        """max_tokens or max_completion_tokens less what was said."""
        names = ("max_tokens", "max_completion_tokens")
        return {n: max(1, body[n] - said) for n in names if isinstance(body.get(n), int)}

    def counted(self, last: Event) -> list[Event]:
        """A chunk without choices."""
        return [{**last, "choices": [], "usage": self.estimate(0, 0)}]


class MessagesSpeech:
    """Anthropic's messages."""

    done = b""
    _NAMES: Mapping[int, str] = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        429: "rate_limit_error",
        404: "not_found_error",
        413: "request_too_large",
    }

    def __init__(self) -> None:
        self.wire: Wire = MessagesWire()
        self.ended = False

    def plainly(self, found: Event) -> str | None:
        """The text of a text delta."""
        match found:
            case {
                "type": "content_block_delta",
                "delta": {"type": "text_delta", "text": str(text)},
            }:
                return text or None
        return None

    def note(self, found: Event) -> None:
        """message_stop is the last word."""
        if found.get("type") == "message_stop":
            self.ended = True

    def failed(self, found: Event) -> bool:
        """Whether an event tells of an error."""
        return found.get("type") == "error"

    def write(self, made: Event) -> bytes:
        """A named event."""
        return event(made, name=str(made.get("type", "")))

    def error(self, error: HeadgateError, param: str | None = None) -> Event:  # not in this API
        """{"type": "error", "error": {type, message}}."""
        kind = self._NAMES.get(status_of(error), "api_error")
        return {"type": "error", "error": {"type": kind, "message": str(error)}}

    def broken(self, error: HeadgateError) -> bytes:
        """An error event; no message_stop follows."""
        return self.write(self.error(error))

    def usage(self, found: Event) -> Usage | None:
        """The usage of message_start, message_delta or a whole message."""
        inner = found.get("message")
        usage = inner.get("usage") if isinstance(inner, dict) else found.get("usage")
        if not isinstance(usage, dict):
            return None
        # What a message_start tells of its output is only the beginning of it.
        return {k: v for k, v in usage.items() if k != "output_tokens"} if inner else usage

    def estimate(self, prompt: int, said: int) -> Usage:
        """Input and output."""
        return {"input_tokens": prompt, "output_tokens": said}

    def limited(self, body: Mapping[str, Any], said: int) -> dict[str, int]:
        """max_tokens less what was said."""
        limit = body.get("max_tokens")
        return {"max_tokens": max(1, limit - said)} if isinstance(limit, int) else {}

    def counted(self, last: Event) -> list[Event]:  # message_delta told it
        """Nothing."""
        return []


class Bill:
    """Usage over the calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[Usage] = []
        self._now: Usage = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def note(self, usage: Usage | None) -> None:
        """What the call of now said last about its usage; later numbers replace earlier ones."""
        if usage:
            self._now = {**self._now, **usage}

    def cut(self, guess: Usage) -> None:
        """The call of now was severed: what it told, and guesses for what it did not."""
        told = {k: v for k, v in self._now.items() if v}
        self._calls.append({**guess, **told, "estimated": told.keys() < guess.keys()})
        self._now = {}

    def summed(self, usage: Usage, split: Mapping[str, Any]) -> Usage:
        """The usage of the last call with all others added, and the split."""
        last = {**self._now, **usage}
        calls = [*self._calls, last]
        sums = {
            name: sum(int(call.get(name) or 0) for call in calls)
            for name, value in last.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        return {**usage, **sums, "headgate": {**split, "calls": calls}}
