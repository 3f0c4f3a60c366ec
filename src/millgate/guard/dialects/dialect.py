"""Dialect: what the guard must know of an API: a table of its names, and methods for what truly differs.

The methods stand in the order of a call: its request, the turns in it, its stream, its whole answer, answers of our
own, errors. What an API has to say itself is abstract: a class that leaves one out is refused when it is loaded.

One object serves one answer, over as many calls as it takes. It reads the events of every call, and writes what the
guard lets out as events of the first one: one id, one numbering, no second beginning, and text that adds up. What most
APIs have in common stands here as a default.

Each API of this package is one file beside this one, and a line in `DIALECTS`. A package of yours adds one by an entry
point. The proxy then serves its path, as here an API that is OpenAI's chat but for the name of one field:

    class AcmeDialect(ChatDialect):
        path = "/v1/acme/chat"
        messages_field = "turns"

    [project.entry-points."millgate.dialects"]
    acme = "acme_millgate:AcmeDialect"
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, ClassVar

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


# Tokens: no model answers with more today, and a larger limit must not block a cap for all other calls.
LARGEST_ANSWER = 1_000_000
MOST_ANSWERS = 128  # of one request, as OpenAI's API allows
JSON_FORMATS = ("json_object", "json_schema")  # of OpenAI's APIs


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """What we answer ourselves, without the model: its text, and what an answer carries besides."""

    text: str
    model: str
    id: str
    created: int


class Dialect(ABC):
    """One API. The module docstring has an example."""

    # The table of names

    path: ClassVar[str]
    """Where the proxy serves the API, below /v1/ or /v1beta/; `serves` says more if the path has parts that change."""
    operation: ClassVar[str] = "chat"
    """What OpenTelemetry calls it: chat or text_completion."""
    resume: ClassVar[Resume] = "auto"
    """How a call goes on from a text; auto: as the policy says."""
    key_header: ClassVar[str] = "bearer"
    """The header in which the API takes a key; bearer: `authorization`, behind that word."""
    messages_field: ClassVar[str] = "messages"
    """The field of the conversation."""
    system_fields: ClassVar[Sequence[str]] = ()
    """The fields of the system prompt, if it is none of the messages; the first that is set counts."""
    config_field: ClassVar[str] = ""
    """The field that holds limits and sampling; empty: they stand beside the others."""
    limits: ClassVar[Sequence[str]] = ()
    """The fields that limit the tokens of an answer."""
    least_limit: ClassVar[int] = 1
    """The least limit that the API takes."""
    sampling: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """From the names of OpenAI's chat to the fields that change the sampling."""
    answers_fields: ClassVar[Sequence[str]] = ()
    """The fields that ask for several answers at once."""
    reference_field: ClassVar[str] = ""
    """The field that names an earlier answer which the upstream has stored, if there is one."""
    answer_field: ClassVar[str] = ""
    """The field of an event that holds the answer so far, if there is one."""
    usage_field: ClassVar[str] = "usage"
    """The field of an answer, or of an event, that holds its usage."""
    usage_names: ClassVar[Sequence[str]] = ()
    """What a usage calls the tokens of its input, of its output, and their sum."""
    done: ClassVar[bytes] = b""
    """The data of the event that ends every stream, if there is one."""

    # What is known of the answer

    ended: bool = False
    """Whether the current call said that its answer is complete."""
    calls: int = 0
    """How many calls of the model were begun."""
    answer_ids: tuple[str, str] = ("", "")
    """The id under which the client knows the answer, and that under which the upstream may have stored it."""
    severed_reasoning: Sequence[bytes] = ()
    """Digests of reasoning that the client may have, which the API would refuse."""
    applied_edits: Sequence[Event] = ()
    """What the service says that it cleared from the window for this answer, if it tells."""

    # Requests

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

    def config(self, fields: Fields) -> Fields:
        """The fields in which limits and sampling stand."""
        return mapping_of(fields.get(self.config_field)) if self.config_field else fields

    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """The conversation, oldest message first; InvalidRequest if it cannot be read."""
        return check_messages(fields.get(self.messages_field), self.messages_field)

    def replace_conversation(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The fields that carry this conversation."""
        return {self.messages_field: messages}

    def why_unwatched(self, fields: Fields) -> str:
        """Why an answer to this request cannot be resumed, so that the guard does not watch it; else nothing."""
        for name in self.answers_fields[:1]:
            if (answers := self.config(fields).get(name)) not in (None, 1):
                return f"{name} is {answers}: several answers cannot be resumed one by one"
        return ""

    @abstractmethod
    def is_structured(self, fields: Fields) -> bool:
        """Whether structured output is asked for."""

    def token_limit(self, fields: Fields) -> int:
        """The request's limit of output tokens, by the last of its names; 0 if there is none."""
        limits = self._limits(fields, self.limits)
        return min([*limits.values()][-1], LARGEST_ANSWER) if limits else 0

    def answers(self, fields: Fields) -> int:
        """How many answers the request asks for; each may have as many tokens as the limit allows."""
        asked = self._limits(fields, self.answers_fields)
        return min(max(asked.values(), default=1), MOST_ANSWERS)

    def remaining_limit(self, fields: Fields, used_tokens: int) -> dict[str, int]:
        """The fields that limit the rest of the answer."""
        limits = self._limits(fields, self.limits)
        return {name: max(self.least_limit, most - used_tokens) for name, most in limits.items()}

    def _limits(self, fields: Fields, names: Sequence[str]) -> dict[str, int]:
        """Those of some fields that set a limit: some clients send -1 for none, and true is not a number here."""
        config = self.config(fields)
        found = {name: config.get(name) for name in names}
        return {n: most for n, most in found.items() if type(most) is int and most > 0}

    def sampling_overrides(self, sampling: Mapping[str, float], fields: Fields) -> dict[str, float]:
        """Changed sampling as fields of this API, never below what the request asks for; none if it takes none.

        A value that is not a number stays as it is: the upstream refuses it.
        """
        config = self.config(fields)
        return {
            name: max(value, config.get(name) or 0)
            for known, value in sampling.items()
            if (name := self.sampling.get(known))
            and isinstance(config.get(name), int | float | None)
        }

    @abstractmethod
    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """The fields that end the reasoning, or shorten it, if the request asked for it; None takes a field out."""

    def unsigned_reasoning(self, messages: Sequence[Message]) -> Sequence[tuple[bytes, int, int]]:
        """Reasoning in a conversation that its API may refuse: its digest, and at which message and part it stands."""
        return ()

    def ask_usage(self, fields: Fields) -> dict[str, Any]:
        """The fields that ask for usage, if the stream would not report it otherwise."""
        return {}

    # Turns

    def preamble(self, fields: Fields) -> tuple[str, ...]:
        """What stands before the conversation: the system prompt, if it is a field of its own."""
        given = next((fields[name] for name in self.system_fields if fields.get(name)), None)
        if isinstance(given, str):
            return (given,)
        parts = given.get("parts") if isinstance(given, Mapping) else given
        return tuple(texts_of(parts))

    def human_text(self, message: Message) -> str:
        """What a person said in this message, or the summary of it; nothing for tool results and all other roles."""
        parts = read(message)
        return question_of(parts) or "\n".join(p.text for p in parts if p.kind == "summary")

    def add_block(self, message: Message, block: str) -> Message:
        """The message with a block in front of its words, and behind the tool results that it brings."""
        return dict(insert(message, block))

    # The stream

    def restart(self) -> None:
        """A new call begins."""
        self.calls += 1
        self.ended = False

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

    def is_error(self, event: Event) -> bool:
        """Whether an event tells of an error, after which nothing comes."""
        says_more = event.get("choices") or event.get("candidates")
        return event.get("type") == "error" or bool(event.get("error") and not says_more)

    def usage(self, found: Event) -> Usage | None:
        """The usage inside an event or a whole answer, or None."""
        inner = found.get(self.answer_field)
        usage = (inner if isinstance(inner, dict) else found).get(self.usage_field)
        return usage if isinstance(usage, dict) else None

    def is_usage_event(self, event: Event) -> bool:
        """Whether an event brings usage and nothing else, as it comes if usage was asked for."""
        return False

    def with_usage(self, found: Event, usage: Usage) -> Event:
        """The event or whole answer with another usage."""
        inner = found.get(self.answer_field)
        if isinstance(inner, dict):
            return {**found, self.answer_field: {**inner, self.usage_field: usage}}
        return {**found, self.usage_field: usage}

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        """Usage in the words of this API."""
        counts = (input_tokens, output_tokens, input_tokens + output_tokens)
        return dict(zip(self.usage_names, counts, strict=False))

    def usage_events(self, last: Event, fields: Fields) -> list[Event]:
        """The events that tell usage after the last one, if this API has such and the request asked for them."""
        return []

    # Whole answers

    @abstractmethod
    def pieces(self, answer: Event) -> list[Piece]:
        """Its text, reasoning and tool calls; nothing for an answer of another shape."""

    @abstractmethod
    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        """The last call's answer with the texts of all calls, `calls` of its tool calls, and the id of the first."""

    # Answers of our own, as clients of this API expect one of a model

    @abstractmethod
    def own_answer(self, answer: OwnAnswer) -> Event:
        """The whole answer."""

    @abstractmethod
    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:
        """The same as the events of a stream."""

    # Errors, as clients of this API expect them

    @abstractmethod
    def error(self, error: MillgateError, param: str | None = None) -> Event:
        """The body of an error."""

    def error_event(self, error: MillgateError) -> Event:
        """An error in the middle of a stream, behind which nothing comes."""
        return self.error(error)


def digest(text: str) -> bytes:
    """By what a text is known that the client sends back."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def pick(found: Event, *names: str) -> Event:
    """Some fields of an event, those that it has."""
    return {name: found[name] for name in names if name in found}


def mapping_of(value: object) -> Mapping[str, Any]:
    """A field that should hold others; empty if it does not."""
    return value if isinstance(value, Mapping) else {}


def texts_of(parts: object) -> list[str]:
    """The texts of a list of parts."""
    rows = parts if isinstance(parts, list) else []
    texts = [row.get("text") for row in rows if isinstance(row, Mapping)]
    return [text for text in texts if isinstance(text, str)]


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
