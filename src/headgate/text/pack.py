"""Pack: which pieces fit a budget, taken in order, skipping what does not fit and going on.

Two sections share the room: main pieces and side pieces (graph paths). The side section is sure of its
share; what one section leaves is offered to the other, so that without side pieces the main ones have it all.
Counters are only nearly additive, so the packed whole is counted once more, and the last pieces go until it fits.
Invariant: count of the joined pieces <= room.
"""

from collections.abc import Callable, Sequence

Count = Callable[[str], int]


def pack(
    pieces: Sequence[str],
    room: int,
    count: Count,
    *,
    costs: Sequence[int] | None = None,
    side: Sequence[bool] = (),
    share: float = 0.0,
    most: int | None = None,
) -> list[bool]:
    """For each piece whether it is in: `share` of the room is kept for `side`, and at most `most` main ones."""
    prices = [count(piece) for piece in pieces] if costs is None else list(costs)
    aside = list(side) or [False] * len(pieces)
    main = [not on_side for on_side in aside]
    most = len(pieces) if most is None else most
    wanted = sum(price for price, on_side in zip(prices, aside, strict=True) if on_side)
    kept_free = min(int(share * room), wanted)
    taken = [False] * len(pieces)
    left = _fill(prices, taken, room - kept_free, among=main, most=most) + kept_free
    left = _fill(prices, taken, left, among=aside, most=len(pieces))
    _fill(prices, taken, left, among=main, most=most - sum(_both(taken, main)))
    _trim(pieces, prices, taken, room, count)
    return taken


def _fill(
    prices: Sequence[int], taken: list[bool], left: int, *, among: Sequence[bool], most: int
) -> int:
    """Take in order what is eligible, not in yet, and fits; the room that is left."""
    for at, price in enumerate(prices):
        if most <= 0:
            break
        if among[at] and not taken[at] and price <= left:
            taken[at] = True
            left -= price
            most -= 1
    return left


def _both(taken: Sequence[bool], among: Sequence[bool]) -> list[bool]:
    return [a and b for a, b in zip(taken, among, strict=True)]


def _trim(
    pieces: Sequence[str], prices: Sequence[int], taken: list[bool], room: int, count: Count
) -> None:
    """Let the last pieces go until the joined text fits by its own count."""
    while any(taken):
        over = count("\n".join(p for p, used in zip(pieces, taken, strict=True) if used)) - room
        if over <= 0:
            return
        for at in range(len(pieces) - 1, -1, -1):
            if taken[at]:
                taken[at] = False
                over -= max(prices[at], 1)
                if over <= 0:
                    break
