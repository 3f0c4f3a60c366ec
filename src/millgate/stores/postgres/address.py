"""Address: what a store's URL says, and what may be shown of it.

`postgresql://user:password@host:5432/database?replica=other:5432&max_staleness_s=2`. The options named in OPTIONS are
ours; all others go to libpq as they are. The password is in no message, repr or log line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict

from millgate.errors import ConfigError

_HINT = (
    "write postgresql://user:password@host:5432/database, with special characters of the password"
    " percent-encoded; or leave it out and set PGPASSWORD"
)
# libpq waits for ever for a server that does not answer, unless these say otherwise
_PATIENCE = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "millgate",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a PostgreSQL store is, and how this process uses it."""

    parameters: Mapping[str, Any] = field(repr=False)
    """What libpq is given; it may hold the password."""
    replicas: tuple[str, ...] = ()
    """Servers that follow the main one, as host or host:port."""
    max_staleness_s: float = 1.0
    """How far a replica may be behind and still be read."""
    pool_size: int = 16
    timeout_s: float = 30.0
    """How long a statement, or a wait for a connection or a lock, may take."""
    prepared_statements: int = 1
    """0 for a pooler that does not know them, as PgBouncer before 1.21 in transaction mode."""
    cache: Path | None = None
    """The folder of the indexes."""

    def __str__(self) -> str:
        here = self.parameters
        user = f"{here['user']}@" if "user" in here else ""
        port = f":{here['port']}" if "port" in here else ""
        return f"postgresql://{user}{here.get('host', '')}{port}/{here.get('dbname', '')}"

    def without_password(self, text: str) -> str:
        """The text with the password taken out, wherever it came from."""
        secret = self.parameters.get("password")
        return text.replace(str(secret), "***") if secret else text

    def at_replica(self, replica: str) -> dict[str, Any]:
        """What libpq is given to reach a replica: the same but for host and port."""
        host, _, port = replica.rpartition(":") if ":" in replica else (replica, "", "")
        own = {"host": host} | ({"port": port} if port else {})
        return {k: v for k, v in self.parameters.items() if k != "hostaddr"} | own


def parse_address(url: str) -> Address:
    """The address that a URL gives; ConfigError says what is wrong with it."""
    place, _, query = url.partition("?")
    try:
        pairs = parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True)
    except ValueError:
        raise ConfigError("the options of the store address cannot be read", hint=_HINT) from None
    own: dict[str, Any] = {"replicas": tuple(v for k, v in pairs if k == "replica" and v)}
    for name, value in pairs:
        if name in OPTIONS:
            own[name] = _read_option(name, value)
    theirs = [(k, v) for k, v in pairs if k not in OPTIONS and k != "replica"]
    if place.count("@") > 1:  # libpq would take a part of the password for the host, and show it
        raise ConfigError("the store address holds more than one @", hint=_HINT)
    try:
        # libpq takes + for a plus, so a space is %20
        rest = f"?{urlencode(theirs, quote_via=quote)}" if theirs else ""
        found = conninfo_to_dict(f"{place}{rest}")
    except (Error, UnicodeError):  # libpq's own words may quote a part of the password
        names = ", ".join(k for k, _ in theirs)
        about = f", or one of its options ({names}) is unknown" if names else ""
        raise ConfigError(f"the store address cannot be read{about}", hint=_HINT) from None
    if any(port and not port.isdecimal() for port in str(found.get("port", "")).split(",")):
        raise ConfigError("the port in the store address is not a number", hint=_HINT)
    return Address(_PATIENCE | found, **own)


def _read_option(name: str, value: str) -> object:
    read, least, most = OPTIONS[name]
    if read is Path:
        return Path(value).expanduser()
    try:
        number = read(value)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise ConfigError(
            f"{name} of the store address is {value!r}; it must be a number from {least} to {most}"
        )
    return number


OPTIONS: Mapping[str, tuple[Callable[[str], Any], float, float]] = {
    "max_staleness_s": (float, 0.0, 3600.0),
    "pool_size": (int, 2, 1000),
    "timeout_s": (float, 0.1, 3600.0),
    "prepared_statements": (int, 0, 1),
    "cache": (Path, 0, 0),
}
