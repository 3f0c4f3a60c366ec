"""Pack: which pieces fit a budget, taken in order; what does not fit is shortened, and skipped where that does not
help. So is what would leave no room for those behind it.

Two sections share the room: main pieces and side pieces (graph paths). The side section is sure of its
share; what one section leaves is offered to the other, so that without side pieces the main ones have it all.
Counters are only nearly additive, so the packed whole is counted once more, and the last pieces go until it fits.
Invariant: count of the joined pieces <= room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Count = Callable[[str], int]
Shorten = Callable[[int, int], str]
"""The number of a piece and the tokens left -> a part of the piece that fits, "" where nothing useful does."""
Crowd = Callable[[int, int], bool]
"""The number of a piece that fits and the tokens left -> whether the whole of it would take the room of too many."""

_MOST_CUTS = 8  # pieces that are shortened at most, which bounds the work


@dataclass(slots=True)
class Packed:
    """Which pieces are in, and those of them that were shortened."""

    taken: list[bool]
    shortened: dict[int, str] = field(default_factory=dict)


def pack(
    pieces: Sequence[str],
    room: int,
    count: Count,
    *,
    costs: Sequence[int] | None = None,
    side: Sequence[bool] = (),
    share: float = 0.0,
    most: int | None = None,
    shorten: Shorten | None = None,
    crowds: Crowd = lambda _at, _left: False,
) -> Packed:
    """What is in: `share` of the room is kept for `side`, at most `most` main ones, some of them shortened: those that
    do not fit, and those that crowd others out.
    """
    prices = [count(piece) for piece in pieces] if costs is None else list(costs)
    aside = list(side) or [False] * len(pieces)
    main = [not on_side for on_side in aside]
    most = len(pieces) if most is None else most
    wanted = sum(price for price, on_side in zip(prices, aside, strict=True) if on_side)
    kept_free = min(int(share * room), wanted)
    packed = Packed([False] * len(pieces))
    cut = _Cut(packed, count, shorten, crowds)
    left = _fill(prices, packed, room - kept_free, among=main, most=most, cut=cut) + kept_free
    left = _fill(prices, packed, left, among=aside, most=len(pieces))
    most -= sum(map(min, packed.taken, main))
    _fill(prices, packed, left, among=main, most=most)
    _trim(pieces, prices, packed, room, count)
    return packed


@dataclass(slots=True)
class _Cut:
    """What shortens pieces that do not fit or crowd others out, the first few of them."""

    packed: Packed
    count: Count
    shorten: Shorten | None
    crowds: Crowd
    tries: int = 0

    def take(self, at: int, left: int) -> int:
        """Take a part of a piece that fits; what it costs, 0 when nothing of it was taken."""
        if self.shorten is None or self.tries == _MOST_CUTS or left <= 0:
            return 0
        self.tries += 1
        part = self.shorten(at, left)
        price = self.count(part + "\n") if part else 0
        if not 0 < price <= left:
            return 0
        self.packed.taken[at] = True
        self.packed.shortened[at] = part
        return price


def _fill(
    prices: Sequence[int],
    packed: Packed,
    left: int,
    *,
    among: Sequence[bool],
    most: int,
    cut: _Cut | None = None,
) -> int:
    """Take in order what is eligible, not taken yet, and fits; the room that is left."""
    for at, price in enumerate(prices):
        if most <= 0:
            break
        if not among[at] or packed.taken[at]:
            continue
        fits = price <= left
        if cut is not None and (not fits or cut.crowds(at, left)) and (part := cut.take(at, left)):
            left -= part
            most -= 1
        elif fits:
            packed.taken[at] = True
            left -= price
            most -= 1
    return left


def _trim(
    pieces: Sequence[str], prices: Sequence[int], packed: Packed, room: int, count: Count
) -> None:
    """Let the last pieces go until the joined text fits by its own count."""
    taken, shortened = packed.taken, packed.shortened
    while any(taken):
        shown = [shortened.get(at, p) for at, p in enumerate(pieces) if taken[at]]
        over = count("\n".join(shown)) - room
        if over <= 0:
            return
        for at in range(len(pieces) - 1, -1, -1):
            if taken[at]:
                taken[at] = False
                over -= max(count(shortened.pop(at, "")) or prices[at], 1)
                if over <= 0:
                    break
