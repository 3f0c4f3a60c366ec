"""Caps: how accounts stand to their caps, and what a call changes in their rows; pure.

A row counts what an account has spent, and what is held for calls under way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NamedTuple

from millgate.types import Amount, Spend, SpendScope

# A hold whose worker died is booked as spent after this time: longer than a call lasts, whose answer may take ten
# minutes to begin (`UpstreamPolicy.answer_s`).
HOLD_S = 900.0
# Weight of the last call in the rate that forecasts. Chosen, not measured: about the last three calls decide, so that
# one large call does not set the forecast alone.
SMOOTHING = 0.3

State = Literal["open", "warn", "busy", "paused"]


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit on one account: a session, a key or a tenant. A limit that is None does not hold."""

    scope: SpendScope
    name: str
    tokens: int | None = None
    micros: int | None = None
    period_s: float | None = None


@dataclass(frozen=True, slots=True)
class CapStatus:
    """How much of its cap an account has used, and how many more calls fit at the rate of the last ones."""

    scope: SpendScope
    name: str
    state: State
    used: float
    cap: float
    unit: Literal["tokens", "money"]
    calls_left: int | None = None

    @property
    def share(self) -> float:
        """Used, as a share of the cap."""
        return self.used / self.cap

    @property
    def forecast(self) -> str:
        """When the cap is reached; empty if no call has been booked yet."""
        if self.state == "paused":
            return "full"
        if self.calls_left is None:
            return ""
        if not self.calls_left:
            return "full with the next call"
        return f"full in {self.calls_left} call{'' if self.calls_left == 1 else 's'}"

    def describe(self) -> str:
        """One sentence for a person."""
        who = "this tenant" if self.scope == "tenant" else f"{self.scope} {self.name}"
        spent = f"{self.used:,.0f} of {self.cap:,.0f} tokens" if self.unit == "tokens" else f"{self.used:,.4g} of {self.cap:,.4g}"  # fmt: skip
        sentence = f"{who} has spent {spent}"
        if self.state == "paused":
            return f"{sentence} and is paused"
        if self.state == "busy":
            return f"{sentence}, and calls under way may use up the rest"
        return f"{sentence}; {self.forecast} at this rate" if self.forecast else sentence


def hold_rows(
    rows: Sequence[Spend],
    caps: Sequence[Cap],
    amount: Amount,
    now: float,
    *,
    warn_at: float = 1.0,
) -> tuple[list[Spend], tuple[CapStatus, ...]]:
    """Hold a call's likely size if every account is under its cap; else only mark the accounts that are paused.

    The statuses say how the accounts stood before; `lets_through` tells from them which it was.
    """
    fresh = [_refresh(row, cap, now) for row, cap in zip(rows, caps, strict=True)]
    statuses = tuple(
        cap_status(row, cap, warn_at=warn_at) for row, cap in zip(fresh, caps, strict=True)
    )
    if not lets_through(statuses):
        return [
            replace(row, paused=now) if status.state == "paused" and row.paused is None else row
            for row, status in zip(fresh, statuses, strict=True)
        ], statuses
    return [
        replace(
            row,
            held_tokens=row.held_tokens + amount.tokens,
            held_micros=row.held_micros + amount.micros,
            held_at=_mean_time(row, amount.tokens, now),
            last=now,
        )
        for row in fresh
    ], statuses


def at_most(amount: Amount, caps: Sequence[Cap]) -> Amount:
    """An amount, but no more than the smallest of some caps."""
    tokens = [cap.tokens for cap in caps if cap.tokens is not None]
    micros = [cap.micros for cap in caps if cap.micros is not None]
    return Amount(min([amount.tokens, *tokens]), min([amount.micros, *micros]))


def lets_through(statuses: Sequence[CapStatus]) -> bool:
    """Whether one more call may be made."""
    return all(status.state in ("open", "warn") for status in statuses)


def settle_rows(
    rows: Sequence[Spend], held: Amount, spent: Amount, now: float, *, since: float | None = None
) -> list[Spend]:
    """Book what a call really spent, and release what was held for it since some time.

    What is no longer held was booked when the call seemed lost; it is not booked twice.
    """
    return [_settle(row, held, spent, now, now if since is None else since) for row in rows]


