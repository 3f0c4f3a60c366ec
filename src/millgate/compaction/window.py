"""Window: the messages of one request, each with its parts and a number by which it is known in another request.

Marks for the provider's cache and the spelling of the content (a text, or a list with one text) do not count. What an
agent's own program put into a person's message (reminders, the output of a command, a summary) is not what the person
said.

A provider that compacts a window itself leaves a block or an item in it, and the model sees nothing that stands before
it. Clients may go on sending that. An item of the responses API leaves the person's own messages.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millgate.classes import lazy_property
from millgate.guard.calls import is_report
from millgate.guard.dialects.turns import human_text
from millgate.guard.parts import Part, parts_of
from millgate.text.fence import without_fences

MOST_CHARS = 200_000  # of one part that are read; a longer one is a file or a log, and begins with what it is
_OPENING = re.compile(r"<([a-z][a-z_-]{2,40})>")
_COMPACTED = ("compaction", "compaction_summary", "context_compaction")
"""Types of the items that stand for a window which the provider compacted itself."""
BEGINNING = 1_500  # characters of a text in which it announces itself
# How summaries announce themselves: Claude Code, Codex, OpenCode, Gemini CLI, hermes, pi and others.
_ANNOUNCED = re.compile(
    r"^\s*\[PRIOR CONTEXT — for reference|continued from a previous conversation|another language model started|context compaction|<state_snapshot>"
    r"|<context_summary>|<conversation_summary>|compacted into|was compacted|has been compacted"
    r"|what did we do so far|handoff (?:from|summary)|checkpoint summary"
    r"|summary of (?:the |our |this |that |all )?(?:earlier|previous|prior|preceding|conversation|session|work|progress|discussion|history)"
    r"|(?:conversation|session|context|progress|history) summary|previous conversation summary",
    re.IGNORECASE,
)
# A text that asks for a summary is none.
_REQUESTED = re.compile(
    r"\b(?:create|write|provide|produce|generate|give|make|compile)\b[^.\n]{0,60}\b(?:summary|snapshot|handoff)",
    re.IGNORECASE,
)


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
        return hash(tuple((part.kind, part.id, part.tool, part.text) for part in self.parts))

    @lazy_property
    def chars(self) -> int:
        """The length of its parts."""
        return sum(len(part.text) for part in self.parts)

    @property
    def words(self) -> str:
        """What a person or the model says in it, without calls, results and thinking."""
        return "\n".join(part.text for part in self.parts if part.kind in ("human", "text", "system"))  # fmt: skip


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


def read_window(messages: Iterable[Mapping[str, Any]], preamble: Sequence[str] = ()) -> Window:
    """Read the messages of a request of any API, as its dialect gives them."""
    read: list[Message] = []
    system = list(preamble)
    before: object = None
    for at, message in enumerate(messages):
        given = dict(message)
        if given.get("role") in ("system", "developer") and not read:
            system += [part.text for part in parts_of(given)]
            continue
        one = _read_message(at, given, before)
        if one.is_summary:
            read = [m for m in read if m.said and given.get("type") in _COMPACTED]
        read.append(one)
        before = given
    return Window(tuple(read), "\n".join(system))


def first_visible(messages: Sequence[Mapping[str, Any]]) -> int:
    """The place of the last block in which the provider compacted all that stands before it; 0 if there is none."""
    places = range(len(messages) - 1, 0, -1)
    found = (at for at in places if messages[at].get("type") not in _COMPACTED and _find_compacted(messages[at]) is not None)  # fmt: skip
    return next(found, 0)


def count_compacted(body: bytes) -> int:
    """About how often a provider compacted the window of a request, told without parsing it."""
    return body.count(b'compaction"') + body.count(b'"compaction_')


def announces_summary(text: str) -> bool:
    """Whether a text begins by saying that it is a summary."""
    text = text[:BEGINNING]
    return _ANNOUNCED.search(text) is not None and _REQUESTED.search(text) is None


def _read_message(at: int, message: dict[str, Any], before: object) -> Message:
    parts = tuple(_shorten(part) for part in parts_of(message))
    if is_report(message, before):
        # the output of a command that the model wrote as text
        parts = tuple(p._replace(kind="result") if p.kind == "human" else p for p in parts)
        return Message(at, parts)
    found = _find_compacted(message)
    if found is not None:
        return Message(at, (*parts, Part("text", found)), is_summary=True)
    return Message(at, parts, _find_said(message))


def _find_said(message: dict[str, Any]) -> str:
    """What a person says in a message. Agents put their summary into the same one, as a text of its own."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    others = [b for b in blocks if not (isinstance(b, Mapping) and announces_summary(str(b.get("text", ""))))]  # fmt: skip
    words = human_text({**message, "content": others})
    return without_fences(_without_elements(words[:MOST_CHARS])).strip()


def _shorten(part: Part) -> Part:
    text = part.text if len(part.text) <= MOST_CHARS else part.text[:MOST_CHARS]
    if part.kind in ("human", "text"):
        text = without_fences(text)
    return part if text is part.text else part._replace(text=text)


def _find_compacted(message: Mapping[str, Any]) -> str | None:
    """The text of an item or block in which the provider compacted a window, "" if it is encrypted; None if none is.

    A block without either is left by a compaction that failed.
    """
    content = message.get("content")
    for block in (message, *(content if isinstance(content, list) else ())):
        if isinstance(block, Mapping) and block.get("type") in _COMPACTED:
            text = block.get("content") or block.get("summary")
            if isinstance(text, str) or block.get("encrypted_content"):
                return text if isinstance(text, str) else ""
    return None


def _without_elements(text: str) -> str:
    """A person's text without the XML elements that the agent's program put into it."""
    kept, at, unclosed = [], 0, set[str]()
    for opening in _OPENING.finditer(text):
        name = opening[1]
        if opening.start() < at or name in unclosed:
            continue
        end = text.find(f"</{name}>", opening.end())
        if end < 0:
            unclosed.add(name)
            continue
        kept.append(text[at : opening.start()])
        at = end + len(name) + 3
    return "".join((*kept, text[at:]))
