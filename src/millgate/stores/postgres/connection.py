"""Connections to one PostgreSQL database: a pool, transactions with a tenant, and bounded waiting.

Every transaction begins by naming its tenant (`SET LOCAL millgate.tenant`). Row-level security shows the rows of that
tenant and of no other, so a query that forgot its WHERE finds nothing of other tenants. Nothing is set for longer than
a transaction, so a pooler may stand between.

Connections are made in the thread that asks. The pool replaces an idle one that the server has closed, and closes one
that raised an error. It is of no use in a forked child.
"""

import logging
import os
import selectors
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Condition
from typing import Any, TypeVar

import psycopg
from psycopg import Cursor
from psycopg.abc import Params, PQGen, Query
from psycopg.pq import Escaping, TransactionStatus
from psycopg.rows import TupleRow

from millgate.calls.forks import check_process
from millgate.errors import MillgateError, NotReady, StoreError
from millgate.stores.chunk_rows import Row
from millgate.stores.postgres.address import Address
from millgate.stores.postgres.failures import (
    is_coming_back,
    refuse_old_server,
    refuse_other_encoding,
    translate,
    translate_login,
)
from millgate.stores.postgres.rows import as_text_array, insert_rows, spell
from millgate.stores.postgres.texts import register_texts

LOGGER = logging.getLogger("millgate.store")
# Seconds between attempts to reach a server that is coming back. Chosen, not measured: short at
# first, so that a quick restart is hardly noticed, then longer, so that many clients do not crowd the server.
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
# Seconds that the server has, beyond the timeout, to report that a statement took too long. Its own error says more
# than a broken connection does. Chosen, not measured.
_SLACK_S = 2.0

# First reads of which the following ones are remembered: chosen, not measured, to bound their memory.
_FIRSTS = 1_000
_FEW = 100  # rows of what is read ahead
_READ_AS = "SELECT set_config('transaction_read_only', 'on', true), set_config('millgate.tenant', %s, true)"
_CITUS = "SELECT current_setting('citus.propagate_set_commands', true) IS NOT NULL"

T = TypeVar("T")
Ask = tuple[str, Sequence[object]]
"""A statement and its values."""

