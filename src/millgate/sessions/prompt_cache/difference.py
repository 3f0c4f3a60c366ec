"""Difference: where a request stops being an extension of an earlier one, and what happened there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    parameter = _compare_parameters(old, new)
    if kept == len(before):
        return parameter or (None if new.marks_itself else _compare_marks(before, after))
    if kept == len(after):
        return parameter  # taken back to an earlier turn: all of it was written before
    if is_compacted:
        first = next((s for s in before[kept:] if s.kind == "message"), before[kept])
        return Difference("compacted", first.name)
    change, name = _name_change(before, after, kept)
    if parameter is not None and before[kept].kind == "message" and change != "compacted":
        return parameter
    return _describe_change(Difference(change, name), before[kept], after[kept])


def _describe_change(found: Difference, first: Segment, now: Segment) -> Difference:
    """The difference with what stands there now, if that can be told."""
    if found.change == "system changed" and first.kind == now.kind == "system":
        line = _count_equal(first.lines, now.lines)
        known = line < len(first.lines) and line < len(now.lines)
        return replace(found, block=now.at, line=line if known else -1)
    if found.change == "message changed" and now.name != found.name:
        return replace(found, now=now.name.partition(" (")[2].removesuffix(")"))
    return found


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


def _count_equal(one: Sequence[int], other: Sequence[int]) -> int:
    """How many numbers both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _compare_parameters(old: Prompt, new: Prompt) -> Difference | None:
    names = sorted(
        name
        for name in old.parameters.keys() | new.parameters.keys()
        if old.parameters.get(name) != new.parameters.get(name)
    )
    if not names:
        return None
    return Difference("parameter", ", ".join(names))


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


def _name_change(
    before: Sequence[Segment], after: Sequence[Segment], at: int
) -> tuple[Change, str]:
    old, new = before[at], after[at]
    if old.kind == "tool" or new.kind == "tool":
        return _name_tool_change(before, after, at)
    if old.kind == "system" or new.kind == "system":
        return "system changed", (old if old.kind == "system" else new).name
    left = sum(segment.chars for segment in before[at:])
    if sum(segment.chars for segment in after[at:]) < COMPACTED * left and len(before) - at > 2:
        return "compacted", old.name
    changed = max(
        _count_same(before[at + 1 :], after[at + 1 :]),
        _count_same(_behind(before, at), _behind(after, at)),
    )
    removed = max((_count_same(before[i:], after[at:]) for i in _next(before, at)), default=0)
    inserted = max((_count_same(before[at:], after[i:]) for i in _next(after, at)), default=0)
    if inserted > max(changed, removed):
        return "message inserted", new.name
    if removed > changed:
        return "message removed", old.name
    return "message changed", old.name


def _behind(segments: Sequence[Segment], at: int) -> Sequence[Segment]:
    """What stands behind the message that holds a segment; another version of it may have more or fewer blocks."""
    here = segments[at].at
    return segments[next((n for n in range(at, len(segments)) if segments[n].at != here), len(segments)) :]  # fmt: skip


def _next(segments: Sequence[Segment], at: int) -> range:
    """The places behind a difference at which both requests may go on alike."""
    return range(at + 1, min(len(segments), at + 1 + FAR))


def _name_tool_change(
    before: Sequence[Segment], after: Sequence[Segment], at: int
) -> tuple[Change, str]:
    mine = [s for s in before if s.kind == "tool"]
    theirs = [s for s in after if s.kind == "tool"]
    if sorted((s.checksum, s.chars) for s in mine) == sorted((s.checksum, s.chars) for s in theirs):
        return "tools reordered", before[at].name
    old, new = before[at], after[at]
    if old.kind != "tool" or (new.kind == "tool" and _tool(new) not in map(_tool, mine)):
        return "tool added", new.name
    if new.kind != "tool" or _tool(old) not in map(_tool, theirs):
        return "tool removed", old.name
    return "tool changed", old.name


def _tool(segment: Segment) -> str:
    """The tool's name, without its place."""
    return segment.name.partition(" ")[2]
