"""Folds: what folding did on the user's own work, by group of sessions, from the rows of traces.

With `fold.holdout` some sessions are left alone. Both groups then say whether sessions that are folded take more turns
or ask for more again than those that are not. A difference between few sessions says little.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from millgate.types import TraceSummary

GROUPS = ("on", "holdout", "measure")


@dataclass(frozen=True, slots=True)
class FoldGroup:
    """The sessions of one group: `saved` is what their requests were shorter by, or would have been if not folded."""

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
