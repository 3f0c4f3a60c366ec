"""Costs: what model calls took and cost, added up by session, model, key or day, from the rows of their traces.

`compare_groups` says what folding did on the user's own work. With `fold.holdout` some sessions are left alone. Both
groups then say whether sessions that are folded take more turns or ask for more again than those that are not. A
difference between few sessions says little.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from millgate.text.table import money_of
from millgate.types import CallCost, TraceSummary

WEEK_S = 7 * 86_400.0

CostScope = Literal["session", "model", "key", "day"]
GROUPS = ("on", "holdout", "measure")


@dataclass(slots=True)
class Costs:
    """What some calls took and cost, those included that the guard made itself; `priced` is how many have a price.

    `lost` are tokens that were paid in full again because the provider's cache broke, `lost_cost` what that cost.
    """

    calls: int = 0
    priced: int = 0
    cost: float = 0.0
    read: int = 0
    written: int = 0
    fresh: int = 0
    output: int = 0
    breaks: int = 0
    lost: int = 0
    lost_cost: float = 0.0
    blamed: dict[str, int] = field(default_factory=dict)
    """Breaks by whose doing they were."""

    def add(self, call: CallCost) -> None:
        """Add a call."""
        self.calls += call.calls
        if call.cost is not None:
            self.priced += call.calls
            self.cost += call.cost
        self.read += call.read
        self.written += call.written
        self.fresh += call.fresh
        self.output += call.output
        if call.blame:
            self.breaks += 1
            self.lost += call.lost
            self.lost_cost += call.lost_cost or 0.0
            self.blamed[call.blame] = self.blamed.get(call.blame, 0) + 1

    def describe(self) -> str:
        """One line for a person: what the calls cost, and what of it was paid because the cache broke."""
        calls = f"{self.calls:,} model call{'' if self.calls == 1 else 's'}"
        money = f", about {money_of(self.cost)}" if self.priced else ""
        if self.priced and self.priced < self.calls:
            money += f" for the {self.priced:,} with a price"
        if not self.breaks:
            return calls + money
        again = f"{self.lost:,} tokens paid again"
        share = f", about {money_of(self.lost_cost)}" if self.lost_cost else ""
        times = "once" if self.breaks == 1 else f"{self.breaks:,} times"
        return f"{calls}{money}; the cache broke {times}: {again}{share}"


def add_up(rows: Iterable[TraceSummary], *, since: float = 0.0) -> Costs:
    """What the calls among some requests cost, those since a time."""
    total = Costs()
    for row in rows:
        if row.cost is not None and row.created >= since:
            total.add(row.cost)
    return total


def add_up_by(
    rows: Iterable[TraceSummary], scope: CostScope, *, since: float = 0.0
) -> dict[str, Costs]:
    """The same for each session, model, key or day (UTC), the dearest first, then those with most input."""
    found: dict[str, Costs] = {}
    for row in rows:
        if row.cost is not None and row.created >= since:
            found.setdefault(_name(row, row.cost, scope), Costs()).add(row.cost)

    def order(item: tuple[str, Costs]) -> tuple[float, int, str]:
        name, one = item
        return -one.cost, -(one.read + one.written + one.fresh), name

    return dict(sorted(found.items(), key=order))


def _name(row: TraceSummary, call: CallCost, scope: CostScope) -> str:
    if scope == "day":
        return datetime.fromtimestamp(row.created, UTC).date().isoformat()
    return {"session": row.session, "model": call.model, "key": call.key}[scope]


@dataclass(frozen=True, slots=True)
class FoldGroup:
    """The sessions of one group: `saved` is what was folded, or would have been, each token once."""

    group: str
    sessions: int
    turns: int
    repeated_calls: int
    input_tokens: int
    output_tokens: int
    cost: float
    saved: int
    saved_cost: float
    stopped: int
    """Sessions in which folding stopped, since the model asked again for what was folded."""

    def per_session(self, amount: float) -> float:
        """An amount of the group for one of its sessions."""
        return amount / self.sessions


def compare_groups(rows: Iterable[TraceSummary], *, since: float = 0.0) -> list[FoldGroup]:
    """The groups that have sessions, those that were folded first."""
    found: dict[str, list[TraceSummary]] = {}
    for row in rows:
        if row.fold is not None and row.created >= since:
            found.setdefault(row.fold.group, []).append(row)
    return [_add_up(group, found[group]) for group in GROUPS if group in found]


def _add_up(group: str, rows: list[TraceSummary]) -> FoldGroup:
    costs = [row.cost for row in rows if row.cost is not None]
    folds = [row.fold for row in rows if row.fold is not None]
    return FoldGroup(
        group,
        sessions=len({row.session for row in rows}),
        turns=len(rows),
        repeated_calls=sum(fold.repeated_calls for fold in folds),
        input_tokens=sum(cost.read + cost.written + cost.fresh for cost in costs),
        output_tokens=sum(cost.output for cost in costs),
        cost=sum(cost.cost or 0.0 for cost in costs),
        saved=sum(fold.saved for fold in folds),
        saved_cost=sum(fold.saved_cost or 0.0 for fold in folds),
        stopped=len({row.session for row in rows if row.fold is not None and row.fold.stops}),
    )
