"""CollectionWriter: changes one collection of the PostgreSQL store, inside the caller's transaction.

It locks the collection's row first, so numbers are visible in their order. Rows that differ from what the store holds
are written under the next numbers of the feed; rows that are gone are deleted, and their removal gets a number too.
`grown` is by how many bytes the collection has grown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millgate.stores.chunk_rows import Head, Row, compare, count_bytes, count_chars, from_row
from millgate.stores.postgres.rows import COLUMNS, HERE, Link, fetch_one, insert_rows
from millgate.stores.validate import DocumentsById, amend_documents, chunk_clash
from millgate.types import Chunk

_LISTED = f"{HERE} AND id = ANY(%s)"
_EMPTY = """
id = ANY(%s) AND NOT EXISTS (SELECT 1 FROM millgate.chunks c WHERE c.tenant = documents.tenant
AND c.collection = documents.collection AND c.place = documents.place)
"""


@dataclass
class CollectionWriter:
    """Changes one collection of one tenant."""

    connection: Link
    tenant: str
    collection: str
    grown: int = 0
    seq: int = field(init=False)
    place: int = field(init=False)
    _bytes: int = 0  # of growth that the collection's row does not have yet

    def __post_init__(self) -> None:
        here = (self.tenant, self.collection)
        with self.connection.pipeline():
            self.connection.execute(
                "INSERT INTO millgate.collections (tenant, collection) VALUES (%s, %s)"
                " ON CONFLICT DO NOTHING",
                here,
            )
            self.seq, self.place = fetch_one(
                self.connection,
                f"SELECT seq, place FROM millgate.collections WHERE {HERE} FOR UPDATE",
                here,
            )

    def put(self, documents: DocumentsById) -> int:
        """Put every document in the place of its former self; how many chunks changed."""
        places = self._places(documents)
        former = self._former(list(places.values()))
        heads = {id: Head.of(document) for id, document in documents.items()}
        new = compare(documents, heads, former)
        added = [id for id in documents if id not in places]
        for id in added:
            self.place += 1
            places[id] = self.place
        self._delete_chunks(new.stale)
        self._refuse_clash([id for id in new.changed if id not in former], new.fresh)
        self._delete("attachments", new.outdated)
        self._insert_documents(documents, heads, places)
        self._insert(new.changed, new.fresh, former, places)
        grown = len(new.fresh) - len(former)
        self._add_sizes(documents=len(added), chunks=grown, chars=new.chars)
        return len(new.stale) + len(new.changed)

    def amend(self, ids: Sequence[str], change: Callable[[Chunk], Chunk]) -> int:
        """Put what is made of stored chunks in their place; how many differ."""
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM millgate.chunks WHERE {_LISTED} ORDER BY place, position",
            (*self._here, list(ids)),
        )
        former = {row[0]: row for row in rows}
        chunks = [from_row(self.collection, row) for row in former.values()]
        documents = amend_documents(self.tenant, self.collection, chunks, change)
        heads = {id: Head.of(document) for id, document in documents.items()}
        new = compare(documents, heads, former)
        self._delete("attachments", new.outdated)
        self._insert(new.changed, new.fresh, former, self._places(documents))
        self._add_sizes(documents=0, chunks=0, chars=new.chars)
        return len(new.changed)

    def clear_some(self, count: int) -> tuple[int, bool]:
        """Remove the first documents, of about `count` chunks; how many chunks went, and whether any are left."""
        bound = self.connection.execute(
            f"SELECT place FROM millgate.chunks WHERE {HERE} ORDER BY place, position LIMIT 1 OFFSET %s",
            (*self._here, count - 1),
        ).fetchone()
        last = bound[0] if bound else self.place
        rows = self.connection.execute(
            f"SELECT id, chars FROM millgate.chunks WHERE {HERE} AND place <= %s ORDER BY place, position",
            (*self._here, last),
        ).fetchall()
        ids = [id for id, _ in rows]
        self._log_removals(ids)
        self._delete("attachments", ids)
        self._delete_counted("chunks", "place <= %s", last)
        documents = self._delete_counted("documents", "place <= %s", last)
        chars = sum(chars for _, chars in rows)
        self._add_sizes(documents=-documents, chunks=-len(ids), chars=-chars)
        return len(ids), bound is not None

    def remove_documents(self, documents: Sequence[str]) -> int:
        """Remove documents with all they hold; how many chunks went."""
        places = list(self._places(documents).values())
        former = self._former(places)
        self._delete_chunks(list(former))
        self._delete_counted("documents", "id = ANY(%s)", list(documents))
        self._add_sizes(documents=-len(places), chunks=-len(former), chars=-count_chars(former))
        return len(former)

    def remove_chunks(self, chunks: Sequence[str]) -> int:
        """Remove chunks out of their documents; the last one takes its document along."""
        rows = self.connection.execute(
            f"SELECT id, document, chars FROM millgate.chunks WHERE {_LISTED}",
            (*self._here, list(chunks)),
        ).fetchall()
        if not rows:
            return 0
        order = {id: n for n, id in enumerate(dict.fromkeys(chunks))}
        self._delete_chunks(sorted((id for id, _, _ in rows), key=order.__getitem__))
        touched = list({document for _, document, _ in rows})
        emptied = self._delete_counted("documents", _EMPTY, touched)
        self.connection.execute(
            f"UPDATE millgate.documents SET digest = '' WHERE {_LISTED}", (*self._here, touched)
        )
        chars = sum(count for _, _, count in rows)
        self._add_sizes(documents=-emptied, chunks=-len(rows), chars=-chars)
        return len(rows)

    @property
    def _here(self) -> tuple[str, str]:
        return self.tenant, self.collection

    def _places(self, documents: Iterable[str]) -> dict[str, int]:
        """The place in reading order of each of these documents that is stored already."""
        held = self.connection.execute(
            f"SELECT id, place FROM millgate.documents WHERE {_LISTED}",
            (*self._here, list(documents)),
        )
        return dict(held.fetchall())

    def _former(self, places: Sequence[int]) -> dict[str, Row]:
        """The stored rows of the chunks at these places, by id."""
        if not places:
            return {}
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM millgate.chunks WHERE {HERE} AND place = ANY(%s)"
            " ORDER BY place, position",
            (*self._here, list(places)),
        )
        return {row[0]: row for row in rows}

    def _insert_documents(
        self, documents: DocumentsById, heads: Mapping[str, Head], places: Mapping[str, int]
    ) -> None:
        self._delete_counted("documents", "id = ANY(%s)", list(documents))
        rows = [
            (*self._here, d.id, places[d.id], count_bytes(d.id, *heads[d.id]),
             d.title, d.digest, d.source, heads[d.id].metadata)
            for d in documents.values()
        ]  # fmt: skip
        self._bytes += sum(row[4] for row in rows)
        insert_rows(self.connection, "documents", rows)

    def _insert(
        self,
        ids: Sequence[str],
        fresh: Mapping[str, Row],
        former: Mapping[str, Row],
        places: Mapping[str, int],
    ) -> None:
        """Write the chunks that are new or differ, each under the next number of the feed."""
        self._delete_counted("chunks", "id = ANY(%s)", [id for id in ids if id in former])
        self._delete("removed", [id for id in ids if id not in former])
        rows: list[Row] = []
        for id in ids:
            self.seq += 1
            _, document, position, source, title, data, admission, text = fresh[id]
            size = count_bytes(id, title, data, text)
            self._bytes += size
            rows.append((*self._here, id, document, places[document], position,
                         self.seq, len(text), size, source, title, data, admission, text))  # fmt: skip
        insert_rows(self.connection, "chunks", rows)

    def _refuse_clash(self, ids: Sequence[str], fresh: Mapping[str, Row]) -> None:
        """Refuse ids that chunks of other documents have; those of this put were looked up by document."""
        owners = self.connection.execute(
            f"SELECT id, document FROM millgate.chunks WHERE {_LISTED}", (*self._here, list(ids))
        )
        for id, owner in owners:
            raise chunk_clash(self.collection, id, owner, fresh[id][1])

    def _delete_chunks(self, ids: Sequence[str]) -> None:
        self._log_removals(ids)
        self._delete("attachments", ids)
        self._delete_counted("chunks", "id = ANY(%s)", list(ids))

    def _delete_counted(self, table: str, which: str, value: list[str] | int) -> int:
        """Delete the documents or chunks that a condition picks; how many went."""
        if not value:
            return 0
        count, size = fetch_one(
            self.connection,
            f"WITH gone AS (DELETE FROM millgate.{table} WHERE {HERE} AND {which} RETURNING bytes)"
            " SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
            (*self._here, value),
        )
        self._bytes -= size
        return int(count)

    def _delete(self, table: str, ids: Sequence[str]) -> None:
        if ids:
            self.connection.execute(
                f"DELETE FROM millgate.{table} WHERE {_LISTED}", (*self._here, list(ids))
            )

    def _log_removals(self, ids: Sequence[str]) -> None:
        first = self.seq + 1
        self.seq += len(ids)
        insert_rows(
            self.connection,
            "removed",
            [(*self._here, id, seq) for seq, id in enumerate(ids, first)],
            on_conflict="ON CONFLICT (tenant, collection, id) DO UPDATE SET seq = excluded.seq",
        )

    def _add_sizes(self, *, documents: int, chunks: int, chars: int) -> None:
        self.connection.execute(
            "UPDATE millgate.collections SET documents = documents + %s, chunks = chunks + %s,"
            f" chars = chars + %s, bytes = bytes + %s, seq = %s, place = %s WHERE {HERE}",
            (documents, chunks, chars, self._bytes, self.seq, self.place, *self._here),
        )
        self.grown += self._bytes
        self._bytes = 0
