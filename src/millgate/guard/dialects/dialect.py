"""Dialect: what the guard must know of an API, in parts: its requests, its stream, its whole answers, answers of our
own, its errors. What an API has to say itself is abstract: a class that leaves one out is refused when it is loaded.

One object serves one answer, over as many calls as it takes. It reads the events of every call, and writes what the
guard lets out as events of the first one: one id, one numbering, no second beginning, and text that adds up. What most
APIs have in common stands here as a default.

Each API of this package is one file beside this one, and a line in `DIALECTS`. A package of yours adds one by an entry
point. The proxy then serves its path, as here an API that is OpenAI's chat but for the name of one field:

    class AcmeDialect(ChatDialect):
        path = "/v1/acme/chat"
        def conversation(self, fields): return check_messages(fields.get("turns"), "turns")
        def replace_conversation(self, messages): return {"turns": messages}

    [project.entry-points."millgate.dialects"]
    acme = "acme_millgate:AcmeDialect"
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

from millgate.errors import InputError, MillgateError
from millgate.guard.channels import Piece
from millgate.guard.policy import Resume
from millgate.guard.resume import Message
from millgate.transcript.parts import insert, question_of, read

Event = dict[str, Any]
Fields = Mapping[str, Any]
"""The fields of a request's body."""
Usage = dict[str, Any]


