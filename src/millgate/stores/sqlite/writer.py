"""CollectionWriter: changes one collection of the SQLite store, inside the caller's transaction.

Each document is compared row by row with what the store holds. Rows that differ are written under the next
numbers of the feed; rows that are gone are deleted, and their removal gets a number too. Sizes and counters come last.
`grown` is by how many bytes the collection has grown.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millgate.stores.chunk_rows import (
    Head,
    Row,
    compare,
    count_bytes,
    count_chars,
    from_row,
    own_part,
)
from millgate.stores.codec import encode
from millgate.stores.sqlite.rows import COLUMNS, HERE, LISTED
from millgate.stores.validate import DocumentsById, amend_documents, chunk_clash
from millgate.types import Chunk


@dataclass
class CollectionWriter:
    """Changes one collection of one tenant."""

    connection: sqlite3.Connection
    tenant: str
    collection: str
    grown: int = 0
    seq: int = field(init=False)
    place: int = field(init=False)
    _bytes: int = 0  # of growth that `sizes` does not have yet

    def __post_init__(self) -> None:
        self.connection.execute("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", (self.tenant,))
        self.seq, self.place = self.connection.execute(
            "SELECT seq, place FROM tenants WHERE tenant = ?", (self.tenant,)
        ).fetchone()

    def put(self, documents: DocumentsById) -> int:
        """Put every document in the place of its former version; how many chunks changed."""
        heads = {id: Head.of(document) for id, document in documents.items()}
        places, former_heads = self._existing_documents(documents)
        former = self._former(list(places.values()))
        new = compare(documents, heads, former)
        added = [id for id in documents if id not in places]
        for id in added:
            self.place += 1
            places[id] = self.place
        self._delete_chunks(new.stale)
        self._detach(new.outdated)
        self._insert_documents(documents, heads, former_heads, places)
        self._insert(new.changed, new.fresh, former, places, heads)
        moved = {id for id, head in former_heads.items() if head != heads[id]}
        if moved:
            kept = new.fresh.keys() - set(new.changed)
            rows = [new.fresh[id] for id in kept if new.fresh[id][1] in moved]
            self._store_own_parts(rows, heads)
        grown = len(new.fresh) - len(former)
        self._add_sizes(documents=len(added), chunks=grown, chars=new.chars)
        return len(new.stale) + len(new.changed)

    def amend(self, ids: Sequence[str], change: Callable[[Chunk], Chunk]) -> int:
        """Put what is made of stored chunks in their place; how many differ."""
        sql = f"SELECT DISTINCT document, 0 FROM chunks WHERE {HERE} AND id {LISTED}"
        owners = dict(self.connection.execute(sql, self._values(list(ids))))
        places, heads = self._existing_documents(owners)
        wanted = set(ids)
        former = {
            id: row for id, row in self._former(list(places.values())).items() if id in wanted
        }
        chunks = [from_row(self.collection, row) for row in former.values()]
        documents = amend_documents(self.tenant, self.collection, chunks, change)
        new = compare(documents, heads, former)
        self._detach(new.outdated)
        self._insert(new.changed, new.fresh, former, places, heads)
        self._add_sizes(documents=0, chunks=0, chars=new.chars)
        return len(new.changed)

    def clear_some(self, count: int) -> tuple[int, bool]:
        """Remove the first documents, about `count` chunks; how many went, and whether any are left."""
        here = (self.tenant, self.collection)
        bound = self.connection.execute(
            f"SELECT place FROM chunks WHERE {HERE} ORDER BY place, position LIMIT 1 OFFSET ?",
            (*here, count - 1),
        ).fetchone()
        if bound is None:
            return self._clear_rest(), False
        rows = self.connection.execute(
            f"SELECT id, chars, bytes FROM chunks WHERE {HERE} AND place <= ? ORDER BY place, position",
            (*here, *bound),
        ).fetchall()
        ids = [id for id, _, _ in rows]
        self._log_removals(ids)
        self._detach(ids)
        self.connection.execute(f"DELETE FROM chunks WHERE {HERE} AND place <= ?", (*here, *bound))
        documents = self._delete_documents("place <= ?", (*here, *bound))
        chars = sum(chars for _, chars, _ in rows)
        self._bytes -= sum(count for _, _, count in rows)
        self._add_sizes(documents=-documents, chunks=-len(ids), chars=-chars)
        return len(ids), True

    def _clear_rest(self) -> int:
        """Empty the collection; how many chunks it had."""
        here = (self.tenant, self.collection)
        ids = [id for (id,) in self.connection.execute(
            f"SELECT id FROM chunks WHERE {HERE} ORDER BY place, position", here
        )]  # fmt: skip
        self._log_removals(ids)
        for table in ("chunks", "documents", "attachments", "sizes"):
            self.connection.execute(f"DELETE FROM {table} WHERE {HERE}", here)
        self._save_counters()
        return len(ids)

    def remove_documents(self, documents: Sequence[str]) -> int:
        """Remove documents with all they hold; how many chunks went."""
        places = self.connection.execute(
            f"SELECT place FROM documents WHERE {HERE} AND id {LISTED}", self._values(documents)
        ).fetchall()
        former = self._former([place for (place,) in places])
        self._delete_chunks(list(former))
        self._delete_documents(f"id {LISTED}", self._values(documents))
        self._add_sizes(documents=-len(places), chunks=-len(former), chars=-count_chars(former))
        return len(former)

    def remove_chunks(self, chunks: Sequence[str]) -> int:
        """Remove chunks from their documents; the last one takes its document along."""
        rows = self.connection.execute(
            f"SELECT id, document, chars FROM chunks WHERE {HERE} AND id {LISTED}",
            self._values(chunks),
        ).fetchall()
        if not rows:
            return 0
        order = {id: n for n, id in enumerate(dict.fromkeys(chunks))}
        self._delete_chunks(sorted((id for id, _, _ in rows), key=order.__getitem__))
        touched = self._values(list({document for _, document, _ in rows}))
        emptied = self._delete_documents(
            f"id {LISTED} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.tenant = documents.tenant"
            " AND c.collection = documents.collection AND c.place = documents.place)",
            touched,
        )
        self.connection.execute(
            f"UPDATE documents SET digest = '' WHERE {HERE} AND id {LISTED}", touched
        )
        chars = sum(count for _, _, count in rows)
        self._add_sizes(documents=-emptied, chunks=-len(rows), chars=-chars)
        return len(rows)

    def _values(self, ids: Sequence[str]) -> tuple[str, str, str]:
        return self.tenant, self.collection, encode(ids)

    def _existing_documents(
        self, documents: Iterable[str]
    ) -> tuple[dict[str, int], dict[str, Head]]:
        """The place in reading order and the head of each of these documents that is stored already."""
        rows = self.connection.execute(
            f"SELECT id, place, title, metadata FROM documents WHERE {HERE} AND id {LISTED}",
            self._values(list(documents)),
        ).fetchall()
        return {row[0]: row[1] for row in rows}, {row[0]: Head(*row[2:]) for row in rows}

    def _former(self, places: Sequence[int]) -> dict[str, Row]:
        """The stored rows of the chunks at these places, by id."""
        if not places:
            return {}
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM chunks WHERE {HERE} AND place {LISTED} ORDER BY place, position",
            (self.tenant, self.collection, encode(places)),
        )
        return {row[0]: row for row in rows}

    def _insert_documents(
        self,
        documents: DocumentsById,
        heads: Mapping[str, Head],
        former: Mapping[str, Head],
        places: Mapping[str, int],
    ) -> None:
        self._bytes += sum(count_bytes(id, *head) for id, head in heads.items())
        self._bytes -= sum(count_bytes(id, *head) for id, head in former.items())
        self.connection.executemany(
            "REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (self.tenant, self.collection, d.id, places[d.id], d.title, d.digest, d.source,
                 heads[d.id].metadata)
                for d in documents.values()
            ),
        )  # fmt: skip

    def _delete_documents(self, which: str, values: Sequence[object]) -> int:
        """Delete the documents of this collection that a condition picks; how many went."""
        sizes = self.connection.execute(
            f"DELETE FROM documents WHERE {HERE} AND {which}"
            " RETURNING length(CAST(id || title || metadata AS BLOB))",
            values,
        ).fetchall()
        self._bytes -= sum(size for (size,) in sizes)
        return len(sizes)

    def _insert(
        self,
        ids: Sequence[str],
        fresh: Mapping[str, Row],
        former: Mapping[str, Row],
        places: Mapping[str, int],
        heads: Mapping[str, Head],
    ) -> None:
        """Write the chunks that are new or differ, each under the next number of the feed."""
        renewed = [id for id in ids if id in former]
        self._delete_chunk_rows(renewed)
        self._unlog_removals([id for id in ids if id not in former])

        def rows() -> Iterator[Row]:  # one at a time: a document may have a hundred thousand
            for id in ids:
                self.seq += 1
                row = fresh[id]
                _, document, position, source, _, _, admission, text = row
                title, data, size = own_part(row, heads[document])
                self._bytes += size
                yield (self.tenant, self.collection, id, document, places[document], position,
                       self.seq, len(text), size, source, title, data, admission, text)  # fmt: skip

        try:
            self.connection.executemany(
                "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows()
            )
        except sqlite3.IntegrityError:
            self._refuse_clash(fresh)
            raise

    def _store_own_parts(self, rows: Sequence[Row], heads: Mapping[str, Head]) -> None:
        """Store again what chunks do not share with their document, whose head has changed; to readers they are the
        same.
        """
        ids = [row[0] for row in rows]
        self._bytes -= self._chunk_bytes(ids)
        self.connection.executemany(
            f"UPDATE chunks SET title = ?, metadata = ?, bytes = ? WHERE {HERE} AND id = ?",
            ((*own_part(row, heads[row[1]]), self.tenant, self.collection, row[0]) for row in rows),
        )
        self._bytes += self._chunk_bytes(ids)

    def _chunk_bytes(self, ids: Sequence[str]) -> int:
        (total,) = self.connection.execute(
            f"SELECT coalesce(sum(bytes), 0) FROM chunks WHERE {HERE} AND id {LISTED}",
            self._values(ids),
        ).fetchone()
        return int(total)

    def _refuse_clash(self, fresh: Mapping[str, Row]) -> None:
        owners = self.connection.execute(
            f"SELECT id, document FROM chunks WHERE {HERE} AND id {LISTED}",
            self._values(list(fresh)),
        )
        for id, owner in owners:
            if owner != fresh[id][1]:
                raise chunk_clash(self.collection, id, owner, fresh[id][1]) from None

    def _delete_chunks(self, ids: Sequence[str]) -> None:
        self._log_removals(ids)
        self._detach(ids)
        self._delete_chunk_rows(ids)

    def _delete_chunk_rows(self, ids: Sequence[str]) -> None:
        if ids:
            self._bytes -= self._chunk_bytes(ids)
            self._delete("chunks", ids)

    def _detach(self, ids: Sequence[str]) -> None:
        self._delete("attachments", ids)

    def _delete(self, table: str, ids: Sequence[str]) -> None:
        if ids:
            self.connection.execute(
                f"DELETE FROM {table} WHERE {HERE} AND id {LISTED}", self._values(ids)
            )

    def _log_removals(self, ids: Sequence[str]) -> None:
        rows = []
        for id in ids:
            self.seq += 1
            rows.append((self.tenant, self.collection, id, self.seq))
        self.connection.executemany("REPLACE INTO removed VALUES (?, ?, ?, ?)", rows)

    def _unlog_removals(self, ids: Sequence[str]) -> None:
        """Take back the removal of ids that are here again; free while nothing was ever removed."""
        here = (self.tenant, self.collection)
        sql = f"SELECT 1 FROM removed WHERE {HERE} LIMIT 1"
        if self.connection.execute(sql, here).fetchone():
            self._delete("removed", ids)

    def _add_sizes(self, *, documents: int, chunks: int, chars: int) -> None:
        self.connection.execute(
            "INSERT INTO sizes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, collection) DO UPDATE SET"
            " documents = documents + excluded.documents, chunks = chunks + excluded.chunks,"
            " chars = chars + excluded.chars, bytes = bytes + excluded.bytes",
            (self.tenant, self.collection, documents, chunks, chars, self._bytes),
        )
        self.grown += self._bytes
        self._bytes = 0
        self._save_counters()

    def _save_counters(self) -> None:
        self.connection.execute(
            "UPDATE tenants SET seq = ?, place = ? WHERE tenant = ?",
            (self.seq, self.place, self.tenant),
        )