# asking about one socket once, poll is several times cheaper than epoll, which Windows has neither of
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Connection(psycopg.Connection[TupleRow]):
    """A connection that waits for an answer no longer than `patience_s`; None waits for ever."""

    patience_s: float | None = None
    is_citus = False
    listed = staticmethod(as_text_array)

    def execute(
        self,
        query: Query,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> Cursor[TupleRow]:
        if params and isinstance(query, str):
            query = spell(query)
        return super().execute(query, params, prepare=prepare, binary=binary)  # type: ignore[arg-type]  # no templates

    def run_many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement once for each row of values; how many rows it changed."""
        if not rows:
            return 0
        with self.cursor() as cursor:
            cursor.executemany(spell(sql), rows)
            return cursor.rowcount

    def insert(self, table: str, rows: Iterable[Row], *, on_conflict: str = "") -> int:
        """Insert rows of all columns; how many were inserted or, by the clause, updated."""
        return insert_rows(self, table, list(rows), on_conflict=on_conflict)

    def lock_counter(self, tenant: str, name: str) -> None:
        """Let no other transaction read or change one of the tenant's counters until this one ends."""
        sql = "INSERT INTO millgate.counters (tenant, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
        self.execute(sql, (tenant, name))
        sql = "SELECT value FROM millgate.counters WHERE tenant = ? AND name = ? FOR UPDATE"
        self.execute(sql, (tenant, name))

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is None and self.patience_s is not None:
            timeout = self.patience_s + _SLACK_S
        return super().wait(gen, interval, timeout)


class _Reads:
    """What a request has read, in order, and what it has not asked for yet."""

    def __init__(self, pool: "Pool") -> None:
        self.pool: Pool | None = pool
        self.tenant = ""  # whose policies hold for what is read ahead
        self.asked: dict[Ask, None] = {}
        self.answers: dict[Ask, list[TupleRow]] = {}


_REQUEST: ContextVar[_Reads | None] = ContextVar("reads of a request", default=None)


class Pool:
    """Connections of one process to one server."""

    listed = staticmethod(as_text_array)

    def __init__(self, address: Address, parameters: Mapping[str, Any] | None = None) -> None:
        self.address = address
        self.patience_s = address.timeout_s
        self._parameters = dict(parameters or address.parameters)
        self._idle: list[Connection] = []
        self._closed = False
        self._followed: dict[Ask, list[Ask]] = {}
        self._lock = Condition()
        self._made = 0
        self._process = os.getpid()

    @contextmanager
    def read(self, tenant: str) -> Iterator[Connection]:
        """A transaction that reads; all its statements see one moment."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._transaction(begin, tenant) as connection:
            yield connection

    def fetch(
        self,
        tenant: str,
        sql: str,
        values: Sequence[object] = (),
        *,
        binary: bool = False,
    ) -> list[TupleRow]:
        """The rows of one statement that reads, in one round trip."""
        return self._fetch(tenant, [(sql, values)], binary=binary)[0]

    def fetch_first(self, tenant: str, sql: str, *values: object) -> list[TupleRow]:
        """The same for what every request reads: with its first read comes what others read after that one."""
        ask: Ask = (sql, values)
        reads = _REQUEST.get()
        if reads is None or reads.pool is not self or (reads.tenant or tenant) != tenant:
            return self.fetch(tenant, *ask)
        reads.tenant = tenant
        rows = reads.answers.pop(ask, None)
        if rows is None:
            more = () if reads.asked else self._followed.get(ask, ())
            try:
                rows, *others = self._fetch(tenant, [ask, *more])
            except MillgateError:  # whichever it was, the next request reads one by one
                self._followed.pop(ask, None)
                raise
            reads.answers.update(zip(more, others, strict=True))
        if len(rows) < _FEW:
            reads.asked[ask] = None
        first, *followed = list(reads.asked) or [ask]
        if self._followed.get(first, [])[: len(followed)] != followed:
            if len(self._followed) > _FIRSTS:
                self._followed = {}
            self._followed[first] = followed
        return rows

    @contextmanager
    def one_request(self) -> Iterator[None]:
        """All inside is one request, with the threads that it starts: what it reads ahead does not outlive it."""
        reads = _Reads(self)
        before = _REQUEST.set(reads)
        try:
            yield
        finally:
            reads.pool = None
            _REQUEST.reset(before)

    def _fetch(
        self, tenant: str, asks: Sequence[Ask], *, binary: bool = False
    ) -> list[list[TupleRow]]:
        """A pipeline is a transaction. But Citus tells workers only what SET LOCAL says after a BEGIN."""
        with self._connection() as connection:
            with connection.pipeline():
                if connection.is_citus:
                    _begin(connection, "BEGIN READ ONLY", tenant, ())
                else:
                    connection.execute(_READ_AS, (tenant,))
                found = [connection.execute(*ask, binary=binary) for ask in asks]
                if connection.is_citus:
                    connection.execute("COMMIT", prepare=False)
            return [one.fetchall() for one in found]

    @contextmanager
    def write(
        self,
        tenant: str,
        *,
        durable: bool = True,
        patience_s: float | None = None,
        statement_s: float | None = None,
    ) -> Iterator[Connection]:
        """A transaction that writes: all of it or nothing. One that is not durable may be lost with the server.

        `patience_s` is how long to wait for other writers, and `statement_s` how long a statement may take; the
        default of both is the store's timeout.
        """
        settings = [] if durable else ["synchronous_commit = off"]
        patience = self.address.timeout_s if patience_s is None else patience_s
        settings.append(f"lock_timeout = {max(1, int(1000 * patience))}")
        with self._transaction("BEGIN", tenant, *settings) as connection:
            connection.patience_s = statement_s or self.address.timeout_s
            yield connection

    @contextmanager
    def directory(self, *, write: bool = False) -> Iterator[Connection]:
        """A transaction over the names of tenants and API keys, which alone are found without a tenant."""
        begin = "BEGIN" if write else "BEGIN READ ONLY"
        with self._transaction(begin, None, "millgate.directory = 'on'") as connection:
            yield connection

    @contextmanager
    def session(self, *, patience_s: float | None = None) -> Iterator[Connection]:
        """A connection outside any transaction, for the commands that look after a store."""
        with self._connection() as connection:
            connection.patience_s = patience_s
            yield connection

    def close(self) -> None:
        """Close idle connections now, and those in use when they come back."""
        if self._process != os.getpid():
            return  # they are the parent's
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._lock.notify_all()
        for connection in idle:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str, tenant: str | None, *settings: str) -> Iterator[Connection]:
        with self._connection() as connection:
            with connection.pipeline():  # one round trip for all
                _begin(connection, begin, tenant, settings)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    if not connection.closed:
                        connection.rollback()
                raise

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        except psycopg.Error as error:
            connection.close()
            raise translate(self.address, error) from error
        except BaseException:
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            raise
        finally:
            self._give_back(connection)

    def _take(self) -> Connection:
        check_process(self._process)
        deadline = time.monotonic() + self.address.timeout_s
        with self._lock:
            while True:
                if self._closed:
                    raise StoreError(f"the store {self.address} is closed", hint="open it again")
                if (connection := self._pop_idle()) is not None:
                    return connection
                if self._made < self.address.pool_size:
                    self._made += 1
                    break
                if not self._lock.wait(deadline - time.monotonic()):
                    raise NotReady(
                        f"all {self._made} connections to the store {self.address} are in use",
                        retry_after=1.0,
                        hint="try again, or raise pool_size in the address of the store",
                    )
        try:
            return self._connect(deadline)
        except BaseException:
            with self._lock:
                self._made -= 1
                self._lock.notify()
            raise

    def _pop_idle(self) -> Connection | None:
        """An idle connection that the server has not closed; None if there is none. The caller holds the lock."""
        while self._idle:
            connection = self._idle.pop()
            if _is_alive(connection):
                return connection
            connection.close()
            self._made -= 1
        return None

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not connection.closed and not self._closed:
                connection.patience_s = self.patience_s
                self._idle.append(connection)
            else:
                self._made -= 1
                connection.close()
            self._lock.notify()

    def _connect(self, deadline: float) -> Connection:
        """A new connection; if the server is coming back, as soon as it is there."""
        attempt = 0
        while True:
            attempt += 1
            pause = _PAUSES_S[min(attempt, len(_PAUSES_S)) - 1]
            try:
                return self.connect_once()
            except psycopg.Error as error:
                reason = translate_login(self.address, error)
                if not is_coming_back(error) or time.monotonic() + pause > deadline:
                    raise reason from error
                if attempt == len(_PAUSES_S):  # about a second
                    left = deadline - time.monotonic()
                    LOGGER.warning("%s; waiting for it, %.0f s more", reason.message, left)
            time.sleep(pause)

    def connect_once(self) -> Connection:
        """A new connection that is not one of the pool, or the error that the server or the way to it gave."""
        connection = Connection.connect(
            autocommit=True,
            prepare_threshold=5 if self.address.prepared_statements else None,
            **self._parameters,
        )
        try:
            refuse_old_server(self.address, connection.info.server_version)
            encoding = connection.info.parameter_status("server_encoding")
            refuse_other_encoding(self.address, encoding)
            register_texts(connection)
            connection.patience_s = self.patience_s
            connection.is_citus = connection.execute(_CITUS).fetchone() == (True,)
        except BaseException:
            connection.close()
            raise
        return connection


def _begin(connection: Connection, begin: str, tenant: str | None, settings: Sequence[str]) -> None:
    lines = ["citus.propagate_set_commands = 'local'"] if connection.is_citus else []
    if tenant is not None:
        lines.append(f"millgate.tenant = {quote(connection, tenant)}")
    connection.execute(begin, prepare=False)
    for line in (*lines, *settings):
        connection.execute(f"SET LOCAL {line}", prepare=False)


def quote(connection: Connection, text: str) -> str:
    """A text as a literal of SQL, for statements that take no parameters."""
    quoted = Escaping(connection.pgconn).escape_literal(text.encode())
    return bytes(quoted).decode()


def _is_alive(connection: Connection) -> bool:
    """Whether nothing has come on an idle connection: only a server that closes it says anything."""
    if connection.closed or connection.info.backend_pid <= 0:
        return False
    try:
        with _Selector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)
    except (psycopg.Error, OSError):
        return False
