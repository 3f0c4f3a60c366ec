"""Export and import: what people wrote, as JSON lines that any program can read.

One line a record: {"kind": "document" | "edge" | "fact" | "review", "tenant": ..., ...}. Documents come with their
chunks. Secrets, API keys and traces are left out, and what is derived is made anew. An export is one moment of the
store.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from millgate.errors import InputError, MillgateError
from millgate.knowledge.trust import check_trust
from millgate.operations.copy import WholeStore
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
    batch: list[tuple[str, str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        owner, kind, value = _parse(line, number)
        batch.append((tenant or owner, kind, value))
        counts[kind] = counts.get(kind, 0) + 1
        if len(batch) == _BATCH:
            _write(store, batch)
            batch = []
    _write(store, batch)
    return counts


_KINDS: Mapping[str, type] = {"document": Document, "edge": Edge, "fact": Fact, "review": Review}


def _parse(line: str | bytes, number: int) -> tuple[str, str, Any]:
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


def _write(store: Store, batch: list[tuple[str, str, Any]]) -> None:
    for tenant in dict.fromkeys(owner for owner, _, _ in batch):
        mine = [(kind, value) for owner, kind, value in batch if owner == tenant]
        _put_documents(store, tenant, [value for kind, value in mine if kind == "document"])
        store.link(tenant, [value for kind, value in mine if kind == "edge"])
        for kind, value in mine:
            if kind == "fact":
                store.save_fact(tenant, value)
            elif kind == "review" and store.review(tenant, value.id) is None:
                store.save_review(tenant, value)


def _put_documents(store: Store, tenant: str, documents: list[Document]) -> None:
    store.put(tenant, [replace(d, chunks=tuple(d.chunks)) for d in documents])
