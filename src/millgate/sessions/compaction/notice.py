"""Notice: whether a window is an earlier one that was compacted, and how.

Three things shorten a window. A *summary* takes the place of messages: the client or the provider wrote one. Results of
tools are *cleared*: they stand at their place with less text. Or the oldest messages are *trimmed* without a word.
A new session, a subagent, and a turn that a person took back or edited shorten it too, and are none of these:

- An edited turn leaves out what followed it, and brings a person's words. A summary speaks of what is left out: it
  announces itself, or it names things that stood in many different messages of it.
- A subagent has other instructions, and its task speaks of little that the agent's window said.
- A new session begins with a question. It is taken for a compacted one only if it begins with a text that both
  announces itself as a summary and names what an earlier window said.
"""

import re
from collections.abc import Collection, Sequence

from millgate.sessions.compaction.account import find_names
from millgate.sessions.compaction.window import Compaction, Message, Window
from millgate.text.coverage import WindowIndex
from millgate.transcript.words import announces_summary

# Characters that must have left before a compaction is told, or half of the window: about 1 000 tokens, as for a break
# of the prompt cache. Agents put reminders into messages and take them out again; these have some hundred.
LEAST = 4_000
# Messages in which things were said first that a summary without an announcement names, and one with it. Chosen with
# `make bench-compaction ARGS="notice ..."`.
LEAST_NAMED = 4
LEAST_NAMED_ANNOUNCED = 2
# Share of the instructions of a window that must stand in those of the other: agents write the time into theirs.
SAME_INSTRUCTIONS = 0.6
LEAST_KEPT = 3  # messages at the end of a trimmed window; two short ones may be the same by chance
NEAR_START = (
    8  # text messages that are new in which a summary is looked for: agents put files behind theirs
)
# How agents ask the model for a summary; the last message of a window may be that.
_ASKED = re.compile(
    r"summar|compact|checkpoint|hand-?off|condense|compress|state_snapshot", re.IGNORECASE
)


def notice(before: Window, after: Window, *, is_same_session: bool = True) -> Compaction | None:
    """The compaction that made one window of the other; None if it only grew, or is another conversation."""
    lost = tuple(m for m in before.messages if m.number not in after.numbers)
    if not lost:
        return None
    is_large = sum(message.chars for message in lost) >= least_lost(before.chars)
    fresh = [m for m in after.messages if m.number not in before.numbers]
    made = next((message for message in reversed(fresh) if message.is_summary), None)
    if made is not None and is_large:
        return Compaction("summary", lost, made.words, made.at)
    found = _find_summary(before, after, lost, fresh, is_same_session=is_same_session)
    if found is not None and (is_large or announces_summary(found.words)):
        lost = _without_request(lost, before)
        at = next(m.at for m in after.messages if m.number == fresh[0].number)
        return Compaction("summary", lost, found.words, at)
    if not is_same_session or not is_large:
        return None
    return _find_cleared(lost, fresh) or _find_trimmed(before, after, lost, fresh)


def least_lost(chars: int) -> float:
    """How many of a window's characters must have left."""
    return min(LEAST, chars / 2)


def begins_with_summary(window: Window) -> bool:
    """Whether a window begins with a text that says that it is a summary."""
    texts = [message for message in window.messages if message.words.strip()]
    return any(announces_summary(message.words) for message in texts[:NEAR_START])


