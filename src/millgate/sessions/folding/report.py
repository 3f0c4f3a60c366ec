"""Report: what folding did with a conversation, as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.spending.prices import Price
from millgate.text.table import count_of
from millgate.transcript.places import Place, text_at


@dataclass(frozen=True, slots=True)
class Fold:
    """One run of lines that became a pointer: in which message, and what it says instead."""

    at: int
    """The place of the message in the conversation."""
    place: Place
    """Where in the message its text stands."""
    start: int
    """The first of the lines in that text, from 0."""
    lines: int
    tokens: int
    """Tokens that are saved, by the built-in estimate."""
    pointer: str
    source: str
    """The place that the pointer names."""
    is_stale: bool = False
    """Whether the file was edited after it was read there. The lines are the same all the same."""

    def text_in(self, messages: Sequence[Any]) -> str:
        """The lines that were folded, in the messages as they came."""
        lines = text_at(messages[self.at], self.place).split("\n")
        return "\n".join(lines[self.start : self.start + self.lines])


@dataclass(frozen=True, slots=True)
class FoldReport:
    """All folds of a conversation, and whether folding stopped because the model asked for a folded text again."""

    folds: tuple[Fold, ...] = ()
    stopped_at: int | None = None
    """The message from which on nothing is folded; None: folding goes on."""
    stopped_by: str = ""
    """What the model asked for again."""
    repeated_calls: tuple[int, ...] = ()
    """The messages that bring the result of a call which was made before, or of a file which was read before."""

    @property
    def saved_tokens(self) -> int:
        """Tokens that the conversation is shorter by, by the built-in estimate."""
        return sum(fold.tokens for fold in self.folds)

    def saved_from(self, at: int) -> int:
        """What of that is saved in the messages from a place on."""
        return sum(fold.tokens for fold in self.folds if fold.at >= at)

    def describe(self) -> str:
        """One sentence for a person."""
        if not self.folds and self.stopped_at is None:
            return "nothing to fold"
        said = f"{count_of(len(self.folds), 'fold')}, {self.saved_tokens:,} tokens"
        return f"{said}; stopped: {self.stopped_by}" if self.stopped_at is not None else said


def price_saving(
    price: Price, counts: CacheCounts | None, *, old: int, new: int, is_long: bool = False
) -> float:
    """What a call would have cost more without its folds, by what the provider did with its cache.

    `new` are the tokens that are folded for the first time: they would have been written to the cache. What was folded
    before, `old`, would have been read from it, or written again if the call read nothing.
    """
    if counts is None or not counts.read + counts.written:
        return price.cost(fresh=old + new)
    if counts.is_automatic:
        read = old if counts.read else 0
        return price.cost(read=read, fresh=old + new - read)
    read = old if counts.read >= counts.written else 0
    written = old + new - read
    return price.cost(read=read, written=written, hour=written if is_long else 0)
