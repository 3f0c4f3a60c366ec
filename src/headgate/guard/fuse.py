"""The session fuse: caps on what a session, a key and a tenant may spend, in tokens or money.

`Spending` is the one place where a cap is checked (`hold`) and booked (`settle`); `hg.spending` gives it. Before a call
its likely size is held. After the call its real size is booked, and the hold is released. A call is let through while
what is booked and held stays under every cap. So an account spends at most its cap, plus one call, plus what calls
under way spend beyond what was held for them. From a share of the cap on, answers carry a warning. At the cap the
account is paused, until a person resumes it with the whole cap again.

The functions on rows are pure. A store applies them to its rows in one step (`amend_spends`), so counts hold over
workers and restarts.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NamedTuple

from headgate.errors import BusyError, NotFound, PausedError
from headgate.policy import Policy, Positive, PositiveCount, Tuning, Unit
from headgate.prices import Price, Prices
from headgate.protocols import Clock, SpendStore
from headgate.sync_async import async_version
from headgate.types import Amount, Spend, SpendScope

# A hold whose worker died is booked as spent after this time: longer than a call lasts, whose answer may take ten
# minutes to begin (`UpstreamPolicy.answer_s`).
HOLD_S = 900.0
# Weight of the last call in the rate that forecasts. Chosen, not measured: about the last three calls decide, so that
# one large call does not set the forecast alone.
SMOOTHING = 0.3
# How soon a call may come again that was refused because of others under way. Chosen, not measured: a client that
# comes too soon is only refused once more.
RETRY_S = 5.0
# Sessions that were idle for longer are forgotten. Chosen, not measured: a quarter of a year.
KEEP_S = 90 * 86_400.0

State = Literal["open", "warn", "busy", "paused"]
Name = tuple[SpendScope, str]


# Settings


class CapPolicy(Policy):
    """The most that one account may spend."""

    tokens: PositiveCount | None = None
    """Tokens, sent and received."""
    cost: Positive | None = None
    """Money, in the currency of `[prices]`."""
    period_s: Positive | None = None
    """Seconds after which the count starts again; None: never."""


class FusePolicy(Policy):
    """How much may be spent through the proxy; without any cap nothing is counted."""

    caps: Mapping[SpendScope, CapPolicy] = {}
    """Caps of one session, one key and one tenant: {session = {tokens = 2000000}, key = {cost = 20, period_s = 86400}}.
    """
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


# Accounts and their caps


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


@dataclass(frozen=True, slots=True)
class Hold:
    """What is held for a call, and how its accounts stood to their caps before."""

    caps: tuple[Cap, ...]
    amount: Amount
    statuses: tuple[CapStatus, ...] = ()
    since: float = 0.0
    """When it began."""

    @property
    def refusal(self) -> BusyError | PausedError | None:
        """Why the call may not go through; None if it may."""
        return None if lets_through(self.statuses) else _refusal(self.statuses)

    @property
    def warnings(self) -> tuple[CapStatus, ...]:
        """The accounts that are near their cap."""
        return tuple(status for status in self.statuses if status.state != "open")


class Spending:
    """What the sessions, the keys and one tenant have spent, kept in the store."""

    def __init__(
        self,
        store: SpendStore,
        tenant: str,
        policy: FusePolicy,
        *,
        prices: Prices | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.policy = policy
        self.prices = prices or Prices()
        self._store = store
        self._tenant = tenant
        self._clock = clock

    def hold(self, session: str, key: str, amount: Amount) -> Hold:
        """Hold a call's likely size if every cap lets it through; else hold nothing, and `refusal` says why.

        No account holds more than the smallest of the caps: so a key with a small cap, whose call allows an answer of
        any length, does not take from others of its tenant what it may not spend itself.
        """
        caps = self.policy.caps_of(session, key)
        if not caps:
            return Hold((), amount)
        amount = _at_most(amount, caps)
        now, statuses, is_new = self._clock(), tuple[CapStatus, ...](), False

        def change(rows: list[Spend]) -> list[Spend]:
            nonlocal statuses, is_new
            is_new = not rows[0].since
            after, statuses = hold_rows(rows, caps, amount, now, warn_at=self.policy.warn_at)
            return after

        self._store.amend_spends(self._tenant, _names(caps), change)
        if is_new:
            self._store.forget_spends(self._tenant, idle_since=now - KEEP_S)
        return Hold(caps, amount, statuses, now)

    def settle(self, held: Hold, spent: Amount) -> tuple[CapStatus, ...]:
        """Book what a call really spent, and release its hold; how its accounts stand now."""
        if not held.caps:
            return ()
        now = self._clock()
        rows = self._store.amend_spends(
            self._tenant,
            _names(held.caps),
            lambda rows: settle_rows(rows, held.amount, spent, now, since=held.since),
        )
        return tuple(self._status(row, cap) for row, cap in zip(rows, held.caps, strict=True))

    def list_spends(
        self, scope: SpendScope | None = "session", *, limit: int = 100
    ) -> list[tuple[Spend, CapStatus | None]]:
        """Accounts, those used last first, each with how it stands to its cap, if it has one.

        For example: `[(row.name, row.total_tokens) for row, _ in hg.spending.list_spends()]`.
        """
        found = self._store.spends(self._tenant, scope=scope, limit=limit)
        return [(row, self._status_of(row)) for row in found]

    def resume(self, name: str = "", scope: SpendScope = "session") -> Spend:
        """Let an account go on with its whole cap again; NotFound if none has that name.

        For example: `hg.spending.resume("session-7")`.
        """
        now = self._clock()

        def change(rows: list[Spend]) -> list[Spend]:
            if not rows[0].since:
                raise NotFound(f"there is no {scope} {name!r}", hint="see: headgate sessions list")
            return resume_rows(rows, now)

        return self._store.amend_spends(self._tenant, [(scope, name)], change)[0]

    ahold = async_version(hold)
    asettle = async_version(settle)
    alist_spends = async_version(list_spends)
    aresume = async_version(resume)

    def _status_of(self, row: Spend) -> CapStatus | None:
        caps = self.policy.caps_of(row.name, row.name)
        cap = next((cap for cap in caps if cap.scope == row.scope), None)
        return self._status(row, cap) if cap else None

    def _status(self, row: Spend, cap: Cap) -> CapStatus:
        return cap_status(row, cap, warn_at=self.policy.warn_at)


def _names(caps: Sequence[Cap]) -> list[Name]:
    return [(cap.scope, cap.name) for cap in caps]


def _refusal(statuses: Sequence[CapStatus]) -> BusyError | PausedError:
    paused = next((status for status in statuses if status.state == "paused"), None)
    if paused is not None:
        option = {"session": paused.name, "key": f"--key {paused.name}", "tenant": "--all"}
        return PausedError(
            paused.describe(),
            hint=f"a person resumes it: headgate sessions resume {option[paused.scope]}",
        )
    busy = next(status for status in statuses if status.state == "busy")
    return BusyError(busy.describe(), retry_after=RETRY_S, hint="try again when they are over")


# The arithmetic of rows


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


def _at_most(amount: Amount, caps: Sequence[Cap]) -> Amount:
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


def amount_of(
    price: Price | None,
    *,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int = 0,
    written_tokens: int = 0,
) -> Amount:
    """Tokens and money of a call; a model without a price costs none.

    What was read from the provider's cache, and what was written to it, is part of the input.
    """
    input_tokens, output_tokens = max(0, input_tokens), max(0, output_tokens)
    tokens = input_tokens + output_tokens
    if price is None:
        return Amount(tokens, 0)
    fresh = max(0, input_tokens - cached_tokens - written_tokens)
    money = price.cost(
        fresh=fresh, read=cached_tokens, written=written_tokens, output=output_tokens
    )
    return Amount(tokens, round(1e6 * money))


def to_micros(money: float | None) -> int | None:
    """Money in millionths."""
    return None if money is None else max(1, round(money * 1e6))


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
