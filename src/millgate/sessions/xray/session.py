"""SessionBuilder: one recorded session while it is read, entry by entry.

A turn is one call of the model; the window of a turn is what had been written before it. A read is stale once a later
call changed the same file. What stood there already is measured in batches (`repeats`), since many texts at once are
cheaper.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from millgate.circles.action import call_number
from millgate.circles.finder import CircleFinder
from millgate.sessions.compaction.account import account
from millgate.sessions.compaction.notice import Compaction as Lost
from millgate.sessions.compaction.window import read_window
from millgate.sessions.xray.cache import CacheFollower
from millgate.sessions.xray.findings import (
    KINDS,
    Compaction,
    FoldSaving,
    Loop,
    Session,
    ToolUse,
    Window,
)
from millgate.sessions.xray.folds import FoldFollower
from millgate.sessions.xray.formats import Entry
from millgate.sessions.xray.repeats import KnownText
from millgate.sessions.xray.usage import CallUsage
from millgate.spending.prices import Prices
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import IMAGE_TOKENS, Part, as_json, is_from_model, join_texts, read
from millgate.transcript.touched import Touched, touched_files

BATCH_CHARS = 2_000_000  # texts measured together
MOST_WINDOWS = 400  # windows kept of one session; more are thinned out
_KINDS = {"summary": "human", "compaction": "system", "image": "human"}  # as the figures count them


@dataclass(slots=True)
class _Held:
    """A part in the window."""

    kind: str
    tool: str
    tokens: int
    turn: int
    origin: int
    call: int = 0
    stale: bool = False


@dataclass(slots=True)
class _Asked:
    """A call that waits for its result."""

    tool: str
    number: int
    files: Touched


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    tokens: int = 0
    repeated: int = 0
    stale: int = 0


@dataclass
class SessionBuilder:
    """One session while it is read."""

    name: str
    path: str
    prices: Prices = field(default_factory=Prices)
    folds: FoldFollower | None = None
    """Works out what folding would have saved; None: nobody asks."""
    _parts: list[_Held] = field(default_factory=list)
    _sizes: Counter[str] = field(default_factory=Counter)
    _stale_now: int = 0
    _added: int = 0
    _pending: list[tuple[_Held, str]] = field(default_factory=list)
    _pending_chars: int = 0
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _reads: dict[str, list[_Held]] = field(default_factory=dict)
    _dropped: dict[int, int] = field(default_factory=dict)
    _tools: dict[str, _Tally] = field(default_factory=dict)
    _kinds: Counter[str] = field(default_factory=Counter)
    _windows: list[Window] = field(default_factory=list)
    _loops: list[Loop] = field(default_factory=list)
    _compactions: list[Compaction] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _turn: int = 0
    _every: int = 1
    _peak: int = 0
    _reported: int = 0
    _unrecorded: int = 0
    _size: int = 0  # of the window at the last turn
    _repeated: Counter[int] = field(default_factory=Counter)
    _stale: int = 0
    _logged: bool = False
    _response: str = ""
    _speaking: bool = False
    _asked_at: str = ""

    def __post_init__(self) -> None:
        self._known = KnownText()
        self._finder = CircleFinder()
        self._cache = CacheFollower(self.prices)
        self._messages: list[dict[str, Any]] = []  # of the window as it is now
        self._lost: list[dict[str, Any]] = []  # what left it in a compaction that is not told yet

    def add_entry(self, entry: Entry) -> None:
        """Add the next entry of the session."""
        if entry.compacted:
            self._cache.note_compaction()
            self._compact([], entry.reported)
        if entry.snapshot is not None:
            self._snapshot(entry.snapshot)
            self._begin_turn(entry)
            self._speaking = True
        elif entry.message is not None:
            self._message(entry.message, entry)
        elif entry.reported and self._windows:
            self._windows[-1] = replace(self._windows[-1], reported=entry.reported)
        if entry.reported and not entry.compacted:
            self._reported = max(self._reported, entry.reported)
            self._unrecorded = max(self._unrecorded, entry.reported - self._size)
        if entry.usage is not None:
            self._note_usage(entry.usage, entry)
        self._asked_at = "" if self._speaking else entry.time or self._asked_at

    def finish(self) -> Session:
        """The session as it was found."""
        if len(self._pending) > 1 or not self._known.is_empty:  # a text alone repeats none
            self._measure()
        tools = (
            ToolUse(name, t.calls, t.tokens, t.repeated, t.stale) for name, t in self._tools.items()
        )
        return Session(
            self.name,
            self.path,
            turns=self._turn,
            added=sum(self._kinds.values()),
            repeated=self._repeated.total(),
            stale=self._stale,
            peak=self._reported or max(self._peak, self._sizes.total()),
            windows=tuple(self._with_repeats()),
            by_kind=dict(self._kinds),
            tools=tuple(sorted(tools, key=lambda use: (-use.tokens, use.tool))),
            loops=tuple(self._loops),
            compactions=tuple(self._compactions),
            reported=self._reported,
            unrecorded=self._unrecorded,
            cache=self._cache.use,
            fold=self.folds.saving if self.folds else FoldSaving(),
        )

    # Messages

    def _message(self, message: dict[str, Any], entry: Entry) -> None:
        self._messages.append(message)
        from_model = is_from_model(message)
        continues = bool(entry.response) and entry.response == self._response
        if from_model and not continues and not (self._speaking and not entry.response):
            self._begin_turn(entry)
        self._speaking = from_model
        if entry.response:
            self._response = entry.response
        parts = _parts_of(message)
        origin = _origin(parts) if self._logged else 0
        for part in parts:
            self._add(part, origin)
        self._note_message(message, parts)
        self._follow(message, continues=continues)

    def _snapshot(self, messages: tuple[dict[str, Any], ...]) -> None:
        """A whole window: what is new in it is added, and if it shrank the rest is dropped."""
        self._logged = True
        whole = messages
        if held := {part.origin for part in self._parts}:
            origins = [_origin(_parts_of(message)) for message in messages]
            if len(set(origins) & held) < len(held) and len(origins) < len(held):
                self._compact(origins, 0)
            pairs = zip(origins, messages, strict=True)
            messages = tuple(message for origin, message in pairs if origin not in held)
        for message in messages:
            parts = _parts_of(message)
            origin = _origin(parts)
            for part in parts:
                self._add(part, origin)
            self._note_message(message, parts)
            self._follow(message)
        self._messages = list(whole)

    def _note_message(self, message: dict[str, Any], parts: tuple[Part, ...]) -> None:
        if self.folds is not None:
            self.folds.add(message, sum(len(part.text) for part in parts))

    def _add(self, part: Part, origin: int) -> None:
        text = "" if part.kind == "image" else part.text
        tokens = estimate_tokens(text) if part.kind != "image" else IMAGE_TOKENS
        held = _Held(_KINDS.get(part.kind, part.kind), part.tool, tokens, self._turn, origin)
        if part.kind == "call":
            held.call = call_number(part.tool, part.arguments)
            self._asked[part.id] = _Asked(
                part.tool, held.call, touched_files(part.tool, part.arguments)
            )
            self._tools.setdefault(part.tool, _Tally()).calls += 1
        elif part.kind == "result":
            self._result(part, held)
        elif part.kind == "image" and part.id and self._parts:  # it follows the text of its result
            held.kind, held.tool = "result", self._parts[-1].tool
            self._tools.setdefault(held.tool, _Tally()).tokens += tokens
            self._steps[-1] += tokens
        self._parts.append(held)
        self._added += held.tokens
        self._sizes[held.kind] += held.tokens
        self._kinds[held.kind] += held.tokens
        self._pending.append((held, text))
        self._pending_chars += len(text)
        if self._pending_chars > BATCH_CHARS:
            self._measure()

    def _result(self, part: Part, held: _Held) -> None:
        asked = self._asked.pop(part.id, None)
        self._steps.append(held.tokens)
        held.tool = asked.tool if asked else "unknown"
        self._tools.setdefault(held.tool, _Tally()).tokens += held.tokens
        if asked is None:
            return
        at = self._dropped.pop(asked.number, None)
        if at is not None:
            was = self._compactions[at]
            self._compactions[at] = replace(was, fetched_again=was.fetched_again + held.tokens)
        for path in asked.files.edits:
            for held_read in self._reads.pop(_plain(path), ()):
                self._go_stale(held_read)
        for path in asked.files.reads:
            self._reads.setdefault(_plain(path), []).append(held)

    def _go_stale(self, read: _Held) -> None:
        if not read.stale:
            read.stale = True
            self._stale += read.tokens
            self._stale_now += read.tokens
            self._tools[read.tool].stale += read.tokens

    # Turns

    def _begin_turn(self, entry: Entry) -> None:
        self._tell_compaction()
        self._turn += 1
        if self.folds is not None:
            self.folds.begin_turn()
        self._size = size = self._sizes.total()
        self._peak = max(self._peak, size)
        if self._compactions and not self._compactions[-1].after:
            self._compactions[-1] = replace(self._compactions[-1], after=size)
        if self._turn % self._every == 0:
            window = Window(
                self._turn,
                size,
                {kind: self._sizes[kind] for kind in KINDS},
                added=self._added,
                stale=self._stale_now,
                reported=entry.reported,
                time=entry.time,
            )
            self._windows.append(window)
            self._added = 0
        if len(self._windows) > 2 * MOST_WINDOWS:
            self._thin()

    def _tell_compaction(self) -> None:
        """Say what a compaction lost, now that the window is known which the model sees after it."""
        if not self._lost or not self._compactions:
            return
        lost = Lost("summary", read_window(self._lost).messages)
        told = account(lost, read_window(self._messages), turn=self._compactions[-1].turn)
        self._compactions[-1] = replace(self._compactions[-1], told=told.describe())
        self._lost = []

    def _note_usage(self, usage: CallUsage, entry: Entry) -> None:
        """What the provider counted for this turn. A call begins when its last input was written, if that is told."""
        if self.folds is not None:
            self.folds.note_usage(usage)
        before = len(self._cache.use.breaks)
        self._cache.note_call(
            usage, turn=self._turn, time=self._asked_at or entry.time, request=entry.request
        )
        if self._windows and self._windows[-1].turn == self._turn:
            told = self._cache.use.breaks[before:]
            counts, last = usage.counts, self._windows[-1]
            self._windows[-1] = replace(
                last,
                read=counts.read,
                written=counts.written,
                fresh=counts.fresh,
                broke=told[0].reason if told else last.broke,
            )

    def _thin(self) -> None:
        """Keep every second window, with what the one before it added."""
        pairs = zip(self._windows[::2], self._windows[1::2], strict=False)
        self._windows = [
            replace(b, added=a.added + b.added, broke=b.broke or a.broke) for a, b in pairs
        ]
        self._every *= 2

    def _with_repeats(self) -> Iterator[Window]:
        """The windows, each with what of it stands there twice: what was added so since the last compaction."""
        turn = repeated = 0
        compacted = {compaction.turn for compaction in self._compactions}
        for window in self._windows:
            for n in range(turn, window.turn):
                repeated = self._repeated[n] + (0 if n in compacted else repeated)
            yield replace(window, repeated=min(repeated, window.tokens)) if repeated else window
            turn = window.turn

    def _compact(self, kept: Iterable[int], reported: int) -> None:
        keep = set(kept)
        gone = [part for part in self._parts if part.origin not in keep]
        if not gone:
            return
        self._lost = [m for m in self._messages if not keep or _origin(_parts_of(m)) not in keep]
        self._messages = []
        self._measure()
        dropped = Counter[str]()
        for part in gone:
            dropped[part.tool if part.kind == "result" else part.kind] += part.tokens
        at = len(self._compactions)
        before = reported or self._sizes.total()
        self._compactions.append(Compaction(self._turn, before, 0, dict(dropped)))
        self._dropped.update((part.call, at) for part in gone if part.call)
        self._parts = [part for part in self._parts if part.origin in keep]
        self._sizes = Counter[str]()
        for part in self._parts:
            self._sizes[part.kind] += part.tokens
        self._stale_now = sum(part.tokens for part in self._parts if part.stale)
        self._reads = {}
        self._known = KnownText()
        if self.folds is not None:
            self.folds.begin()

    def _follow(self, message: object, *, continues: bool = False) -> None:
        """Look for circles of calls or texts, and note the last one as it grows."""
        if not self._finder.feed(self._turn, message, continues=continues):
            return
        circle = self._finder.circle()
        if circle is None:
            return
        cost = sum(self._steps[-(circle.copies - 1) * circle.period :]) if circle.kind == "calls" else 0  # fmt: skip
        loop = Loop(
            circle.first, circle.last, circle.period, circle.copies, cost, circle.describe()
        )
        if self._loops and self._loops[-1].first_turn == loop.first_turn:
            self._loops[-1] = loop
        else:
            self._loops.append(loop)

    def _measure(self) -> None:
        """Count how much of the waiting texts was in the window before."""
        if not self._pending:
            return
        shares = self._known.measure([text for _, text in self._pending])
        for (part, _), share in zip(self._pending, shares.tolist(), strict=True):
            repeated = int(share * part.tokens)
            self._repeated[part.turn] += repeated
            if part.kind == "result":
                self._tools[part.tool].repeated += repeated
        self._pending, self._pending_chars = [], 0


def _origin(parts: Iterable[Part]) -> int:
    """A number by which a message is recognized in a later request."""
    return hash(tuple((part.kind, part.id, part.tool, part.text) for part in parts))


def _parts_of(message: dict[str, Any]) -> tuple[Part, ...]:
    """What a message brings into the window; the tools that Codex sends as a message count with its instructions."""
    if message.get("type") == "additional_tools":
        return (Part("system", as_json(message.get("tools"))),)
    return tuple(join_texts(part for part in read(message) if part.kind != "unknown"))


def _plain(path: str) -> str:
    return path.removeprefix("./")
