"""Replicas: servers that follow the main one, read while they are near enough.

The change feed and chunks may come from a replica that is at most `max_staleness_s` behind; its lag is looked at once a
second. For that long after a write of its own a process reads the main server. A replica that fails is left alone for a
while.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import TupleRow

from headgate.errors import StoreError
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.connection import Pool

_LOOK_S = 1.0  # between two looks at a replica's lag
# Seconds for which a replica that failed is not asked. Chosen, not measured: long enough that few requests pay for
# another attempt, short enough that a replica which restarted soon takes part again.
_REST_S = 5.0
# a main server has no lag; a replica that is connected to it and has replayed all it received has none either
_LAG = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0.0
WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0.0
ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 1e9) END::float8
"""


@dataclass
class _Replica:
    pool: Pool
    lag_s: float = float("inf")
    look_after: float = 0.0


class Replicas:
    """Where to read what may be a little old."""

    def __init__(self, main: Pool, address: Address) -> None:
        self._main = main
        self._bound = address.max_staleness_s
        self._replicas = [
            _Replica(Pool(address, address.at_replica(name))) for name in address.replicas
        ]
        self._wrote = float("-inf")

    def note_write(self) -> None:
        """Read the main server for a while, so that this process sees what it wrote."""
        self._wrote = time.monotonic()

    def fetch(
        self, tenant: str, sql: str, values: Sequence[object] = (), *, binary: bool = False
    ) -> list[TupleRow]:
        """The rows of one statement, from the first replica that is near enough, or from the main server."""
        return (self._choose() or self._main).fetch(tenant, sql, values, binary=binary)

    def close(self) -> None:
        for replica in self._replicas:
            replica.pool.close()

    def _choose(self) -> Pool | None:
        now = time.monotonic()
        if not self._replicas or now - self._wrote < self._bound:
            return None
        for replica in self._replicas:
            if now >= replica.look_after:
                _look(replica, now)
            if replica.lag_s <= self._bound:
                return replica.pool
        return None


def _look(replica: _Replica, now: float) -> None:
    try:
        with replica.pool.session(patience_s=1.0) as connection:
            (replica.lag_s,) = connection.execute(_LAG).fetchone() or (float("inf"),)
        replica.look_after = now + _LOOK_S
    except StoreError:
        replica.lag_s, replica.look_after = float("inf"), now + _REST_S
