"""Findings: what an x-ray found, as data that a page, a terminal or a dashboard can show.

All sizes are tokens by the built-in estimate, unless `reported` says that the provider counted them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import TypeVar

KINDS = ("system", "human", "text", "thinking", "call", "result")


@dataclass(slots=True)
class Window:
    """The window at one turn: its size by kind, what the turn added to it, and what stands in it in vain.

    `repeated` and `stale` are tokens of the window that stand there twice, or of files that were edited since. `tools`
    are definitions, `injected` what Millgate put in, `folded` what it folded away, `length` is the model's; each is 0
    if unknown. `read`, `written` and `fresh` are the provider's counts of its prompt cache, and `broke` says why it
    read less than it could have.
    """

    turn: int
    tokens: int
    by_kind: Mapping[str, int]
    added: int = 0
    repeated: int = 0
    stale: int = 0
    reported: int = 0
    time: str = ""
    tools: int = 0
    injected: int = 0
    length: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0
    broke: str = ""
    folded: int = 0


@dataclass(slots=True)
class ToolUse:
    """What one tool brought into windows: how much, how much of it again, and how much a later edit made stale."""

    tool: str
    calls: int = 0
    tokens: int = 0
    repeated: int = 0
    stale: int = 0


@dataclass(slots=True)
class Loop:
    """A circle of calls: from which turn to which, how often, and what its copies cost after the first."""

    first_turn: int
    last_turn: int
    period: int
    copies: int
    tokens: int
    what: str


@dataclass(slots=True)
class Compaction:
    """A window that was replaced: its size before and after, what was dropped, and what of it was fetched again."""

    turn: int
    before: int
    after: int
    dropped: Mapping[str, int]
    fetched_again: int = 0
    told: str = ""
    """What of it the window does not say any more, as a sentence; empty if nothing came after it."""


@dataclass(slots=True)
class CacheBreak:
    """A call that read less from the provider's cache than the call before it had left there.

    `cost` is what that cost beyond a read; None if the model has no price.
    """

    turn: int
    time: str
    blame: str
    reason: str
    lost: int
    cost: float | None = None


@dataclass(slots=True)
class CacheUse:
    """Input of a session's calls by the provider's count, what they cost, and what broke the cache."""

    calls: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0
    output: int = 0
    cost: float | None = None
    breaks: tuple[CacheBreak, ...] = ()
    lost: int = 0
    lost_cost: float | None = None


@dataclass(slots=True)
class FoldSaving:
    """What folding would have saved: tokens that enter windows, and input of all calls together.

    `cost` is what the input costs with the provider's prices for its cache; None if the model has no price, or if the
    provider's counts are not known. `stops` are windows in which folding would have stopped, since the model asked
    again for what was folded.
    """

    folds: int = 0
    tokens: int = 0
    input: int = 0
    cost: float | None = None
    stops: int = 0


@dataclass(slots=True)
class Session:
    """One recorded session: its windows turn by turn and what filled them.

    `reported` is the largest window as the provider counted it, 0 if the file does not tell; `peak` is the same, or our
    estimate. `unrecorded` is what the provider counted and the file does not hold: the system prompt and the tools, in
    most cases.
    """

    name: str
    path: str
    turns: int
    added: int
    repeated: int
    stale: int
    peak: int
    windows: tuple[Window, ...]
    by_kind: Mapping[str, int]
    tools: tuple[ToolUse, ...]
    loops: tuple[Loop, ...]
    compactions: tuple[Compaction, ...]
    reported: int
    unrecorded: int
    cache: CacheUse
    fold: FoldSaving


@dataclass(slots=True)
class Xray:
    """All sessions, largest first, and what could not be read or was not understood.

    `passed_over` counts the lines that say nothing about a window, by what they call themselves; `unread` are files in
    which nothing was understood.
    """

    sessions: tuple[Session, ...] = ()
    files: int = 0
    bytes: int = 0
    lines: int = 0
    skipped: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    unread: tuple[str, ...] = ()

    @property
    def tools(self) -> tuple[ToolUse, ...]:
        """The tools of all sessions, those that brought most first."""
        total: dict[str, ToolUse] = {}
        for use in (use for session in self.sessions for use in session.tools):
            total[use.tool] = add(total.get(use.tool, ToolUse(use.tool)), use)
        return tuple(sorted(total.values(), key=lambda use: (-use.tokens, use.tool)))

    @property
    def by_kind(self) -> dict[str, int]:
        """What entered windows, by kind."""
        return {kind: sum(s.by_kind.get(kind, 0) for s in self.sessions) for kind in KINDS}

    @property
    def added(self) -> int:
        """All that entered windows."""
        return sum(session.added for session in self.sessions)

    @property
    def repeated(self) -> int:
        """What of it stood there already, word for word."""
        return sum(session.repeated for session in self.sessions)

    @property
    def stale(self) -> int:
        """What of it was a file that was edited later."""
        return sum(session.stale for session in self.sessions)

    @property
    def cache(self) -> CacheUse:
        """What all sessions read from their providers' caches, with the breaks one by one."""
        return reduce(add, (session.cache for session in self.sessions), CacheUse())

    @property
    def fold(self) -> FoldSaving:
        """What folding would have saved in all sessions."""
        return reduce(add, (session.fold for session in self.sessions), FoldSaving())


Counts = TypeVar("Counts", ToolUse, CacheUse, FoldSaving)


def add(one: Counts, other: Counts) -> Counts:
    """Both together: numbers and lists are added up, and what is not known of either is left out."""
    sums = {}
    for field_ in fields(one):
        mine, more = getattr(one, field_.name), getattr(other, field_.name)
        if not isinstance(mine, str) and more is not None:
            sums[field_.name] = more if mine is None else mine + more
    return replace(one, **sums)
