"""Failures: PostgreSQL's errors in our words: what is wrong, and the SQL or command that mends it.

After login errors carry a code (SQLSTATE). Before it they are sentences; those that people meet are recognized by their
English words, and any other is passed on as it stands.
"""

from psycopg import Error, errors

from millgate.errors import InputError, LimitError, MillgateError, NotReady, StoreError
from millgate.stores.postgres.address import Address

OLDEST = 15

# words in the message of a login that failed -> what to do
_LOGIN = (
    ("password authentication failed", "check user and password; a new one: ALTER ROLE {user} PASSWORD '...'"),
    ("no password supplied", "put the password into the address, or set PGPASSWORD"),
    ("pg_hba.conf", "let this host in: add a line to pg_hba.conf, then SELECT pg_reload_conf()"),
    ("role", "CREATE ROLE {user} LOGIN PASSWORD '...'"),
    ("database", "CREATE DATABASE {dbname} OWNER {user}"),
    ("could not translate host name", "check the host in the address"),
    ("resolve host", "check the host in the address"),
    ("refused", "check host and port, and that the server runs and listens there"),
    ("no such file", "check the folder of the socket, and that the server runs"),
    ("timeout", "check the network and its firewalls, or that the server is not overloaded"),
    ("certificate", "check sslmode and sslrootcert in the address"),
)  # fmt: skip
_COMING_BACK = (
    "refused", "no such file", "timeout", "starting up", "shutting down", "too many clients",
    "connection slots", "in recovery", "closed the connection", "reset by peer",
)  # fmt: skip
# SQLSTATE of an administrator's shutdown, of one after a crash, and of a server that takes no connections yet
_STOPPING = frozenset({"57P01", "57P02", "57P03"})

_POOLED = (
    "stands behind a pooler that mixes up prepared statements",
    "add prepared_statements=0 to the address, or set max_prepared_statements in PgBouncer 1.21 or newer",
)
# SQLSTATE -> what happened, what to do
_STATES = {
    "42501": (
        "refuses this role a right it needs",
        "as the role that owns the tables, run: millgate store migrate --role {user}",
    ),
    "25006": (
        "can only be read: it is a replica, or set to read only",
        "name the main server, and this one as replica=host:port",
    ),
    "53100": ("cannot grow: its disk is full", "free disk space; nothing of this write was kept"),
    "42P05": _POOLED,
    "26000": _POOLED,
    "42P01": ("lacks a table", "run: millgate store migrate"),
    "3F000": ("has no schema millgate", "run: millgate store migrate"),
}
# words in the message of a missing right -> what to do, if more is needed than to read and write rows
_RIGHTS = (
    ("must be owner", "run this with the address of the role that owns the tables"),
    ("create temporary tables", "as owner of the database: GRANT TEMPORARY ON DATABASE {dbname} TO {user}"),
    (
        "for database",
        "as owner of the database: GRANT CREATE ON DATABASE {dbname} TO {user}; or let another role make the tables:"
        " millgate store migrate --role {user}",
    ),
)  # fmt: skip
_BUSY = {
    "55P03": "was held by another writer for too long",
    "57014": "did not finish a statement in time",
    "40P01": "ended a deadlock between two writers",
    "40001": "ended a conflict between two writers",
    "53300": "has no connection left",
    "57P01": "is shutting down",
    "57P02": "is shutting down",
    "57P03": "is starting up",
}


def translate(address: Address, error: Error) -> MillgateError:
    """PostgreSQL's error as an error of ours."""
    here, state = str(address), error.sqlstate or ""
    said = address.without_password(" ".join(str(error).split()))
    if state in _BUSY:
        return NotReady(
            f"the store {here} {_BUSY[state]}: {said}", retry_after=1.0, hint="try again"
        )
    if state.startswith(
        "08"
    ):  # Citus says so of a worker; our own connection has no code when it breaks
        return NotReady(
            f"a server of the store {here} cannot be reached: {said}",
            retry_after=1.0,
            hint="try again; if it lasts, start the server that is named",
        )
    if state in _STATES:
        what, todo = _STATES[state]
        if state == "42501":
            todo = next((more for words, more in _RIGHTS if words in said), todo)
        return StoreError(f"the store {here} {what}: {said}", hint=todo.format_map(_names(address)))
    if state == "54000":
        return LimitError(
            f"the store {here} cannot index names that long: {said}",
            hint="tenant, collection and id together may have about 2,600 bytes",
        )
    if state.startswith("22"):
        return InputError(f"the store {here} cannot hold a value: {said}")
    if isinstance(error, errors.OperationalError | errors.InterfaceError) and not state:
        return NotReady(
            f"the connection to the store {here} was lost: {said}",
            retry_after=1.0,
            hint="try again",
        )
    return StoreError(
        f"the store {here} failed: {said}", hint="if it happens again, report it with this message"
    )


def translate_login(address: Address, error: Error) -> StoreError:
    """Why no connection could be made."""
    said = address.without_password(" ".join(str(error).split()))
    lower = said.lower()
    todo = next((todo for words, todo in _LOGIN if words in lower), "check the address")
    kind = NotReady if is_coming_back(error) else StoreError
    hint = todo.format_map(_names(address))
    return kind(f"the store {address} cannot be reached: {said}", hint=hint)


def is_coming_back(error: Error) -> bool:
    """Whether a login may succeed in a moment, as after a restart; a server that stops can end it half done."""
    said = str(error).lower()
    return error.sqlstate in _STOPPING or any(words in said for words in _COMING_BACK)


def refuse_old_server(address: Address, version: int) -> None:
    """Refuse a server that lacks what the store uses."""
    if version < 10_000 * OLDEST:
        raise StoreError(
            f"the store {address} is PostgreSQL {version // 10_000}; Millgate needs {OLDEST} or newer",
            hint="upgrade the server with pg_upgrade, or name another",
        )


def refuse_other_encoding(address: Address, encoding: str | None) -> None:
    """Refuse a database that cannot hold every text. An unknown encoding is that of a pooler which does not tell."""
    if encoding not in {None, "UTF8"}:
        raise StoreError(
            f"the database of the store {address} is {encoding}, which cannot hold every text; Millgate needs UTF8",
            hint="make one: CREATE DATABASE millgate ENCODING 'UTF8' TEMPLATE template0",
        )


def _names(address: Address) -> dict[str, str]:
    here = address.parameters
    return {"user": here.get("user", "millgate"), "dbname": here.get("dbname", "millgate")}
