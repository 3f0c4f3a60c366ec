"""The session fuse: caps on what a session, a key and a tenant may spend, in tokens or money.

`Spending` is the one place where a cap is checked (`hold`) and booked (`settle`); `gate.spending` gives it. Before a
call its likely size is held. After the call its real size is booked, and the hold is released. A call is let through
while what is booked and held stays under every cap. So an account spends at most its cap, plus one call, plus what
calls under way spend beyond what was held for them. From a share of the cap on, answers carry a warning. At the cap the
account is paused, until a person resumes it with the whole cap again.

What is held and booked is worked out by pure functions on the rows of accounts (limits.py). A store applies them to its
rows in one step (`amend_spends`), so counts hold over workers and restarts.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millgate.calls.loop import async_version
from millgate.errors import BusyError, NotFound, PausedError
from millgate.protocols import Clock, SpendStore
from millgate.spending.limits import (
    Cap,
    CapStatus,
    at_most,
    cap_status,
    hold_rows,
    lets_through,
    resume_rows,
    settle_rows,
)
from millgate.spending.prices import Price, Prices
from millgate.types import Amount, Spend, SpendScope
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit

# How soon a call may come again that was refused because of others under way. Chosen, not measured: a client that
# comes too soon is only refused once more.
RETRY_S = 5.0
# Sessions that were idle for longer are forgotten. Chosen, not measured: a quarter of a year.
KEEP_S = 90 * 86_400.0

Name = tuple[SpendScope, str]


class CapPolicy(Policy):
    """The most that one account may spend."""

    tokens: PositiveCount | None = None
    """Tokens, sent and received."""
    cost: Positive | None = None
    """Money, in the currency of `[prices]`: US dollars, if those of the providers' lists hold."""
    period_s: Positive | None = None
    """Seconds after which the count starts again; None: never."""


class FusePolicy(Policy):
    """How much may be spent through the proxy; without any cap nothing is counted."""

    caps: Mapping[SpendScope, CapPolicy] = {}
    """Caps of one session, one key and one tenant: {session = {tokens = 2000000}, key = {cost = 20, period_s = 86400}}.
    """
    fail_closed: bool = False
    """Whether a call under a cap is refused with 503 if it cannot be counted, as when the store fails; else it goes on
    uncounted, and reply, log and metrics say so.
    """
    warn_at: Tuning[Unit] = 0.8
    """Share of a cap from which answers carry a warning."""
    output_tokens: Tuning[PositiveCount] = 4_096
    """Tokens held for an answer whose request sets no limit."""

    def caps_of(self, session: str, key: str) -> tuple[Cap, ...]:
        """The caps that a call of this session and key is under."""
        names: tuple[Name, ...] = (("session", session), ("key", key), ("tenant", ""))
        return tuple(
            Cap(scope, name, cap.tokens, to_micros(cap.cost), cap.period_s)
            for scope, name in names
            if (name or scope == "tenant")
            and (cap := self.caps.get(scope)) is not None
            and (cap.tokens is not None or cap.cost is not None)
        )


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
        amount = at_most(amount, caps)
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

        For example: `[(row.name, row.total_tokens) for row, _ in gate.spending.list_spends()]`.
        """
        found = self._store.spends(self._tenant, scope=scope, limit=limit)
        return [(row, self._status_of(row)) for row in found]

    def resume(self, name: str = "", scope: SpendScope = "session") -> Spend:
        """Let an account go on with its whole cap again; NotFound if none has that name.

        For example: `gate.spending.resume("session-7")`.
        """
        now = self._clock()

        def change(rows: list[Spend]) -> list[Spend]:
            if not rows[0].since:
                raise NotFound(f"there is no {scope} {name!r}", hint="see: millgate sessions list")
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
            hint=f"a person resumes it: millgate sessions resume {option[paused.scope]}",
        )
    busy = next(status for status in statuses if status.state == "busy")
    return BusyError(busy.describe(), retry_after=RETRY_S, hint="try again when they are over")


def amount_of(price: Price | None, *, input_tokens: int, output_tokens: int) -> Amount:
    """Tokens and money of a call that reads nothing from a cache; without a price it costs none."""
    input_tokens, output_tokens = max(0, input_tokens), max(0, output_tokens)
    money = price.cost(fresh=input_tokens, output=output_tokens) if price else 0.0
    return Amount(input_tokens + output_tokens, round(1e6 * money))


def to_micros(money: float | None) -> int | None:
    """Money in millionths."""
    return None if money is None else max(1, round(money * 1e6))