def _settle(row: Spend, held: Amount, spent: Amount, now: float, since: float) -> Spend:
    tokens = max(0, spent.tokens - max(0, held.tokens - row.held_tokens))
    micros = max(0, spent.micros - max(0, held.micros - row.held_micros))
    return replace(
        row,
        tokens=row.tokens + tokens,
        micros=row.micros + micros,
        calls=row.calls + 1,
        total_tokens=row.total_tokens + tokens,
        total_micros=row.total_micros + micros,
        total_calls=row.total_calls + 1,
        held_tokens=max(0, row.held_tokens - held.tokens),
        held_micros=max(0, row.held_micros - held.micros),
        held_at=_mean_time(row, -held.tokens, since),
        rate_tokens=_smooth(row.rate_tokens, spent.tokens, row.calls),
        rate_micros=_smooth(row.rate_micros, spent.micros, row.calls),
        last=now,
    )


def _mean_time(row: Spend, tokens: int, when: float) -> float:
    """When the tokens that a row holds were held on average, once some of a time are added, or taken away again.

    A single time, set anew by each hold, would let calls that come all the while keep a lost hold for ever. The mean
    moves on with calls that are settled, and stays with a hold that is not.
    """
    left = row.held_tokens + tokens
    return (row.held_tokens * row.held_at + tokens * when) / left if left > 0 else when


def resume_rows(rows: Sequence[Spend], now: float) -> list[Spend]:
    """Let paused accounts go on, with their whole cap again."""
    return [
        replace(row, tokens=0, micros=0, calls=0, paused=None, since=now, last=now) for row in rows
    ]


def cap_status(row: Spend, cap: Cap, *, warn_at: float = 1.0) -> CapStatus:
    """How an account stands to its cap, by the limit that it is nearer to."""
    limits = list(_limits(row, cap))
    nearest = max(limits, key=lambda limit: (limit.used + limit.held) / limit.most)
    state: State = "open"
    if row.paused is not None or any(limit.used >= limit.most for limit in limits):
        state = "paused"
    elif any(limit.used + limit.held >= limit.most for limit in limits):
        state = "busy"
    elif nearest.used >= warn_at * nearest.most:
        state = "warn"
    left = max(0.0, nearest.most - nearest.used)
    calls = ceil(left / nearest.rate) if nearest.rate > 0 else None
    return CapStatus(cap.scope, cap.name, state, nearest.used, nearest.most, nearest.unit, calls)


class _Limit(NamedTuple):
    used: float
    held: float
    most: float
    rate: float
    unit: Literal["tokens", "money"]


def _limits(row: Spend, cap: Cap) -> Iterator[_Limit]:
    if cap.tokens is not None:
        yield _Limit(row.tokens, row.held_tokens, cap.tokens, row.rate_tokens, "tokens")
    if cap.micros is not None:
        money = (row.micros / 1e6, row.held_micros / 1e6, cap.micros / 1e6, row.rate_micros / 1e6)
        yield _Limit(*money, "money")


def _refresh(row: Spend, cap: Cap, now: float) -> Spend:
    """The row as of now: a hold that is too old is booked, and a period that is over starts again."""
    if row.held_tokens + row.held_micros and now - row.held_at > HOLD_S:
        row = replace(
            row,
            tokens=row.tokens + row.held_tokens,
            micros=row.micros + row.held_micros,
            total_tokens=row.total_tokens + row.held_tokens,
            total_micros=row.total_micros + row.held_micros,
            held_tokens=0,
            held_micros=0,
        )
    if not row.since:
        return replace(row, since=now, last=now)
    if cap.period_s is not None and now - row.since >= cap.period_s:
        return replace(row, tokens=0, micros=0, calls=0, paused=None, since=now)
    return row


def _smooth(rate: float, last: float, calls: int) -> float:
    return last if calls == 0 else rate + SMOOTHING * (last - rate)
