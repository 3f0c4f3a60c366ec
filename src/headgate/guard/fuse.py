"""The session fuse: caps on what a session, a key and a tenant may spend, in tokens or money.

Before a call its likely size is held; after it the real size is booked and the hold released. A call is let through
while what is booked and held stays under every cap, so that nothing spends more than its cap plus one call, however
many calls run at once. Then: warn (from a share of the cap on) -> pause (nothing goes on) -> resume, by a person, with
the whole cap again. The functions are pure. A store applies them to its rows as one step (`amend_spends`), so counts
hold over workers and restarts. A hold whose worker died is booked as spent after HOLD_S.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from headgate.policy import Policy, Positive, PositiveCount, Tuning, Unit
from headgate.types import Amount, Spend, SpendScope

HOLD_S = 900.0  # longer than any call lasts
SMOOTHING = 0.3  # weight of the last call in the rate that forecasts

State = Literal["open", "warn", "busy", "paused"]
Name = tuple[SpendScope, str]


class Price(Policy):
    """What a million tokens of one model cost."""

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Input that came from the provider's cache; None: as other input."""


class CapPolicy(Policy):
    """The most that one spender may spend."""

    tokens: PositiveCount | None = None
    """Tokens, sent and received."""
    cost: Positive | None = None
    """Money, in the currency of `prices`."""
    period_s: Positive | None = None
    """Seconds after which the count starts again; None: never."""


class FusePolicy(Policy):
    """How much may be spent through the proxy; without any cap nothing is counted."""

    caps: Mapping[SpendScope, CapPolicy] = {}
    """Caps of one session, one key and one tenant: {session = {tokens = 2000000}, key = {cost = 20, period_s = 86400}}.
    """
    prices: Mapping[str, Price] = {}
    """Prices of a million tokens by model, or by how a model's name begins: {"gpt-5" = {input = 1.25, output = 10}}."""
    warn_at: Tuning[Unit] = 0.8
    """Share of a cap from which answers carry a warning."""
    output_tokens: Tuning[PositiveCount] = 4_096
    """Tokens held for an answer whose request sets no limit."""

    def caps_of(self, session: str, key: str) -> tuple["Cap", ...]:
        """The caps that a call of this session and key is under."""
        names: tuple[Name, ...] = (("session", session), ("key", key), ("tenant", ""))
        return tuple(
            Cap(scope, name, cap.tokens, to_micros(cap.cost), cap.period_s)
            for scope, name in names
            if (name or scope == "tenant")
            and (cap := self.caps.get(scope)) is not None
            and (cap.tokens is not None or cap.cost is not None)
        )

    def price(self, model: str) -> Price | None:
        """The price of a model: its own, else that of the longest beginning of its name."""
        fitting = [name for name in self.prices if model.startswith(name)]
        return self.prices[max(fitting, key=len)] if fitting else None


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit on one spender; a limit that is None does not hold."""

    scope: SpendScope
    name: str
    tokens: int | None = None
    micros: int | None = None
    period_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a spender stands to its cap: used of cap, and how many more calls fit at the rate of the last ones."""

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
        """When the cap is reached, empty where that cannot be said."""
        if self.calls_left is None:
            return ""
        return f"full in {self.calls_left} call{'' if self.calls_left == 1 else 's'}"

    def describe(self) -> str:
        """One sentence for a person."""
        who = "this tenant" if self.scope == "tenant" else f"{self.scope} {self.name}"
        spent = f"{self.used:,.0f} of {self.cap:,.0f} tokens" if self.unit == "tokens" else f"{self.used:,.4g} of {self.cap:,.4g}"  # fmt: skip
        told = f"{who} has spent {spent}"
        if self.state == "paused":
            return f"{told} and is paused"
        if self.state == "busy":
            return f"{told}, and calls under way may use up the rest"
        return f"{told}; {self.forecast} at this rate" if self.forecast else told


def hold(
    rows: Sequence[Spend],
    caps: Sequence[Cap],
    amount: Amount,
    now: float,
    *,
    warn_at: float = 1.0,
) -> tuple[list[Spend], tuple[Reading, ...]]:
    """Hold a call's likely size, where every spender is under its cap; else only mark who is paused.

    The readings say how the spenders stood before; `lets_through` tells from them which it was.
    """
    fresh = [_refresh(row, cap, now) for row, cap in zip(rows, caps, strict=True)]
    readings = tuple(read(row, cap, warn_at=warn_at) for row, cap in zip(fresh, caps, strict=True))
    if not lets_through(readings):
        return [
            replace(row, paused=now) if reading.state == "paused" and row.paused is None else row
            for row, reading in zip(fresh, readings, strict=True)
        ], readings
    return [
        replace(
            row,
            held_tokens=row.held_tokens + amount.tokens,
            held_micros=row.held_micros + amount.micros,
            held_at=now,
            last=now,
        )
        for row in fresh
    ], readings


def lets_through(readings: Sequence[Reading]) -> bool:
    """Whether one more call may be made."""
    return all(reading.state in ("open", "warn") for reading in readings)


def settle(rows: Sequence[Spend], held: Amount, spent: Amount, now: float) -> list[Spend]:
    """Book what a call really spent, and release what was held for it.

    What is no longer held was booked when the call seemed lost; it is not booked twice.
    """
    return [_settle(row, held, spent, now) for row in rows]


def _settle(row: Spend, held: Amount, spent: Amount, now: float) -> Spend:
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
        rate_tokens=_smooth(row.rate_tokens, spent.tokens, row.calls),
        rate_micros=_smooth(row.rate_micros, spent.micros, row.calls),
        last=now,
    )


def resume(rows: Sequence[Spend], now: float) -> list[Spend]:
    """Let paused spenders go on, with their whole cap again."""
    return [
        replace(row, tokens=0, micros=0, calls=0, paused=None, since=now, last=now) for row in rows
    ]


def read(row: Spend, cap: Cap, *, warn_at: float = 1.0) -> Reading:
    """How a spender stands to its cap, by the limit it is nearer to."""
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
    return Reading(cap.scope, cap.name, state, nearest.used, nearest.most, nearest.unit, calls)


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


def amount_of(
    price: Price | None, *, input_tokens: int, output_tokens: int, cached_tokens: int = 0
) -> Amount:
    """Tokens and money of a call; a model without a price costs none. `cached_tokens` are part of the input."""
    tokens = input_tokens + output_tokens
    if price is None:
        return Amount(tokens, 0)
    cached = price.input if price.cached is None else price.cached
    plain = max(0, input_tokens - cached_tokens)
    money = plain * price.input + cached_tokens * cached + output_tokens * price.output
    return Amount(tokens, round(money))


def to_micros(money: float | None) -> int | None:
    """Money in millionths."""
    return None if money is None else max(1, round(money * 1e6))


def _refresh(row: Spend, cap: Cap, now: float) -> Spend:
    """The row as of now: a period that is over starts again, and a hold that nobody will settle is booked."""
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
