"""The window: what the model already sees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import InputError


@dataclass(frozen=True, slots=True)
class Window:
    """What the model already sees: its texts, or a fingerprint payload if the texts are not sent."""

    texts: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] | None = field(default=None, hash=False)

    def __bool__(self) -> bool:
        return bool(self.texts) or self.fingerprint is not None

    @classmethod
    def of(cls, value: "WindowLike") -> "Window":
        """From a text, texts, chat messages, a fingerprint payload, or nothing."""
        if value is None:
            return cls()
        if isinstance(value, Window):
            return value
        if isinstance(value, str):
            return cls((value,)) if value else cls()
        if isinstance(value, Mapping):
            return cls(fingerprint=value)
        if not isinstance(value, Iterable):
            raise InputError(
                f"window is {value!r}; it must be a text, texts, chat messages or a fingerprint"
            )
        texts: list[str] = []
        for item in value:
            _add_texts(texts, item)
        return cls(tuple(texts))


WindowLike = Window | str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None


def _add_texts(texts: list[str], item: object) -> None:
    """Add the texts of one block: a string, or a chat message whose content is a string or a list of parts."""
    if isinstance(item, str):
        if item:
            texts.append(item)
    elif isinstance(item, dict | Mapping):  # asking for a dict first is ten times faster
        content = item.get("content", item.get("text"))
        if isinstance(content, str | dict | None):
            _add_texts(texts, content or "")
        elif isinstance(content, Sequence):
            for part in content:
                _add_texts(texts, part)
        else:
            _add_texts(texts, content)
    else:
        raise InputError(
            f"a window block is {type(item).__name__}",
            hint="give texts, or chat messages with a 'content'",
        )
