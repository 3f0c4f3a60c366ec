"""Turns: the window of a session call by call, read from the traces of its model calls.

Each trace holds the sizes of one window. What a turn added, and what a compaction dropped, is the difference to the
window before. A session may use several models (a small one for titles, say); each has windows of its own. A session
that never went through the proxy has windows too: those that came with its requests for context, known by their size
alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from millgate.sessions.xray.findings import KINDS, Window
from millgate.text.tokens import estimate_tokens
from millgate.types import CallCost, Step, Trace
from millgate.types.notes import Stage

# A window that loses more than this share was compacted. Chosen, not measured: a summary replaces much of the window
# at once, and less may be a single result that was dropped.
COMPACTED = 0.25


@dataclass(frozen=True, slots=True)
class WindowTurn:
    """One call: its window, what it added and what is gone since the one before, by kind, and what Millgate did."""

    trace: str
    query: str
    model: str
    created: float
    window: Window
    added: Mapping[str, int] = field(default_factory=dict, hash=False)
    dropped: Mapping[str, int] = field(default_factory=dict, hash=False)
    cuts: int = 0
    rungs: tuple[str, ...] = ()
    output: int = 0
    cost: CallCost | None = None
    folds: tuple[Step, ...] = ()
    """The runs of lines that were folded in this call for the first time."""
    compaction: str = ""
    """What left the window in a compaction before the call, as a sentence."""

    @property
    def compacted(self) -> bool:
        """Whether so much is gone that the agent must have compacted its window."""
        if self.compaction:
            return True
        gone = sum(self.dropped.values()) - sum(self.added.values())
        return gone > COMPACTED * (self.window.tokens + gone)


def turns_of(traces: Iterable[Trace]) -> dict[str, list[WindowTurn]]:
    """The turns of a session by model, oldest first; the traces come oldest first."""
    found: dict[str, list[WindowTurn]] = {}
    sizes: dict[str, Mapping[str, int]] = {}
    for trace in traces:
        read = _read_call(trace) or _read_context(trace)
        if read is None:
            continue
        model, window, parts = read
        before = sizes.get(model)
        known = found.setdefault(model, [])
        known.append(_turn(trace, model, len(known) + 1, window=window, parts=parts, before=before))
        sizes[model] = parts
    return found


def _turn(
    trace: Trace,
    model: str,
    number: int,
    *,
    window: Window,
    parts: Mapping[str, int],
    before: Mapping[str, int] | None,
) -> WindowTurn:
    """A turn, with what it added and dropped since the one before."""
    old = before or {}
    change = {name: parts.get(name, 0) - old.get(name, 0) for name in (*parts, *(old.keys() - parts.keys()))}  # fmt: skip
    added = {name: size for name, size in change.items() if size > 0}
    dropped = {name: -size for name, size in change.items() if size < 0}
    when = datetime.fromtimestamp(trace.created, UTC).isoformat(timespec="seconds")
    grown = max(0, sum(added.values()) - sum(dropped.values()))
    step, folded = trace.step(Stage.MODEL), trace.step(Stage.FOLD)
    compacted = trace.step(Stage.COMPACTION)
    cost, cache = CallCost.of(trace), trace.step(Stage.CACHE)
    return WindowTurn(
        trace.id,
        trace.request.query,
        model,
        trace.created,
        Window(
            number, window.tokens, window.by_kind, grown, window.repeated, window.stale,
            time=when, tools=window.tools, injected=window.injected, length=window.length,
            **{name: _number(cache, name) if cache else 0 for name in ("read", "written", "fresh")},
            broke=cost.reason if cost and cost.blame else "",
            folded=_number(folded, "folded") if folded else 0,
        ),
        added,
        dropped,
        cuts=sum(s.stage is Stage.CUT for s in trace.steps),
        rungs=tuple(str(s.facts.get("rung")) for s in trace.steps if s.stage is Stage.CIRCLES),
        output=_number(step, "output_tokens") if step else 0,
        cost=cost,
        folds=tuple(s for s in trace.steps if s.stage is Stage.FOLD and s.facts.get("lines")),
        compaction=str(compacted.facts.get("reason", "")) if compacted else "",
    )  # fmt: skip


def _read_call(trace: Trace) -> tuple[str, Window, Mapping[str, int]] | None:
    """The window of a model call and its parts by name; None if it is not known."""
    call, step = trace.step(Stage.MODEL), trace.step(Stage.WINDOW)
    if call is None or step is None:
        return None
    kinds = {kind: _number(step, kind) for kind in KINDS}
    window = Window(
        0, _number(step, "tokens"), kinds,
        repeated=_number(step, "repeated"), stale=_number(step, "stale"), tools=_number(step, "tools"),
        injected=_number(step, "injected"), length=_number(step, "length"),
    )  # fmt: skip
    return str(call.facts.get("model", "")), window, dict(_parts(step, kinds))


def _parts(step: Step, kinds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The sizes by which two windows are compared: by kind, and results by tool as far as they are named."""
    named = 0
    for name in step.facts:
        if name.startswith("result "):
            named += _number(step, name)
            yield name, _number(step, name)
    yield "tools", _number(step, "tools")
    yield from (item for item in kinds.items() if item[0] != "result")
    yield "result", max(0, kinds["result"] - named)


def _read_context(trace: Trace) -> tuple[str, Window, Mapping[str, int]] | None:
    """The window that came with a request for context, and what was injected into it."""
    if trace.step(Stage.MODEL) is not None:
        return None
    budget, texts = trace.request.context_budget, trace.request.window.texts
    used = budget.used_tokens if budget and budget.used_tokens else sum(map(estimate_tokens, texts))
    shown = (c.number(Stage.COMPOSE, "tokens") or 0 for c in trace.candidates if not c.dropped)
    injected = int(sum(shown))
    length = budget.context_length if budget else 0
    window = Window(0, used + injected, {}, injected=injected, length=length)
    return "", window, {"window": used, "injected": injected}


def _number(step: Step, name: str) -> int:
    return int(step.number(name) or 0)
