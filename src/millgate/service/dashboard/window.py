"""The first page: one session as a bar per turn, with what each turn added and what a compaction dropped.

Each trace of a model call holds the sizes of one window. What a turn added, and what a compaction dropped, is the
difference to the window before. A session may use several models (a small one for titles, say); each has windows of its
own. A session that never went through the proxy has the windows that came with its requests for context.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import DamagedError, NotFound
from millgate.explain.costs import Costs
from millgate.gateway import Millgate
from millgate.service.dashboard.page import PageRoute, render
from millgate.service.edge.paths import HOME
from millgate.service.routes.api import ReadGate
from millgate.sessions.xray.bars import SEGMENTS, draw_cache, draw_window, list_segments
from millgate.sessions.xray.findings import KINDS, Window
from millgate.sessions.xray.summary import LABELS
from millgate.text.tokens import estimate_tokens
from millgate.types import CallCost, Step, Trace, TraceSummary
from millgate.types.lengths import NAME_CHARS
from millgate.types.notes import Stage

router = APIRouter(route_class=PageRoute)

READ = 1000  # of the newest requests, in which sessions are found
TURNS = 200  # of a session that are shown, the newest
# A window that loses more than this share was compacted. Chosen, not measured: a summary replaces much of the window
# at once, and less may be a single result that was dropped.
COMPACTED = 0.25
BLAMED = {
    "client": "The agent did it",
    "millgate": "Millgate did it: please report this",
    "provider": "The provider did not have it any more",
    "time": "The pause was too long",
    "unknown": "Nobody knows whose doing it was",
}
"""Whose doing a break was, in few words."""

Name = Annotated[str, Query(max_length=NAME_CHARS)]


@router.get(HOME)
def show_window(request: Request, gate: ReadGate, session: Name = "", model: Name = "") -> Response:
    """The sessions, and one of them turn by turn."""
    rows = gate.traces(limit=READ)
    # questions without a session come one by one: they share no window
    sessions = [one for one in list_sessions(rows) if one.name or one.calls]
    chosen = session or next((s.name for s in sessions if s.calls), sessions[0].name if sessions else "")  # fmt: skip
    of_session = [row for row in rows if row.session == chosen]
    calls = [row for row in of_session if row.outcome not in ("", "unanswered")] or of_session
    traces, missing = _read_traces(gate, calls[:TURNS])
    by_model = turns_of(traces)
    if model not in by_model:
        model = max(by_model, key=lambda name: len(by_model[name]), default="")
    turns = by_model.get(model, [])
    windows = [turn.window for turn in turns]
    bars = list_segments(windows)
    spent = Costs()
    for turn in turns:
        if turn.cost is not None:
            spent.add(turn.cost)
    return render(
        request,
        "window.html",
        sessions=sessions,
        asked=len(rows),
        read=READ,
        chosen=chosen,
        models=sorted(by_model),
        model=model,
        turns=turns,
        missing=missing,
        bars=bars,
        chart=draw_window(bars, max((window.length for window in windows), default=0)),
        cache=draw_cache(windows),
        spent=spent,
        breaks=[turn for turn in turns if turn.cost and turn.cost.blame],
        blamed=BLAMED,
        labels={name: label for name, label in SEGMENTS.items() if any(bar[name] for bar in bars)},
        names=LABELS | {"tools": "tool definitions"},
    )


def _read_traces(gate: Millgate, rows: Sequence[TraceSummary]) -> tuple[list[Trace], list[str]]:
    """The traces of some rows, the oldest first; and why others are missing.

    Between the list and the reading a trace may be pruned, and one of many may be damaged.
    """
    found: list[Trace] = []
    missing = []
    for row in reversed(rows):
        try:
            found.append(gate.trace(row.id))
        except NotFound:
            missing.append("no longer stored")
        except DamagedError as error:
            missing.append(error.message)
    return found, missing


class SessionRow(NamedTuple):
    """A session in the list: how often it asked, when last, and what it asked first of what is read."""

    name: str
    calls: int
    contexts: int
    last: float
    query: str


def list_sessions(rows: Sequence[TraceSummary]) -> list[SessionRow]:
    """The sessions among some requests (newest first), those used last first."""
    found: dict[str, list[TraceSummary]] = {}
    for row in rows:
        found.setdefault(row.session, []).append(row)
    return [
        SessionRow(
            name,
            calls=sum(row.is_model_call for row in some),
            contexts=sum(not row.outcome for row in some),
            last=some[0].created,
            query=some[-1].query,
        )
        for name, some in found.items()
    ]


# Turns


@dataclass(frozen=True, slots=True)
class Turn:
    """One call: its window, what it added and what is gone since the one before by kind and tool, and what it cost."""

    trace: Trace
    window: Window
    added: Mapping[str, int]
    dropped: Mapping[str, int]
    cost: CallCost | None

    def steps(self, stage: str) -> list[Step]:
        """What one stage did in it."""
        return [step for step in self.trace.steps if step.stage == stage]

    @property
    def compaction(self) -> str:
        """What left the window in a compaction before the call, as a sentence."""
        return next((str(s.facts.get("reason", "")) for s in self.steps(Stage.COMPACTION)), "")

    @property
    def compacted(self) -> bool:
        """Whether so much is gone that the agent must have compacted its window."""
        gone = sum(self.dropped.values()) - sum(self.added.values())
        return bool(self.compaction) or gone > COMPACTED * (self.window.tokens + gone)


def turns_of(traces: Iterable[Trace]) -> dict[str, list[Turn]]:
    """The turns of a session by model, oldest first; the traces come oldest first."""
    found: dict[str, list[Turn]] = {}
    before: dict[str, Mapping[str, int]] = {}
    for trace in traces:
        call, step = trace.step(Stage.MODEL), trace.step(Stage.WINDOW)
        if call is None:
            step = _window_of_context(trace)
        if step is None:
            continue
        model = str(call.facts.get("model", "")) if call else ""
        parts, known = _parts(step), found.setdefault(model, [])
        known.append(_make_turn(trace, step, len(known) + 1, parts, before.get(model, {})))
        before[model] = parts
    return found


def _make_turn(
    trace: Trace, step: Step, number: int, parts: Mapping[str, int], before: Mapping[str, int]
) -> Turn:
    change = {name: parts.get(name, 0) - before.get(name, 0) for name in {**parts, **before}}
    cost, cache = CallCost.of(trace), trace.step(Stage.CACHE)
    window = Window(
        number,
        by_kind=_numbers(step, *KINDS),
        added=max(0, sum(change.values())),
        broke=cost.reason if cost and cost.blame else "",
        **_numbers(step, "tokens", "repeated", "stale", "tools", "injected", "length"),
        **_numbers(cache, "read", "written", "fresh"),
        **_numbers(trace.step(Stage.FOLD), "folded"),
    )
    added = {name: size for name, size in change.items() if size > 0}
    dropped = {name: -size for name, size in change.items() if size < 0}
    return Turn(trace, window, added, dropped, cost)


def _parts(step: Step) -> dict[str, int]:
    """The sizes by which two windows are compared: by kind, and results by tool as far as they are named."""
    tools = _numbers(step, *(name for name in step.facts if name.startswith("result ")))
    kinds = _numbers(step, "tools", *KINDS)
    return tools | kinds | {"result": max(0, kinds["result"] - sum(tools.values()))}


def _window_of_context(trace: Trace) -> Step:
    """The window that came with a request for context, and what was injected into it, as a call's step has it."""
    budget, texts = trace.request.context_budget, trace.request.window.texts
    used = budget.used_tokens if budget and budget.used_tokens else sum(map(estimate_tokens, texts))
    shown = (c.number(Stage.COMPOSE, "tokens") or 0 for c in trace.candidates if not c.dropped)
    injected = int(sum(shown))
    length = budget.context_length if budget else 0
    sizes = {"tokens": used + injected, "human": used + injected, "injected": injected}
    return Step(Stage.WINDOW, 0.0, facts=sizes | {"length": length})


def _numbers(step: Step | None, *names: str) -> dict[str, Any]:
    return {name: int((step and step.number(name)) or 0) for name in names}
