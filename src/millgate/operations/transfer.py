"""Export and import: what people wrote, as JSON lines that any program can read.

One line a record: {"kind": "document" | "edge" | "fact" | "review", "tenant": ..., ...}. Documents come with their
chunks. Secrets, API keys and traces are left out, and what is derived is made anew. An export is one moment of the
store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from millgate.errors import InputError, MillgateError
from millgate.knowledge.facts import check_trust
from millgate.operations.copy import Item, WholeStore, write_records
from millgate.protocols import Store
from millgate.stores.codec import decode, encode
from millgate.text.bounded_json import describe_json_error
from millgate.types import Document, Edge, Fact, Review

_BATCH = 500  # records written in one transaction


def export_lines(store: WholeStore, *, tenant: str | None = None) -> Iterator[str]:
    """The records of a store, or of one tenant of it, as lines without line ends."""
    for owner, kind, value in store.records(tenant):
        yield orjson.dumps({"kind": kind, "tenant": owner, "value": orjson.loads(encode(value))}).decode()  # fmt: skip


def import_lines(
    store: Store, lines: Iterable[str | bytes], *, tenant: str | None = None
) -> dict[str, int]:
    """Add exported records to a store, under their own tenants or all under one; how many of each kind.

    A document replaces the one of its id, a fact that is known stays as it is. A bad line raises an error with its
    number; the batches before it are written.
    """
    counts: dict[str, int] = {}
    batch: dict[str, list[Item]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        owner, kind, value = _parse(line, number)
        batch.setdefault(tenant or owner, []).append(value)
        counts[kind] = counts.get(kind, 0) + 1
        if sum(map(len, batch.values())) == _BATCH:
            _write(store, batch)
            batch = {}
    _write(store, batch)
    return counts


_KINDS: Mapping[str, type] = {"document": Document, "edge": Edge, "fact": Fact, "review": Review}


def _parse(line: str | bytes, number: int) -> tuple[str, str, Item]:
    hint = "a line is what `millgate store export` wrote"
    try:
        record = orjson.loads(line)
        kind, owner = record["kind"], record["tenant"]
        value: Any = decode(_KINDS[kind], orjson.dumps(record["value"]))
        if isinstance(value, Fact):
            check_trust(value.trust)
    except orjson.JSONDecodeError as error:
        reason = describe_json_error(error)
        raise InputError(f"line {number} is not JSON: {reason}", hint=hint) from error
    except (ValueError, KeyError, TypeError, MillgateError) as error:
        raise InputError(f"line {number} cannot be imported: {error}", hint=hint) from error
    return str(owner), kind, value


def _write(store: Store, batch: Mapping[str, Sequence[Item]]) -> None:
    for tenant, records in batch.items():
        store.put(tenant, [one for one in records if isinstance(one, Document)])
        write_records(store, tenant, records)
