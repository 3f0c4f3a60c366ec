"""Replicas: servers that follow the main one, read while they are near enough.

The change feed and chunks may come from a replica that is at most `max_staleness_s` behind. For that long after a write
of its own a process reads the main server. A thread for each replica looks at its lag once a second and makes the
connections, so no request ever waits for a replica that is away: it reads the main server, as it does after any error.
"""

import logging
import time
from collections.abc import Sequence
from threading import Event, Lock, Thread

import psycopg
from psycopg.rows import TupleRow

from millgate.errors import MillgateError, NotReady
from millgate.stores.postgres.address import Address
from millgate.stores.postgres.connection import Connection, Pool

LOGGER = logging.getLogger("millgate.store")
_LOOK_S = 1.0  # between two looks at a replica's lag
# Seconds for which a look is believed. Chosen, not measured: one look may come late, and if two do not come the replica
# hangs.
_BELIEVED_S = 2 * _LOOK_S
# Seconds that a statement on a replica may take before the main server is asked. Chosen, not measured.
_PATIENCE_S = 1.0
_AWAY = float("inf")
# a main server has no lag; a replica that is connected to it and has replayed all it received has none either
_LAG = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0.0
WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0.0
ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 1e9) END::float8
"""


class _NoneIdle(NotReady):
    """Every connection to a replica is in use."""


class _ReplicaPool(Pool):
    """Connections to a replica. Requests take what is idle; the thread that watches it makes more."""

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(address, address.at_replica(name))
        self.patience_s = _PATIENCE_S
        self._wanted = 1

    def fill(self) -> None:
        """Make the connections that requests lacked."""
        while self._made < self._wanted and not self._closed:
            connection = self.connect_once()
            with self._lock:
                self._made += 1
            self._give_back(connection)

    def _take(self) -> Connection:
        with self._lock:
            if (connection := self._pop_idle()) is not None:
                return connection
            self._wanted = min(self._made + 1, self.address.pool_size)
        raise _NoneIdle("no connection to the replica is idle")


class _Replica:
    """One replica, and how far behind it was when it was last looked at."""

    def __init__(self, address: Address, name: str) -> None:
        self.name = name
        self.pool = _ReplicaPool(address, name)
        self.lag_s, self.looked = _AWAY, 0.0

    def watch(self, stop: Event) -> None:
        """Look at it once a second, until `stop`."""
        connection: Connection | None = None
        away = False
        while not stop.is_set():
            try:
                connection = connection or self.pool.connect_once()
                (self.lag_s,) = connection.execute(_LAG).fetchone() or (_AWAY,)
                self.looked = time.monotonic()
                self.pool.fill()
                away = False
            except (psycopg.Error, MillgateError) as error:
                self.lag_s = _AWAY
                if connection is not None:
                    connection.close()
                connection = None
                if not away:
                    said = self.pool.address.without_password(" ".join(str(error).split()))
                    LOGGER.warning("the replica %s is left alone: %s", self.name, said)
                away = True
            stop.wait(_LOOK_S)
        if connection is not None:
            connection.close()


class Replicas:
    """Where to read what may be a little old."""

    def __init__(self, main: Pool, address: Address) -> None:
        self._main = main
        self._bound = address.max_staleness_s
        self._replicas = [_Replica(address, name) for name in address.replicas]
        self._wrote = float("-inf")
        self._lock = Lock()
        self._stop = Event()
        self._watched = False

    def note_write(self) -> None:
        """Read the main server for a while, so that this process sees what it wrote."""
        self._wrote = time.monotonic()

    def fetch(
        self, tenant: str, sql: str, values: Sequence[object] = (), *, binary: bool = False
    ) -> list[TupleRow]:
        """The rows of one statement, from the first replica that is near enough, or from the main server."""
        if (replica := self._choose()) is not None:
            try:
                return replica.pool.fetch(tenant, sql, values, binary=binary)
            except _NoneIdle:
                pass  # the next requests find one more
            except MillgateError:
                replica.lag_s = _AWAY  # until it is looked at again
        return self._main.fetch(tenant, sql, values, binary=binary)

    def close(self) -> None:
        self._stop.set()
        for replica in self._replicas:
            replica.pool.close()

    def _choose(self) -> _Replica | None:
        now = time.monotonic()
        if not self._replicas or now - self._wrote < self._bound:
            return None
        if not self._watched:
            self._watch()
        for replica in self._replicas:
            if replica.lag_s <= self._bound and now - replica.looked <= _BELIEVED_S:
                return replica
        return None

    def _watch(self) -> None:
        with self._lock:
            if self._watched or self._stop.is_set():
                return
            self._watched = True
            for replica in self._replicas:
                name = f"millgate-replica {replica.name}"
                Thread(target=replica.watch, args=(self._stop,), name=name, daemon=True).start()
