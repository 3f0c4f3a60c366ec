"""Window: the messages of one request, each with its parts and a number by which it is known in another request.

A provider that compacts a window itself leaves a block or an item in it, and the model sees nothing that stands before
it. Clients may go on sending that. An item of the responses API leaves the person's own messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millgate.calls.lazy import lazy_property
from millgate.text.fence import without_fences
from millgate.transcript.parts import Part, join_texts, question_of, read, read_all
from millgate.transcript.words import MOST_CHARS

Way = Literal["summary", "cleared", "trimmed"]
_SPOKEN = ("human", "system", "summary", "compaction", "text")


@dataclass(frozen=True)
class Message:
    """One message: where it stands, its parts, what a person says in it."""

    at: int
    parts: tuple[Part, ...]
    said: str = ""
    """The words of a person; empty if none speaks."""
    is_summary: bool = False
    """Whether the provider made it of all that stood before it."""

    @lazy_property
    def number(self) -> int:
        """The same for the same message in another request."""
        return number_of(self.parts)

    @lazy_property
    def chars(self) -> int:
        """The length of its parts."""
        return sum(len(part.text) for part in self.parts)

    @property
    def words(self) -> str:
        """What a person or the model says in it, without calls, results and thinking."""
        return "\n".join(part.text for part in self.parts if part.kind in _SPOKEN)  # fmt: skip


@dataclass(frozen=True)
class Window:
    """The messages of one request that the model sees, without its preamble."""

    messages: tuple[Message, ...]
    preamble: str = ""
    """The system prompt."""

    @lazy_property
    def numbers(self) -> frozenset[int]:
        """The numbers of all messages."""
        return frozenset(message.number for message in self.messages)

    @lazy_property
    def chars(self) -> int:
        """The length of all messages."""
        return sum(message.chars for message in self.messages)

    @property
    def turns(self) -> int:
        """How often the model spoke."""
        return sum(any(p.kind in ("text", "call") for p in m.parts) for m in self.messages)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What happened between two windows of a conversation."""

    way: Way
    lost: tuple[Message, ...]
    """Messages, or cleared parts of messages, that the later window does not have."""
    summary: str = ""
    """The text that stands for them; empty if there is none, or if only the provider can read it."""
    at: int = 0
    """The place in the later window from which on it is new."""


def read_window(messages: Iterable[Mapping[str, Any]], preamble: Sequence[str] = ()) -> Window:
    """Read the messages of a request of any API, as its dialect gives them."""
    seen: list[Message] = []
    system = list(preamble)
    given = list(messages)
    for at, (message, parts) in enumerate(zip(given, read_all(given), strict=True)):
        if message.get("role") in ("system", "developer") and not seen:
            system.append("\n".join(part.text for part in parts))
            continue
        is_summary = any(part.kind == "compaction" for part in parts)
        if is_summary:
            seen = [one for one in seen if one.said and "role" not in message]
        joined = tuple(join_texts(map(_shorten, parts)))
        seen.append(Message(at, joined, "" if is_summary else question_of(parts), is_summary))
    return Window(tuple(seen), "\n".join(system))


def number_of(parts: Iterable[Part]) -> int:
    """A number by which a message is recognized in a later request."""
    return hash(tuple((part.kind, part.id, part.tool, part.text) for part in parts))


def first_visible(messages: Sequence[Mapping[str, Any]]) -> int:
    """The place of the last block in which the provider compacted all that stands before it; 0 if there is none."""
    return next((at for at in range(len(messages) - 1, 0, -1) if _is_compacted(messages[at])), 0)


def _is_compacted(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list) or not any("compaction" in str(b.get("type")) for b in content if isinstance(b, Mapping)):  # fmt: skip
        return False
    return any(part.kind == "compaction" for part in read(message))


def count_compacted(body: bytes) -> int:
    """About how often a provider compacted the window of a request, told without parsing it."""
    return body.count(b'compaction"') + body.count(b'"compaction_')


def _shorten(part: Part) -> Part:
    text = part.text[:MOST_CHARS]
    if part.kind in _SPOKEN:
        text = without_fences(text)
    return part._replace(text=text) if text is not part.text else part
