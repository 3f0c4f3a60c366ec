"""KnownTenants: the list of tenants, which operations on a whole store go through."""

from headgate.stores.postgres.connection import Pool
from headgate.stores.validate import check_name


class KnownTenants:
    """The table `tenants`. A process writes each name once and remembers that it did."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._seen: set[str] = set()

    def add(self, tenant: str) -> None:
        """Let the list hold a tenant."""
        check_name("tenant", tenant)
        if tenant in self._seen:
            return
        with self._pool.write(tenant) as connection:
            connection.execute(
                "INSERT INTO headgate.tenants VALUES (%s) ON CONFLICT DO NOTHING", (tenant,)
            )
        self._seen.add(tenant)

    def names(self) -> list[str]:
        """Every tenant that ever wrote anything."""
        with self._pool.directory() as connection:
            rows = connection.execute("SELECT tenant FROM headgate.tenants ORDER BY tenant")
            return [name for (name,) in rows.fetchall()]
