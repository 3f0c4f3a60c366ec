"""Ask: a request for a model's answer, what the model says to it, and the parts that all APIs share."""

import hashlib
import json
from dataclasses import dataclass

from tests.agents.wire import Head, Pause, Piece, plain

PIECE = 32  # characters of a text that come in one piece
STREAM = Head(headers=(("content-type", "text/event-stream"), ("cache-control", "no-cache")))


@dataclass(frozen=True)
class Reply:
    """What the model says: thinking, then text, then tool calls (a name and its arguments, or a text)."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict | str], ...] = ()
    wait_s: float = 0.0  # before the first token
    input_tokens: int = 0  # that the service claims to have read; 0: those of the request


def tokens_of(text):
    return max(1, len(text) // 4)


def pieces_of(text):
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def signature_of(thinking):
    """A signature that holds for this thinking alone."""
    return "sig-" + hashlib.sha256(thinking.encode()).hexdigest()


def texts_in(value):
    """Every text inside a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)


def sse(data, tokens=0, *, event=""):
    name = f"event: {event}\n" if event else ""
    return Piece(f"{name}data: {json.dumps(data)}\n\n".encode(), tokens)


class Ask:
    """A request for a model's answer."""

    overloaded = 503  # the status of a service that has too much to do

    def __init__(self, sent):
        self.sent = sent
        self.fields = json.loads(sent.plain)
        self.serial = ""  # for the ids of the answer: the same in every run of a scenario, and another in every call

    @property
    def stream(self):
        return bool(self.fields.get("stream"))

    def is_compaction(self):
        """Whether the conversation is to be summed up: its last words ask for that."""
        last = [*texts_in(self.conversation()[-1])][-1:]
        return any("summary" in text for text in last)

    def usage(self, reply):
        """Tokens in and out."""
        said = reply.thinking + reply.text + json.dumps(reply.calls)
        return reply.input_tokens or len(self.sent.plain) // 4, tokens_of(said)

    def say(self, reply):
        """The steps of an answer that says this."""
        wait = [Pause(reply.wait_s)] if reply.wait_s else []
        if not self.stream:
            whole = self.whole(reply)
            return [*wait, Head(headers=(("content-type", "application/json"),)), Piece(json.dumps(whole).encode(), self.usage(reply)[1])]  # fmt: skip
        return [*wait, STREAM, *self.events(reply)]

    def error(self, status, message, **headers):
        """The steps of an error."""
        return plain(status, self.error_body(status, message), **headers)

    def error_body(self, status, message):
        return {"error": {"message": message, "type": "invalid_request_error" if status == 400 else "server_error", "param": None, "code": None}}  # fmt: skip

    def refusal(self):
        """Why the real service would refuse the request; empty if it would not."""
        return ""
