"""Spending: what sessions, keys and a tenant have spent, kept in the store under the caps of the fuse.

`Spending` is what `hg.spending` gives. The proxy holds and settles each call here; people list and resume.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.errors import BusyError, NotFound, PausedError
from headgate.guard import fuse
from headgate.guard.fuse import Cap, FusePolicy, Reading
from headgate.protocols import Clock, SpendStore
from headgate.twins import in_thread
from headgate.types import Amount, Spend, SpendScope

RETRY_S = 5.0  # how soon a call may come again that was refused for others under way
KEEP_S = 90 * 86_400.0  # sessions that were idle for longer are forgotten


@dataclass(frozen=True, slots=True)
class Hold:
    """What is held for a call that may go through, and how its spenders stood before."""

    caps: tuple[Cap, ...]
    amount: Amount
    readings: tuple[Reading, ...] = ()

    @property
    def refusal(self) -> BusyError | PausedError | None:
        """Why the call may not go through; None where it may."""
        return None if fuse.lets_through(self.readings) else _refusal(self.readings)

    @property
    def warnings(self) -> tuple[Reading, ...]:
        """The spenders that are near their cap."""
        return tuple(reading for reading in self.readings if reading.state != "open")


class Spending:
    """Spends of one tenant."""

    def __init__(
        self, store: SpendStore, tenant: str, policy: FusePolicy, *, clock: Clock = time.time
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._policy = policy
        self._clock = clock

    def hold(self, session: str, key: str, amount: Amount) -> Hold:
        """Hold a call's likely size, where every cap lets it through; else nothing is held, and `refusal` says why."""
        caps = self._policy.caps_of(session, key)
        if not caps:
            return Hold((), amount)
        now, readings, is_new = self._clock(), tuple[Reading, ...](), False

        def change(rows: list[Spend]) -> list[Spend]:
            nonlocal readings, is_new
            is_new = not rows[0].since
            after, readings = fuse.hold(rows, caps, amount, now, warn_at=self._policy.warn_at)
            return after

        self._store.amend_spends(self._tenant, _names(caps), change)
        if is_new:
            self._store.forget_spends(self._tenant, idle_since=now - KEEP_S)
        return Hold(caps, amount, readings)

    def settle(self, hold: Hold, spent: Amount) -> tuple[Reading, ...]:
        """Book what a call really spent; how its spenders stand now."""
        if not hold.caps:
            return ()
        now = self._clock()
        rows = self._store.amend_spends(
            self._tenant,
            _names(hold.caps),
            lambda rows: fuse.settle(rows, hold.amount, spent, now),
        )
        warn_at = self._policy.warn_at
        return tuple(
            fuse.read(row, cap, warn_at=warn_at) for row, cap in zip(rows, hold.caps, strict=True)
        )

    def list_spends(
        self, scope: SpendScope | None = "session", *, limit: int = 100
    ) -> list[tuple[Spend, Reading | None]]:
        """Spenders, those used last first, each with how it stands to its cap, where it has one."""
        found = self._store.spends(self._tenant, scope=scope, limit=limit)
        return [(row, self._reading(row)) for row in found]

    def resume(self, name: str = "", scope: SpendScope = "session") -> Spend:
        """Let a spender go on with its whole cap again; an error where there is none of that name."""
        now = self._clock()

        def change(rows: list[Spend]) -> list[Spend]:
            if not rows[0].since:
                raise NotFound(f"there is no {scope} {name!r}", hint="see: headgate sessions list")
            return fuse.resume(rows, now)

        return self._store.amend_spends(self._tenant, [(scope, name)], change)[0]

    ahold = in_thread(hold)
    asettle = in_thread(settle)
    alist_spends = in_thread(list_spends)
    aresume = in_thread(resume)

    def _reading(self, row: Spend) -> Reading | None:
        caps = self._policy.caps_of(row.name, row.name)
        cap = next((cap for cap in caps if cap.scope == row.scope), None)
        return fuse.read(row, cap, warn_at=self._policy.warn_at) if cap else None


def _names(caps: Sequence[Cap]) -> list[tuple[SpendScope, str]]:
    return [(cap.scope, cap.name) for cap in caps]


def _refusal(readings: Sequence[Reading]) -> BusyError | PausedError:
    paused = next((reading for reading in readings if reading.state == "paused"), None)
    if paused is not None:
        option = {"session": paused.name, "key": f"--key {paused.name}", "tenant": "--all"}
        return PausedError(
            paused.describe(),
            hint=f"a person resumes it: headgate sessions resume {option[paused.scope]}",
        )
    busy = next(reading for reading in readings if reading.state == "busy")
    return BusyError(busy.describe(), retry_after=RETRY_S, hint="try again when they are over")