class InvalidRequest(InputError):
    """A request that its API would refuse: which parameter is wrong, and how."""

    status = 400

    def __init__(self, message: str, *, param: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.param = param


class RequestFormat(Protocol):
    """What a request asks for, and how it is asked again."""

    path: ClassVar[str]
    """Where the proxy serves the API, below /v1/ or /v1beta/; `serves` says more if the path has parts that change."""
    config_field: ClassVar[str] = ""
    """The field that holds limits and sampling; empty: they stand beside the others."""
    operation: ClassVar[str] = "chat"
    """What OpenTelemetry calls it: chat or text_completion."""
    resume: ClassVar[Resume] = "auto"
    """How a call goes on from a text; auto: as the policy says."""
    key_header: ClassVar[str] = "bearer"
    """The header in which the API takes a key; bearer: `authorization`, behind that word."""
    reference_field: ClassVar[str] = ""
    """The field that names an earlier answer which the upstream has stored, if there is one."""

    @classmethod
    def serves(cls, path: str) -> bool:
        """Whether a request to this path is one of this API to a model."""
        return path == cls.path

    @classmethod
    def owns(cls, path: str) -> bool:
        """Whether a path belongs to this API, so that errors there have its format."""
        return path == cls.path or path.startswith(f"{cls.path}/")

    def read_target(self, path: str, query: bytes) -> None:
        """Read the address of a request; some APIs name the model there."""
        return

    def model(self, fields: Fields) -> object:
        """The model that a request names."""
        return fields.get("model")

    def streams(self, fields: Fields) -> bool:
        """Whether a request asks for a stream."""
        return fields.get("stream") is True

    @abstractmethod
    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """The conversation, oldest message first; InvalidRequest if it cannot be read."""

    @abstractmethod
    def replace_conversation(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The fields that carry this conversation."""

    @abstractmethod
    def why_unwatched(self, fields: Fields) -> str:
        """Why an answer to this request cannot be resumed, so that the guard does not watch it; else nothing."""

    @abstractmethod
    def is_structured(self, fields: Fields) -> bool:
        """Whether structured output is asked for."""

    @abstractmethod
    def token_limit(self, fields: Fields) -> int:
        """The request's limit of output tokens, 0 if there is none."""

    def answers(self, fields: Fields) -> int:
        """How many answers the request asks for; each may have as many tokens as the limit allows."""
        return 1

    @abstractmethod
    def remaining_limit(self, fields: Fields, used_tokens: int) -> dict[str, int]:
        """The fields that limit the rest of the answer."""

    @abstractmethod
    def sampling_overrides(self, sampling: Mapping[str, float], fields: Fields) -> dict[str, float]:
        """Changed sampling as fields of this API, never below what the request asks for; none if it takes none."""

    @abstractmethod
    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """The fields that end the reasoning, or shorten it, if the request asked for it; None takes a field out."""

    def unsigned_reasoning(self, messages: Sequence[Message]) -> Sequence[tuple[bytes, int, int]]:
        """Reasoning in a conversation that its API may refuse: its digest, and at which message and part it stands."""
        return ()

    def ask_usage(self, fields: Fields) -> dict[str, Any]:
        """The fields that ask for usage, if the stream would not report it otherwise."""
        return {}


class TurnFormat(Protocol):
    """Who said what, for context that is added to a request."""

    def preamble(self, fields: Fields) -> tuple[str, ...]:
        """What stands before the conversation: the system prompt, if it is a field of its own."""
        return ()

    def human_text(self, message: Message) -> str:
        """What a person said in this message, or the summary of it; nothing for tool results and all other roles."""
        parts = read(message)
        return question_of(parts) or "\n".join(p.text for p in parts if p.kind == "summary")

    def add_block(self, message: Message, block: str) -> Message:
        """The message with a block in front of its words, and behind the tool results that it brings."""
        return dict(insert(message, block))


class StreamFormat(Protocol):
    """The events of a stream."""

    done: ClassVar[bytes] = b""
    """The data of the event that ends every stream, if there is one."""
    ended: bool
    """Whether the current call said that its answer is complete."""
    answer_ids: tuple[str, str]
    """The id under which the client knows the answer, and that under which the upstream may have stored it."""
    severed_reasoning: Sequence[bytes] = ()
    """Digests of reasoning that the client may have, which the API would refuse."""
    applied_edits: Sequence[Event] = ()
    """What the service says that it cleared from the window for this answer, if it tells."""

    @abstractmethod
    def restart(self) -> None:
        """A new call begins."""

    @abstractmethod
    def plain_text(self, event: Event) -> str | None:
        """The text of an event that brings content and nothing else, as nearly all do; else None."""

    def note_passed(self, event: Event, text: str) -> None:
        """An event of plain text went to the client as it came, without `write`."""

    @abstractmethod
    def read(self, event: Event) -> Sequence[Piece]:
        """An event of the current call as pieces."""

    @abstractmethod
    def write(self, piece: Piece) -> Sequence[Event]:
        """A piece for the client as events."""

    @abstractmethod
    def finish(self, ended: str, said: str = "") -> Sequence[Event]:
        """The events that end a stream which the guard ended itself, as a model ends one; `said` are its last words."""

    def event_name(self, event: Event) -> str:
        """The name of an event on the wire, or nothing."""
        return str(event.get("type", ""))

    @abstractmethod
    def is_error(self, event: Event) -> bool:
        """Whether an event tells of an error, after which nothing comes."""

    @abstractmethod
    def usage(self, found: Event) -> Usage | None:
        """The usage inside an event or a whole answer, or None."""

    def is_usage_event(self, event: Event) -> bool:
        """Whether an event brings usage and nothing else, as it comes if usage was asked for."""
        return False

    @abstractmethod
    def with_usage(self, found: Event, usage: Usage) -> Event:
        """The event or whole answer with another usage."""

    @abstractmethod
    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        """Usage in the words of this API."""

    def usage_events(self, last: Event, fields: Fields) -> list[Event]:
        """The events that tell usage after the last one, if this API has such and the request asked for them."""
        return []


class AnswerFormat(Protocol):
    """An answer that is not streamed."""

    @abstractmethod
    def pieces(self, answer: Event) -> list[Piece]:
        """Its text, reasoning and tool calls; nothing for an answer of another shape."""

    @abstractmethod
    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        """The last call's answer with the texts of all calls, `calls` of its tool calls, and the id of the first."""


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """What we answer ourselves, without the model: its text, and what an answer carries besides."""

    text: str
    model: str
    id: str
    created: int


class OwnAnswerFormat(Protocol):
    """An answer of ours, as clients of this API expect one of a model."""

    @abstractmethod
    def own_answer(self, answer: OwnAnswer) -> Event:
        """The whole answer."""

    @abstractmethod
    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:
        """The same as the events of a stream."""


class ErrorFormat(Protocol):
    """Errors of ours, as clients of this API expect them."""

    @abstractmethod
    def error(self, error: MillgateError, param: str | None = None) -> Event:
        """The body of an error."""

    @abstractmethod
    def error_event(self, error: MillgateError) -> Event:
        """An error in the middle of a stream."""


# Tokens: no model answers with more today, and a larger limit must not block a cap for all other calls.
LARGEST_ANSWER = 1_000_000
MOST_ANSWERS = 128  # of one request, as OpenAI's API allows


class Dialect(
    RequestFormat, TurnFormat, StreamFormat, AnswerFormat, OwnAnswerFormat, ErrorFormat, Protocol
):
    """One API. The module docstring has an example."""


def digest(text: str) -> bytes:
    """By what a text is known that the client sends back."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def never_below(
    sampling: Mapping[str, float], fields: Fields, names: Sequence[str]
) -> dict[str, float]:
    """The changed sampling, for the names that an API knows, but never below what the request asks for.

    A value that is not a number stays as it is: the upstream refuses it.
    """
    return {
        name: max(value, fields.get(name) or 0)
        for name, value in sampling.items()
        if name in names and is_number(fields.get(name))
    }


def subtract_used(
    fields: Fields, names: Sequence[str], used: int, floor: int = 1
) -> dict[str, int]:
    """The limits of tokens that a request sets, less the tokens that are used."""
    return {n: max(floor, fields[n] - used) for n in names if is_limit(fields.get(n))}


def read_limit(fields: Fields, names: Sequence[str]) -> int:
    """The limit of output tokens that a request sets, by the last of its names; 0 if it sets none."""
    limits = [fields[name] for name in names if is_limit(fields.get(name))]
    return min(limits[-1], LARGEST_ANSWER) if limits else 0


def read_answers(fields: Fields, *names: str) -> int:
    """The number of answers that a request asks for, by the largest of some fields."""
    asked = [fields[name] for name in names if is_limit(fields.get(name))]
    return min(max(asked, default=1), MOST_ANSWERS)


def is_limit(value: object) -> bool:
    """Whether a field limits tokens: some clients send -1 for no limit, and true is not a number here."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def pick(found: Event, *names: str) -> Event:
    """Some fields of an event, those that it has."""
    return {name: found[name] for name in names if name in found}


def is_number(value: object) -> bool:
    """Whether a field is a number, or not given."""
    return isinstance(value, int | float | None)


def check_messages(messages: object, name: str, *, roles: bool = True) -> tuple[Message, ...]:
    """A list of messages with roles and readable contents; an InvalidRequest names the first that is not."""
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest(f"{name} must be a list of at least one message", param=name)
    for at, message in enumerate(messages):
        place = f"{name}[{at}]"
        if not isinstance(message, dict) or (roles and not isinstance(message.get("role"), str)):
            what = "an object with a role" if roles else "an object"
            raise InvalidRequest(f"{place} must be {what}", param=place)
        if not isinstance(message.get("content"), str | list | None):
            raise InvalidRequest(
                f"{place}.content must be a text or a list of parts", param=f"{place}.content"
            )
    return tuple(messages)