def _find_summary(
    before: Window,
    after: Window,
    lost: Sequence[Message],
    fresh: Sequence[Message],
    *,
    is_same_session: bool,
) -> Message | None:
    """The message of a window that stands for what was lost."""
    texts = [message for message in fresh if message.words.strip() and not _has_results(message)]
    lost_chars = sum(message.chars for message in lost)
    if not texts or after.chars > before.chars or not _has_same_preamble(before, after):
        return None
    first_said: dict[str, int] | None = None
    # OpenCode lets a question announce the summary, which is the answer
    asked = (message for message in after.messages if message.at == texts[0].at - 1)
    is_announced = any(announces_summary(message.words) for message in asked)
    for message in texts[:NEAR_START]:
        is_announced = is_announced or announces_summary(message.words)
        if not is_announced and (not is_same_session or message.chars > lost_chars):
            continue
        if first_said is None:
            first_said = _index(before)
        named = set(find_names(message.words))
        known = {first_said[name] for name in named & first_said.keys()}
        if is_announced:
            # behind a turn that a person edited nothing stands that stood in the window before
            kept = any(m.at > message.at and m.number in before.numbers for m in after.messages)
            if (is_same_session and (kept or not named)) or len(known) >= (1 if is_same_session else LEAST_NAMED_ANNOUNCED):  # fmt: skip
                return message
        # a message that a person edited says again what it said, and what stands before it
        elif len(known & {other.at for other in lost[1:]}) >= LEAST_NAMED:
            return message
    return None


def _index(window: Window) -> dict[str, int]:
    """In which message of a window each path and identifier was named first."""
    found: dict[str, int] = {}
    for message in window.messages:
        text = "\n".join(
            p.text
            for p in message.parts
            if p.kind in ("human", "summary", "compaction", "text", "call")
        )
        for name in find_names(text):
            found.setdefault(name, message.at)
    return found


def _has_results(message: Message) -> bool:
    return any(part.kind in ("result", "call") for part in message.parts)


def _has_same_preamble(before: Window, after: Window) -> bool:
    """Whether both windows belong to one agent: a subagent is instructed otherwise."""
    old, new = before.preamble, after.preamble
    if old == new or not old or not new:
        return old == new or not new
    return float(WindowIndex.of([old]).coverage([new])[0]) >= SAME_INSTRUCTIONS


def _without_request(lost: tuple[Message, ...], before: Window) -> tuple[Message, ...]:
    """The messages without the one in which the agent asked the model for the summary."""
    last = before.messages[-1]
    if lost and lost[-1] is last and last.said and _ASKED.search(last.said):
        results = tuple(part for part in last.parts if part.kind == "result")
        return (*lost[:-1], Message(last.at, results)) if results else lost[:-1]
    return lost


def _find_cleared(lost: Sequence[Message], fresh: Sequence[Message]) -> Compaction | None:
    """Results that stand at their place with less text than they had."""
    left = {part.id: len(part.text) for m in fresh for part in m.parts if part.kind == "result" and part.id}  # fmt: skip
    cleared = []
    for message in lost:
        parts = tuple(
            part
            for part in message.parts
            if part.kind == "result" and 2 * left.get(part.id, len(part.text)) < len(part.text)
        )
        if parts:
            cleared.append(Message(message.at, parts))
    if sum(message.chars for message in cleared) < LEAST:
        return None
    return Compaction("cleared", tuple(cleared), at=fresh[0].at)


def find_results(window: Window, excluded: Collection[str] = ()) -> list[Message]:
    """The results of tools, each with its call, oldest first: the order in which services clear them."""
    calls = {p.id: p for m in window.messages for p in m.parts if p.kind == "call"}
    found = ((m.at, calls.get(p.id), p) for m in window.messages for p in m.parts if p.kind == "result")  # fmt: skip
    return [
        Message(at, (call, result) if call else (result,))
        for at, call, result in found
        if not (call and call.tool in excluded)
    ]


def _find_trimmed(
    before: Window, after: Window, lost: Sequence[Message], fresh: Sequence[Message]
) -> Compaction | None:
    """The oldest messages are gone, and the last ones stand behind each other as they stood."""
    old, new = [m.number for m in before.messages], [m.number for m in after.messages]
    end = len(new) - new[::-1].index(old[-1]) if old[-1] in new else 0
    kept = next((n for n in range(end) if n == len(old) or old[-1 - n] != new[end - 1 - n]), end)
    if kept < LEAST_KEPT or lost[-1].at >= before.messages[-kept].at:
        return None
    if fresh and fresh[0].at < after.messages[end - 1].at:
        return None
    return Compaction("trimmed", tuple(lost), at=after.messages[end - kept].at)
