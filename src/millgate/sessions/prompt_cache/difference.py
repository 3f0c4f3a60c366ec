"""Difference: where a request stops being an extension of an earlier one, and what happened there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millgate.sessions.prompt_cache.segments import Prompt, Segment

Change = Literal[
    "model",
    "parameter",
    "tool changed",
    "tool added",
    "tool removed",
    "tools reordered",
    "system changed",
    "message changed",
    "message removed",
    "message inserted",
    "compacted",
    "mark missing",
    "mark moved",
]

# A request that keeps less than this share of the messages' characters was compacted; one message less is an edit.
# Five recorded compactions kept 4 to 7 %; a cleared tool result of a recorded session leaves more than nine tenths.
COMPACTED = 0.5
FAR = 50  # segments behind a difference among which the two requests are aligned again
# Anthropic looks for a written prefix at most this many blocks before each mark (its documentation).
LOOKBACK = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that is not as it was."""

    change: Change
    name: str
    """What it is, as a person would say it: `tools[3] "Bash"`, `message 17 (result of Read src/a.py)`."""
    block: int = -1
    """Of a system block that changed: its place ..."""
    line: int = -1
    """... and the first line that is not as it was, counted from 0; -1 if that is not known."""
    now: str = ""
    """What stands there now, in a few words."""

    def describe(self) -> str:
        """The difference as a sentence without its end."""
        if self.change in ("model", "parameter"):
            return f"{self.name} changed"
        if self.change == "tools reordered":
            return f"the order of tools changed, from {self.name} on"
        if self.change == "compacted":
            return f"the client compacted the window, from {self.name} on"
        if self.change == "mark missing":
            return "cache_control is missing"
        if self.change == "mark moved":
            return f"cache_control moved more than {LOOKBACK} blocks beyond {self.name}"
        said = f"{self.name} was {self.change.split()[1]}"
        if not self.now:
            return said
        return (
            f"{said}: line {self.line + 1} is now {self.now}"
            if self.line >= 0
            else f"{said}, now {self.now}"
        )


def compare(old: Prompt, new: Prompt, *, is_compacted: bool = False) -> Difference | None:
    """The first difference of a request to an earlier one of the same conversation; None if it only adds to it.

    A compaction explains whatever else changed with it. `is_compacted` says that one was noticed.
    """
    if new.continues:
        return None  # the beginning is stored at the provider
    if old.model != new.model:
        return Difference("model", f"the model ({old.model} to {new.model})")
    before, after = list(old.segments), list(new.segments)
    kept = _count_same(before, after)
    names = old.parameters.keys() | new.parameters.keys()
    changed = sorted(n for n in names if old.parameters.get(n) != new.parameters.get(n))
    parameter = Difference("parameter", ", ".join(changed)) if changed else None
    if kept == len(before):
        return parameter or (None if new.marks_itself else _compare_marks(before, after))
    if kept == len(after):
        return parameter  # taken back to an earlier turn: all of it was written before
    first, now = before[kept], after[kept]
    if is_compacted:
        lost = next((s for s in before[kept:] if s.kind == "message"), first)
        return Difference("compacted", lost.name)
    if "tool" in (first.kind, now.kind):
        return _compare_tools(before, after, kept)
    if "system" in (first.kind, now.kind):
        return _compare_system(first, now)
    found = _compare_messages(before, after, kept)
    return found if parameter is None or found.change == "compacted" else parameter


def common_messages(old: Prompt, new: Prompt) -> int:
    """How many messages both begin with."""
    return _count_same(old.message_segments, new.message_segments)


def same_beginning(old: Prompt, new: Prompt) -> bool:
    """Whether tools and system are the same."""
    mine, theirs = ([s.checksum for s in p.segments if s.kind != "message"] for p in (old, new))
    return mine == theirs


def _count_same(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    pairs = zip(before, after, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a is not b and not a.same_as(b)),
        min(len(before), len(after)),
    )


def _compare_marks(before: Sequence[Segment], after: Sequence[Segment]) -> Difference | None:
    """The request adds to the earlier one. Its marks must still lead the provider to what was written."""
    written = max((at for at, segment in enumerate(before) if segment.marked), default=None)
    if written is None:
        return None
    marks = [at for at, segment in enumerate(after) if segment.marked]
    if not marks:
        return Difference("mark missing", before[written].name)
    if not any(written <= mark <= written + LOOKBACK for mark in marks):
        return Difference("mark moved", before[written].name)
    return None


def _compare_tools(before: Sequence[Segment], after: Sequence[Segment], at: int) -> Difference:
    mine, theirs = ([s for s in some if s.kind == "tool"] for some in (before, after))
    if sorted((s.checksum, s.chars) for s in mine) == sorted((s.checksum, s.chars) for s in theirs):
        return Difference("tools reordered", before[at].name)
    # without their places
    had, has = ({s.name.partition(" ")[2] for s in some} for some in (mine, theirs))
    old, new = (some[at].name if at < len(some) else "" for some in (mine, theirs))
    if not old or (new and new.partition(" ")[2] not in had):
        return Difference("tool added", new)
    is_gone = not new or old.partition(" ")[2] not in has
    return Difference("tool removed" if is_gone else "tool changed", old)


def _compare_system(old: Segment, new: Segment) -> Difference:
    if old.kind != new.kind:
        return Difference("system changed", (old if old.kind == "system" else new).name)
    pairs = zip(old.lines, new.lines, strict=False)
    line = next((at for at, (a, b) in enumerate(pairs) if a != b), -1)
    return Difference("system changed", old.name, block=new.at, line=line)


def _compare_messages(before: Sequence[Segment], after: Sequence[Segment], at: int) -> Difference:
    """The difference of two messages, by where both requests go on alike."""
    old, new = before[at], after[at]
    rest = _behind(before, at)
    if rest and _count_same(rest, after[at:]) == len(rest):
        return Difference("message removed", old.name)
    left, now = (sum(segment.chars for segment in some[at:]) for some in (before, after))
    if now < COMPACTED * left and len(before) - at > 2:
        return Difference("compacted", old.name)
    changed = max(
        _count_same(before[at + 1 :], after[at + 1 :]),
        _count_same(rest, _behind(after, at)),
    )
    removed, inserted = (
        max((_count_same(some[n:], other[at:]) for n in range(at + 1, min(len(some), at + 1 + FAR))), default=0)
        for some, other in ((before, after), (after, before))
    )  # fmt: skip
    if inserted > max(changed, removed):
        return Difference("message inserted", new.name)
    if removed > changed:
        return Difference("message removed", old.name)
    is_named = new.name != old.name
    now_there = new.name.partition(" (")[2].removesuffix(")") if is_named else ""
    return Difference("message changed", old.name, now=now_there)


def _behind(segments: Sequence[Segment], at: int) -> Sequence[Segment]:
    """What stands behind the message that holds a segment; another version of it may have more or fewer blocks."""
    here = segments[at].at
    return segments[next((n for n in range(at, len(segments)) if segments[n].at != here), len(segments)) :]  # fmt: skip
