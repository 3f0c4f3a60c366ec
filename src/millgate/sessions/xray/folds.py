"""Folds: what folding would have saved in a recorded session, in tokens and with the provider's prices for its cache.

The session is folded as it grew. At each call what was folded before is text that the provider would not have read from
its cache, and what is folded for the first time is text that it would not have written there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from millgate.sessions.folding.folder import Folder
from millgate.sessions.folding.report import price_saving
from millgate.sessions.xray.findings import FoldSaving, add
from millgate.sessions.xray.usage import CallUsage
from millgate.spending.prices import Prices

MAX_CHARS = (
    16_000_000  # of one window, as JSON has them; no model takes more, and a longer one begins anew
)


@dataclass
class FoldFollower:
    """Follows one session message by message, call by call."""

    prices: Prices = field(default_factory=Prices)
    saving: FoldSaving = field(default_factory=FoldSaving)
    _folder: Folder = field(default_factory=Folder)
    _messages: list[Any] = field(default_factory=list)
    _chars: int = 0
    _known: int = 0  # tokens folded before this call
    _new: int = 0  # tokens folded for the first time in it
    _stopped: bool = False
    _seen: str = ""

    def add(self, message: dict[str, Any], chars: int) -> None:
        """The next message of the window, and how long it is."""
        if self._chars + chars > MAX_CHARS:
            self.begin()
        self._messages.append(message)
        self._chars += chars

    def begin(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        """Another window begins, with these messages: the one before it was compacted."""
        self._folder, self._messages, self._chars = Folder(), list(messages), 0
        self._known = self._new = 0
        self._stopped = False

    def begin_turn(self) -> None:
        """The model is called."""
        before = self._folder.report
        self._folder.extend(self._messages)
        report = self._folder.report
        self._known, self._new = before.saved_tokens, report.saved_tokens - before.saved_tokens
        stops = report.stopped_at is not None and not self._stopped
        self._stopped |= stops
        folds = len(report.folds) - len(before.folds)
        saving = FoldSaving(folds, self._new, report.saved_tokens, stops=int(stops))
        self.saving = add(self.saving, saving)

    def note_usage(self, usage: CallUsage) -> None:
        """What the provider counted for the call; the lines of one answer report the same call."""
        if usage.id and usage.id == self._seen:
            return
        self._seen = usage.id
        price = self.prices.find(usage.model, input_tokens=usage.counts.total)
        if price is None:
            return
        cost = price_saving(
            price, usage.counts, old=self._known, new=self._new, is_long=usage.is_long
        )
        self.saving = add(self.saving, FoldSaving(0, 0, 0, cost))
