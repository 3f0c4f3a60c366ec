"""FoldedCall: what folding did with one call, or would have done, for its header, its trace and the metrics."""

from dataclasses import dataclass
from typing import Literal

from millgate.sessions.folding.report import Fold, FoldReport
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.spending.prices import Price

FoldGroup = Literal["on", "measure", "holdout"]


@dataclass(slots=True)
class FoldedCall:
    """What folding did with one call, or would have done."""

    group: FoldGroup
    """on; measure: nothing was changed; holdout: nothing was changed, to compare with sessions that are folded."""
    report: FoldReport
    first_new: int
    """The first message that the model has not seen before."""
    texts: tuple[str, ...] = ()
    """The lines of each new fold, as they came."""
    saved_cost: float | None = None
    """What was saved with the provider's prices for its cache; None if the model has no price."""

    @property
    def new_folds(self) -> tuple[Fold, ...]:
        """The folds in messages that the model sees for the first time."""
        return tuple(fold for fold in self.report.folds if fold.at >= self.first_new)

    @property
    def repeated_calls(self) -> int:
        """How many of the new results are of calls that were made before."""
        return sum(at >= self.first_new for at in self.report.repeated_calls)

    @property
    def has_stopped(self) -> bool:
        """Whether folding stopped with this call."""
        return self.report.stopped_at is not None and self.report.stopped_at >= self.first_new

    def price(self, price: Price, counts: CacheCounts | None) -> None:
        """Work out the saved cost: new text is written to the cache, older text is read from it, if there is one."""
        new = self.report.saved_from(self.first_new)
        old = self.report.saved_tokens - new
        if counts is None or not counts.read + counts.written:
            self.saved_cost = price.cost(fresh=new + old)
        elif counts.is_automatic:
            self.saved_cost = price.cost(fresh=new, read=old)
        else:
            self.saved_cost = price.cost(written=new, read=old)
