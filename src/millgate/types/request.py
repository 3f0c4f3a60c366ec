"""A request: one question to the gate, what the model's window holds and how full it is; and the plan made of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from millgate.errors import InputError
from millgate.published import context_strategy
from millgate.published.context_strategy import ContextStrategy as Tier
from millgate.published.context_strategy import Strategy
from millgate.text.letters import replace_surrogates
from millgate.types.check import check_choice, check_count, check_type, check_unit, unique_names
from millgate.types.lengths import FOLDER_CHARS, LABEL_CHARS, NAME_CHARS, SESSION_CHARS

__all__ = ["ContextBudget", "Plan", "Strategy", "Tier"]


@dataclass(frozen=True)
class ContextBudget(context_strategy.ContextBudget):
    """The model's window: its length, what is used, and where compression would begin (0: unknown).

    If the agent does not compress (`compression_enabled` false), the threshold means nothing: only the window ends.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check_count("context_length", self.context_length)
        check_type("used_tokens", self.used_tokens, int)
        check_count("threshold_tokens", self.threshold_tokens)
        if self.used_tokens < 0:  # some agents say -1 for "unknown"
            object.__setattr__(self, "used_tokens", 0)

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window if there is none); may exceed 1."""
        if self.threshold_tokens and not self.compression_enabled:
            return replace(self, threshold_tokens=0).pressure
        return super().pressure

    @property
    def tier(self) -> Tier:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        return self.strategy


@dataclass(frozen=True, slots=True)
class Plan:
    """What `decide` made of a request: whether to retrieve, how much, and why."""

    skip: bool
    tier: Tier
    strategy: Strategy
    budget: int
    limit: int | None = None
    min_trust: float | None = None
    confidence: float = 0.0
    task: str = "unknown"
    group: str = ""
    in_danger: bool = False
    """Whether the query tells of a person in danger, so that a person must see it."""
    reasoning: str = ""
    pressure: float = 0.0
    prefetch: bool = True


_NAMED_CHARS = 200  # of the names in an error


@dataclass(frozen=True, slots=True)
class Window:
    """What the model already sees: its texts, or a fingerprint payload if the texts are not sent."""

    texts: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] | None = field(default=None, hash=False)

    def __bool__(self) -> bool:
        return bool(self.texts) or self.fingerprint is not None

    @classmethod
    def of(cls, value: "WindowLike") -> "Window":
        """From a text, texts, chat messages or one of them, a fingerprint payload, or nothing."""
        if value is None:
            return cls()
        if isinstance(value, Window):
            return value
        if isinstance(value, str):
            return cls((value,)) if value else cls()
        if isinstance(value, Mapping):
            is_message = not _MESSAGE.isdisjoint(value)
            return cls.of([value]) if is_message else cls(fingerprint=_check_fingerprint(value))
        if not isinstance(value, Iterable):
            raise InputError(
                f"window is {value!r}; it must be a text, texts, chat messages or a fingerprint"
            )
        texts: list[str] = []
        for item in value:
            if item and isinstance(item, dict | Mapping) and _MESSAGE.isdisjoint(item):
                raise _no_content(item)
            _add_texts(texts, item)
        return cls(tuple(texts))


WindowLike = Window | str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None


# Where messages and their parts have their text: most APIs, results of the Responses API, and Gemini.
_TEXTS = ("content", "text", "output", "parts")
# What a message may have instead, or nothing beside them.
_OTHERS = ("type", "tool_calls", "function_call", "refusal", "audio")
_HEAD = {"role", "name", "id"}
_MESSAGE = frozenset({*_TEXTS, *_OTHERS, "role"})
# of a fingerprint, whose other fields are checked by who reads it
_FINGERPRINT = frozenset(
    {"version", "global_sha256", "global_simhash64", "global_minhash128", "spans", "sketch"}
)


def _add_texts(texts: list[str], item: object) -> None:
    """Add the texts of one block: a string, or a chat message whose content is a string or a list of parts.

    A message may be a mapping or the object that an SDK of a model gave.
    """
    if isinstance(item, str):
        if item:
            texts.append(item)
    elif isinstance(item, dict | Mapping):  # asking for a dict first is ten times faster
        content = _content_of(item)
        if isinstance(content, str | dict | None):
            _add_texts(texts, content or "")
        elif isinstance(content, Sequence):
            for part in content:
                _add_texts(texts, part)
        else:
            _add_texts(texts, content)
    elif callable(dump := getattr(item, "model_dump", None)):
        _add_texts(texts, dump())
    else:
        raise InputError(
            f"a window block is {type(item).__name__}",
            hint="give texts, or chat messages with a 'content'",
        )


def _content_of(message: Mapping[str, Any]) -> object:
    """What a message or a part of one says; None if it says nothing, as an image or a call of a tool."""
    for name in _TEXTS:
        if (content := message.get(name)) is not None:
            return content
    known = (*_TEXTS, *_OTHERS)
    if "role" in message and message.keys() - _HEAD and not any(name in message for name in known):
        raise _no_content(message)
    return None


def _no_content(message: Mapping[str, Any]) -> InputError:
    names = ", ".join(map(repr, message))[:_NAMED_CHARS]
    return InputError(
        f"a window block has no 'content': it has {names}",
        hint="give texts, or chat messages with a 'content'",
    )


def _check_fingerprint(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    if payload and _FINGERPRINT.isdisjoint(payload):
        names = ", ".join(map(repr, payload))[:_NAMED_CHARS]
        raise InputError(
            f"the window is neither a message nor a fingerprint: it has {names}",
            hint="give texts, chat messages with a 'content', or what WindowFingerprint.to_json gave",
        )
    return payload


# Query and window have theirs in the settings (`Limits`). The engine checks them: a trace that an older release stored
# may hold more.
LENGTHS: Final = {
    "tenant": NAME_CHARS,
    "session": SESSION_CHARS,
    "asker": NAME_CHARS,
    "cwd": FOLDER_CHARS,
    "task": LABEL_CHARS,
}
"""How many characters the texts of a request may have."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the gate, and everything the caller knows about the moment it is asked in.

    `collection` is one name or several. A value of the wrong type is an InputError that names the field.
    """

    query: str
    """What the context is for."""
    budget: int = 1000
    """How large the block may be, in tokens."""
    tenant: str = "default"
    """Whose data to search."""
    collection: str | Sequence[str] = "main"
    """Which collection to search, or which ones."""
    window: Window = field(default_factory=Window)
    """What the model already sees."""
    k: int | None = None
    """How many chunks to give at most; without it, as many as fit."""
    context_budget: ContextBudget | None = None
    """How full the model's window is; the fuller, the less is given."""
    task: str | None = None
    """The kind of task, if the caller knows it."""
    session: str = ""
    """The conversation this belongs to."""
    asker: str = ""
    """The caller, if there are many: the id of a key. It bounds how many questions one caller may send to a person."""
    cwd: str = ""
    """The caller's working folder. The nearest folder above with a repository or project file names the project."""
    penalize: bool = True
    """Whether to push down what the model already sees."""
    graph: bool = True
    """Whether knowledge edges take part."""
    best_effort: bool = False
    """Whether to give what the model already sees when there is nothing else."""
    floor: float | None = None
    """The share of the expected evidence that 1,000 tokens of a chunk must hold; without it, grade.floor."""
    detail: Literal["whole", "preview"] = "whole"
    """Whole chunks, or previews of at most 300 characters."""
    order: Literal["rank", "edges"] = "rank"
    """Best first, or the best ones at both ends."""

    def __post_init__(self) -> None:
        for name in ("query", "tenant", "session", "asker", "cwd"):
            check_type(name, getattr(self, name), str)
        for name in ("penalize", "graph", "best_effort"):
            check_type(name, getattr(self, name), bool)
        check_type("budget", self.budget, int)
        check_type("window", self.window, Window)
        check_type("task", self.task, str, optional=True)
        check_type("context_budget", self.context_budget, ContextBudget, optional=True)
        check_type("k", self.k, int, optional=True)
        if self.k is not None and self.k < 1:
            raise InputError(f"k is {self.k}; it must be 1 or more, or None for whatever fits")
        if self.floor is not None:
            check_unit("floor", self.floor)
        check_choice("detail", self.detail, ("whole", "preview"))
        check_choice("order", self.order, ("rank", "edges"))
        for name in ("query", "session", "task"):  # what a trace keeps is UTF-8
            value = getattr(self, name)
            if value and not value.isascii():
                object.__setattr__(self, name, replace_surrogates(value))
        object.__setattr__(self, "collection", unique_names("collection", self.collection))

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections that are asked."""
        return (self.collection,) if isinstance(self.collection, str) else tuple(self.collection)
