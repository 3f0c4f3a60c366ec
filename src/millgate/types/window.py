"""The window: what the model already sees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millgate.errors import InputError

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
