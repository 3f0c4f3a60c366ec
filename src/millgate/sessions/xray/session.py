"""SessionBuilder: one recorded session while it is read, entry by entry; and `analyze`, from files to findings.

A turn is one call of the model; the window of a turn is what had been written before it. A read is stale once a later
call changed the same file. What stood there already is measured in batches (`repeats`), since many texts at once are
cheaper. What folding would have saved is worked out by folding the session as it grew.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millgate.circles.action import call_number
from millgate.circles.finder import CircleFinder
from millgate.sessions.compaction.account import account
from millgate.sessions.compaction.window import Compaction as Lost
from millgate.sessions.compaction.window import number_of, read_window
from millgate.sessions.folding.folder import Folder
from millgate.sessions.folding.report import price_saving
from millgate.sessions.folding.texts import Call
from millgate.sessions.xray.cache import CacheFollower
from millgate.sessions.xray.files import Lines
from millgate.sessions.xray.findings import (
    KINDS,
    Compaction,
    FoldSaving,
    Loop,
    Session,
    ToolUse,
    Window,
    Xray,
    add,
)
from millgate.sessions.xray.formats import CallUsage, Entry, Message
from millgate.sessions.xray.repeats import KnownText
from millgate.spending.prices import Prices
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import (
    CODE,
    IMAGE_TOKENS,
    Part,
    as_json,
    is_from_model,
    join_texts,
    read,
)
from millgate.transcript.touched import touched_files

BATCH_CHARS = 2_000_000  # texts measured together
MOST_WINDOWS = 400  # windows kept of one session; more are thinned out
LARGEST = 200  # sessions of which windows are kept
OPEN_SESSIONS = 16  # conversations of one log that are followed at a time
_KINDS = {"summary": "human", "compaction": "system", "image": "human"}  # as the figures count them


def analyze(files: Iterable[Path], prices: Prices | None = None) -> Xray:
    """What filled the windows of all sessions in these files, and what broke their caches."""
    prices = prices or Prices()
    found = Xray()
    sessions: list[Session] = []
    for path in files:
        source = Lines(path)
        sessions += (one for one in _follow_sessions(source, prices) if one.turns or one.added)
        found.passed_over += source.passed_over
        if not source.understood:
            found.unread += (str(path),)
        found.files += 1
        found.bytes += source.size
        found.lines += source.read
        found.skipped += source.skipped
        if len(sessions) > 2 * LARGEST:
            sessions = _keep_largest(sessions)
    found.sessions = tuple(_keep_largest(sessions))
    return found


def _follow_sessions(source: Lines, prices: Prices) -> Iterator[Session]:
    """The sessions of one file, each as soon as it is complete."""
    building: OrderedDict[str, SessionBuilder] = OrderedDict()
    for name, entry in source.entries():
        if name not in building:
            building[name] = SessionBuilder(name or source.path.stem, str(source.path), prices, folder=Folder())  # fmt: skip
        building.move_to_end(name)
        building[name].add_entry(entry)
        if len(building) > OPEN_SESSIONS:
            yield building.popitem(last=False)[1].finish()
    yield from (builder.finish() for builder in building.values())


def _keep_largest(sessions: list[Session]) -> list[Session]:
    """The sessions, largest first; only the LARGEST keep their windows."""
    sessions.sort(key=lambda session: -session.added)
    for session in sessions[LARGEST:]:
        session.windows = ()
    return sessions


@dataclass(slots=True)
class _Held:
    """A part in the window. `origin` is the number of its message, in a log of requests."""

    kind: str
    tool: str
    tokens: int
    turn: int
    origin: int
    call: int = 0
    stale: bool = False


@dataclass
class SessionBuilder:
    """One session while it is read."""

    name: str
    path: str
    prices: Prices = field(default_factory=Prices)
    folder: Folder | None = None
    """Works out what folding would have saved; None: nobody asks."""

    def __post_init__(self) -> None:
        self._turn = 0
        # the window as it is now
        self._messages: list[Message] = []
        self._origins: list[int] = []
        self._parts: list[_Held] = []
        self._sizes = Counter[str]()
        self._reads: dict[str, list[_Held]] = {}
        self._asked: dict[str, Call] = {}  # that wait for their results
        self._known = KnownText()
        self._pending: list[tuple[_Held, str]] = []  # texts that wait to be measured
        # who speaks
        self._speaking, self._is_log = False, False
        self._response = self._usage_id = self._asked_at = ""
        # what was found
        self._windows: list[Window] = []
        self._tools: dict[str, ToolUse] = {}
        self._kinds = Counter[str]()
        self._repeated = Counter[int]()  # by turn
        self._loops: list[Loop] = []
        self._compactions: list[Compaction] = []
        self._dropped: dict[int, Compaction] = {}  # by call: the compaction that took its result
        self._lost: list[Message] = []  # what left in a compaction that is not told yet
        self._results: list[int] = []  # tokens
        self._added = self._peak = self._reported = self._unrecorded = self._size = 0
        self._pending_chars = self._stale_now = 0
        self._finder, self._cache = CircleFinder(), CacheFollower(self.prices)
        self._fold, self._folded, self._folded_now, self._has_stopped = FoldSaving(), 0, 0, False

    def add_entry(self, entry: Entry) -> None:
        """Add the next entry of the session."""
        if entry.compacted is not None:
            self._cache.note_compaction()
            self._compact([], entry.compacted)
        if entry.snapshot is not None:
            self._add_window(entry.snapshot)
            self._begin_turn(entry)
            self._speaking = True
        elif entry.message is not None:
            self._add_message(entry.message, entry)
        if entry.usage is not None:
            self._add_usage(entry.usage, entry)
        self._asked_at = "" if self._speaking else entry.time or self._asked_at

    def finish(self) -> Session:
        """The session as it was found."""
        if len(self._pending) > 1 or not self._known.is_empty:  # a text alone repeats none
            self._measure()
        tools = sorted(self._tools.values(), key=lambda use: (-use.tokens, use.tool))
        return Session(
            self.name,
            self.path,
            turns=self._turn,
            added=self._kinds.total(),
            repeated=self._repeated.total(),
            stale=sum(use.stale for use in tools),
            peak=self._reported or max(self._peak, self._sizes.total()),
            windows=tuple(self._thin_windows()),
            by_kind=dict(self._kinds),
            tools=tuple(tools),
            loops=tuple(self._loops),
            compactions=tuple(self._compactions),
            reported=self._reported,
            unrecorded=self._unrecorded,
            cache=self._cache.use,
            fold=self._fold,
        )

    def _add_message(self, message: Message, entry: Entry) -> None:
        from_model = is_from_model(message)
        continues = bool(entry.response) and entry.response == self._response
        if from_model and not continues and not (self._speaking and not entry.response):
            self._begin_turn(entry)
        self._speaking = from_model
        self._response = entry.response or self._response
        parts = _parts_of(message, self._messages[-1] if self._messages else None)
        self._put_in(message, parts, number_of(parts) if self._is_log else 0, continues=continues)
        self._messages.append(message)

    def _add_window(self, messages: Sequence[Message]) -> None:
        """A whole window: what is new in it is added, and if it shrank the rest is dropped."""
        parts = list(_read_all(messages))
        origins = list(map(number_of, parts))
        held = {part.origin for part in self._parts}
        if len(held.intersection(origins)) < len(held) and len(origins) < len(held):
            self._compact(origins, 0)
        for message, mine, origin in zip(messages, parts, origins, strict=True):
            if origin not in held:
                self._put_in(message, mine, origin)
        begun = len(self._origins)
        if self._is_log and origins[:begun] == self._origins:
            self._messages[begun:] = messages[begun:]
        else:
            self._messages = list(messages)
            self._fold_anew()
        self._origins, self._is_log = origins, True

    def _put_in(
        self, message: Message, parts: Sequence[Part], origin: int, *, continues: bool = False
    ) -> None:
        for part in parts:
            self._add_part(part, origin)
        if self._finder.feed(self._turn, message, continues=continues):
            self._note_circle()

    def _add_part(self, part: Part, origin: int) -> None:
        text = "" if part.kind == "image" else part.text
        tokens = IMAGE_TOKENS if part.kind == "image" else estimate_tokens(text)
        held = _Held(_KINDS.get(part.kind, part.kind), part.tool, tokens, self._turn, origin)
        if part.kind == "call":
            held.call = call_number(part.tool, part.arguments)
            files = touched_files(part.tool, part.arguments)
            self._asked[part.id] = Call(part.tool, number=held.call, files=files)
            self._tool(part.tool).calls += 1
        elif part.kind == "result":
            self._add_result(part, held)
        elif part.kind == "image" and part.id and self._parts:  # it follows the text of its result
            held.kind, held.tool = "result", self._parts[-1].tool
            self._tool(held.tool).tokens += tokens
            self._results[-1] += tokens
        self._parts.append(held)
        self._added += tokens
        self._sizes[held.kind] += tokens
        self._kinds[held.kind] += tokens
        self._pending.append((held, text))
        self._pending_chars += len(text)
        if self._pending_chars > BATCH_CHARS:
            self._measure()

    def _add_result(self, part: Part, held: _Held) -> None:
        asked = self._asked.pop(part.id, None)
        held.tool = asked.tool if asked else part.tool or "unknown"
        self._results.append(held.tokens)
        self._tool(held.tool).tokens += held.tokens
        self._tool(held.tool).calls += part.tool == CODE  # a command in the model's words
        if asked is None:
            return
        if compaction := self._dropped.pop(asked.number, None):
            compaction.fetched_again += held.tokens
        for path in asked.files.edits:
            for earlier in self._reads.pop(path.removeprefix("./"), ()):
                if not earlier.stale:
                    earlier.stale = True
                    self._stale_now += earlier.tokens
                    self._tool(earlier.tool).stale += earlier.tokens
        for path in asked.files.reads:
            self._reads.setdefault(path.removeprefix("./"), []).append(held)

    def _tool(self, name: str) -> ToolUse:
        return self._tools.setdefault(name, ToolUse(name))

    def _note_circle(self) -> None:
        """Note the circle of calls or texts that a message closed, or that grew with it."""
        circle = self._finder.circle()
        if circle is None:
            return
        again = self._results[-(circle.copies - 1) * circle.period :]
        loop = Loop(
            circle.first, circle.last, circle.period, circle.copies,
            sum(again) if circle.kind == "calls" else 0, circle.describe(),
        )  # fmt: skip
        if self._loops and self._loops[-1].first_turn == loop.first_turn:
            self._loops.pop()
        self._loops.append(loop)

    # Turns

    def _begin_turn(self, entry: Entry) -> None:
        self._tell_compaction()
        self._turn += 1
        self._follow_folds()
        self._size = size = self._sizes.total()
        self._peak = max(self._peak, size)
        if self._compactions and not self._compactions[-1].after:
            self._compactions[-1].after = size
        kinds = {kind: self._sizes[kind] for kind in KINDS}
        self._windows.append(Window(self._turn, size, kinds, self._added, stale=self._stale_now, time=entry.time))  # fmt: skip
        self._added = 0

    def _add_usage(self, usage: CallUsage, entry: Entry) -> None:
        """What the provider counted for this turn. A call begins when its last input was written, if that is told."""
        counts = usage.counts
        self._reported = max(self._reported, counts.total)
        self._unrecorded = max(self._unrecorded, counts.total - self._size)
        if usage.id and usage.id == self._usage_id:  # the lines of one answer report the same call
            self._cache.grow(usage)
            return
        self._usage_id = usage.id
        time, known = self._asked_at or entry.time, len(self._cache.use.breaks)
        price = self._cache.add(usage, turn=self._turn, time=time, request=entry.request)
        if price is not None and self.folder is not None:
            new = self._folded_now
            cost = price_saving(price, counts, old=self._folded - new, new=new, is_long=usage.is_long)  # fmt: skip
            self._fold = add(self._fold, FoldSaving(cost=cost))
        if self._windows:
            last, broke = self._windows[-1], self._cache.use.breaks[known:]
            last.reported, last.read = counts.total, counts.read
            last.written, last.fresh = counts.written, counts.fresh
            last.broke = broke[0].reason if broke else last.broke

    def _follow_folds(self) -> None:
        """Fold what the model is asked with: what was folded before is `_folded`, without what is `_folded_now`."""
        if self.folder is None:
            return
        folds = len(self.folder.report.folds)
        self.folder.extend(self._messages)
        report, before = self.folder.report, self._folded
        self._folded, self._folded_now = report.saved_tokens, report.saved_tokens - before
        stops = report.stopped_at is not None and not self._has_stopped
        self._has_stopped |= stops
        saving = FoldSaving(len(report.folds) - folds, self._folded_now, self._folded, stops=int(stops))  # fmt: skip
        self._fold = add(self._fold, saving)

    def _fold_anew(self) -> None:
        if self.folder is not None:
            self.folder, self._folded, self._has_stopped = Folder(), 0, False

    # Compactions

    def _compact(self, kept: Iterable[int], before: int) -> None:
        """Messages left the window, all but those with these numbers; `before` is how many tokens the agent counted."""
        keep = set(kept)
        gone = [part for part in self._parts if part.origin not in keep]
        if not gone:
            return
        parts = _read_all(self._messages)
        self._lost = [
            m for m, mine in zip(self._messages, parts, strict=True) if number_of(mine) not in keep
        ]
        self._messages, self._origins = [], []
        self._measure()
        self._known = KnownText()
        dropped = Counter[str]()
        for part in gone:
            dropped[part.tool if part.kind == "result" else part.kind] += part.tokens
        compaction = Compaction(self._turn, before or self._sizes.total(), 0, dict(dropped))
        self._compactions.append(compaction)
        self._dropped.update((part.call, compaction) for part in gone if part.call)
        self._parts = [part for part in self._parts if part.origin in keep]
        self._sizes = Counter[str]()
        for part in self._parts:
            self._sizes[part.kind] += part.tokens
        self._stale_now = sum(part.tokens for part in self._parts if part.stale)
        self._reads = {}
        self._fold_anew()

    def _tell_compaction(self) -> None:
        """Say what a compaction lost, now that the window is known which the model sees after it."""
        if self._lost:
            last, lost = self._compactions[-1], Lost("summary", read_window(self._lost).messages)
            last.told = account(lost, read_window(self._messages), turn=last.turn).describe()
            self._lost = []

    # What stood there already

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

    def _thin_windows(self) -> Iterator[Window]:
        """At most MOST_WINDOWS of the windows, each with what those left out before it added.

        What stands in a window twice is what was added so since the last compaction.
        """
        compacted = {compaction.turn for compaction in self._compactions}
        every = -(-len(self._windows) // MOST_WINDOWS)
        repeated = added = 0
        broke = ""
        for window in self._windows:
            before = window.turn - 1
            repeated = self._repeated[before] + (0 if before in compacted else repeated)
            window.repeated = min(repeated, window.tokens)
            added, broke = added + window.added, broke or window.broke
            if window.turn % every == 0:
                window.added, window.broke = added, broke
                added, broke = 0, ""
                yield window


def _read_all(messages: Sequence[Message]) -> Iterator[tuple[Part, ...]]:
    return (_parts_of(*pair) for pair in zip(messages, (None, *messages), strict=False))


def _parts_of(message: Message, before: object = None) -> tuple[Part, ...]:
    """What a message brings into the window; the tools that Codex sends as a message count with its instructions."""
    if message.get("type") == "additional_tools":
        return (Part("system", as_json(message.get("tools"))),)
    return tuple(join_texts(part for part in read(message, before) if part.kind != "unknown"))
