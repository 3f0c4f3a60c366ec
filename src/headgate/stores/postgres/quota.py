"""Quota: how much one tenant may hold in the PostgreSQL store.

Counted is what a caller sent: ids, titles, metadata and texts of documents, facts and edges, as UTF-8. The check ends a
write, inside its transaction. Two writers may pass it together, so a tenant can exceed its limit by one write.
"""

from headgate.errors import QuotaError
from headgate.stores.postgres.rows import Link, fetch_one

FACTS, EDGES = "fact bytes", "edge bytes"

_USED = """
SELECT (SELECT coalesce(sum(bytes), 0) FROM headgate.collections WHERE tenant = %s)
  + (SELECT coalesce(sum(value), 0) FROM headgate.counters WHERE tenant = %s AND name = ANY(%s))
"""


def used_bytes(connection: Link, tenant: str) -> int:
    """How much a tenant holds."""
    (used,) = fetch_one(connection, _USED, (tenant, tenant, [FACTS, EDGES]))
    return int(used)


def check_quota(connection: Link, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back."""
    if limit is not None and (used := used_bytes(connection, tenant)) > limit:
        raise QuotaError(
            f"the tenant {tenant!r} would hold {used:,} bytes; limits.tenant_bytes allows {limit:,}",
            hint="remove something first, or raise limits.tenant_bytes; nothing of this write was kept",
        )
