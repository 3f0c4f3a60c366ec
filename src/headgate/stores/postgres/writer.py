"""CollectionWriter: changes one collection of the PostgreSQL store, inside the caller's transaction.

It locks the collection's row first: its numbers are given out by one writer at a time and are visible in their order.
Each document is compared row by row with what the store holds. Rows that differ are written under the next
numbers of the feed; rows that are gone are deleted, and their removal gets a number too. Sizes and counters come last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.stores.chunk_rows import COLUMNS, Row, count_chars, title_and_text, to_row
from headgate.stores.codec import encode
from headgate.stores.postgres.rows import HERE, Link, fetch_one, insert_rows
from headgate.stores.validate import DocumentsById, chunk_clash

_LISTED = f"{HERE} AND id = ANY(%s)"


@dataclass
class CollectionWriter:
    """Changes one collection of one tenant."""

    connection: Link
    tenant: str
    collection: str
    seq: int = field(init=False)
    place: int = field(init=False)

    def __post_init__(self) -> None:
        here = (self.tenant, self.collection)
        with self.connection.pipeline():
            self.connection.execute(
                "INSERT INTO headgate.collections (tenant, collection) VALUES (%s, %s)"
                " ON CONFLICT DO NOTHING",
                here,
            )
            self.seq, self.place = fetch_one(
                self.connection,
                f"SELECT seq, place FROM headgate.collections WHERE {HERE} FOR UPDATE",
                here,
            )

    def put(self, documents: DocumentsById) -> int:
        """Put every document in the place of its former self; how many chunks changed."""
        places = self._places(documents)
        former = self._former([place for place in places.values() if place])
        fresh = {c.id: to_row(c) for d in documents.values() for c in d.chunks}
        stale = [id for id in former if id not in fresh]
        added = [id for id, place in places.items() if not place]
        for id in added:
            self.place += 1
            places[id] = self.place
        self._delete_chunks(stale)
        changed = [id for id, row in fresh.items() if former.get(id) != row]
        self._refuse_clash([id for id in changed if id not in former], fresh)
        self._detach(
            [
                id
                for id in changed
                if id in former and title_and_text(former[id]) != title_and_text(fresh[id])
            ]
        )
        self._insert_documents(documents, places)
        self._insert(changed, fresh, former, places)
        self._add_sizes(
            documents=len(added),
            chunks=len(fresh) - len(former),
            chars=count_chars(fresh) - count_chars(former),
        )
        return len(stale) + len(changed)

    def clear_some(self, count: int) -> tuple[int, bool]:
        """Remove the first documents, of about `count` chunks; how many chunks went, and whether any are left."""
        bound = self.connection.execute(
            f"SELECT place FROM headgate.chunks WHERE {HERE} ORDER BY place, position LIMIT 1 OFFSET %s",
            (*self._here, count - 1),
        ).fetchone()
        last = bound[0] if bound else self.place
        rows = self.connection.execute(
            f"SELECT id, chars FROM headgate.chunks WHERE {HERE} AND place <= %s ORDER BY place, position",
            (*self._here, last),
        ).fetchall()
        ids = [id for id, _ in rows]
        self._log_removals(ids)
        self._detach(ids)
        gone = (*self._here, last)
        self.connection.execute(f"DELETE FROM headgate.chunks WHERE {HERE} AND place <= %s", gone)
        documents = self.connection.execute(
            f"DELETE FROM headgate.documents WHERE {HERE} AND place <= %s", gone
        ).rowcount
        chars = sum(chars for _, chars in rows)
        self._add_sizes(documents=-documents, chunks=-len(ids), chars=-chars)
        return len(ids), bound is not None

    def remove_documents(self, documents: Sequence[str]) -> int:
        """Remove documents with all they hold; how many chunks went."""
        places = self.connection.execute(
            f"DELETE FROM headgate.documents WHERE {_LISTED} RETURNING place",
            (*self._here, list(documents)),
        ).fetchall()
        former = self._former([place for (place,) in places])
        self._delete_chunks(list(former))
        self._add_sizes(documents=-len(places), chunks=-len(former), chars=-count_chars(former))
        return len(former)

    def remove_chunks(self, chunks: Sequence[str]) -> int:
        """Remove chunks out of their documents; the last one takes its document along."""
        rows = self.connection.execute(
            f"SELECT id, document, chars FROM headgate.chunks WHERE {_LISTED}",
            (*self._here, list(chunks)),
        ).fetchall()
        if not rows:
            return 0
        order = {id: n for n, id in enumerate(dict.fromkeys(chunks))}
        self._delete_chunks(sorted((id for id, _, _ in rows), key=order.__getitem__))
        touched = (*self._here, list({document for _, document, _ in rows}))
        emptied = self.connection.execute(
            f"DELETE FROM headgate.documents d WHERE {_LISTED} AND NOT EXISTS"
            " (SELECT 1 FROM headgate.chunks c WHERE c.tenant = d.tenant"
            " AND c.collection = d.collection AND c.place = d.place)",
            touched,
        ).rowcount
        self.connection.execute(
            f"UPDATE headgate.documents SET digest = '' WHERE {_LISTED}", touched
        )
        chars = sum(count for _, _, count in rows)
        self._add_sizes(documents=-emptied, chunks=-len(rows), chars=-chars)
        return len(rows)

    @property
    def _here(self) -> tuple[str, str]:
        return self.tenant, self.collection

    def _places(self, documents: DocumentsById) -> dict[str, int]:
        """The place of each document in reading order; 0 for one that is new."""
        held = self.connection.execute(
            f"SELECT id, place FROM headgate.documents WHERE {_LISTED}",
            (*self._here, list(documents)),
        )
        return dict.fromkeys(documents, 0) | dict(held.fetchall())

    def _former(self, places: Sequence[int]) -> dict[str, Row]:
        """The rows of the chunks at these places, by id."""
        if not places:
            return {}
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM headgate.chunks WHERE {HERE} AND place = ANY(%s)"
            " ORDER BY place, position",
            (*self._here, list(places)),
        )
        return {row[0]: row for row in rows}

    def _insert_documents(self, documents: DocumentsById, places: Mapping[str, int]) -> None:
        self._delete("documents", list(documents))
        insert_rows(self.connection, "documents", [
            (*self._here, d.id, places[d.id], d.title, d.digest, d.source,
             encode(d.metadata) if d.metadata else "")
            for d in documents.values()
        ])  # fmt: skip

    def _insert(
        self,
        ids: Sequence[str],
        fresh: Mapping[str, Row],
        former: Mapping[str, Row],
        places: Mapping[str, int],
    ) -> None:
        """Write the chunks that are new or differ, each under the next number of the feed."""
        self._delete("chunks", [id for id in ids if id in former])
        self._delete("removed", [id for id in ids if id not in former])
        rows: list[Row] = []
        for id in ids:
            self.seq += 1
            _, document, position, source, title, data, admission, text = fresh[id]
            rows.append((*self._here, id, document, places[document], position,
                         self.seq, len(text), source, title, data, admission, text))  # fmt: skip
        insert_rows(self.connection, "chunks", rows)

    def _refuse_clash(self, ids: Sequence[str], fresh: Mapping[str, Row]) -> None:
        """Refuse ids that chunks of other documents have; those of this put were looked up by document."""
        owners = self.connection.execute(
            f"SELECT id, document FROM headgate.chunks WHERE {_LISTED}", (*self._here, list(ids))
        )
        for id, owner in owners:
            raise chunk_clash(self.collection, id, owner, fresh[id][1])

    def _delete_chunks(self, ids: Sequence[str]) -> None:
        self._log_removals(ids)
        self._detach(ids)
        self._delete("chunks", ids)

    def _detach(self, ids: Sequence[str]) -> None:
        self._delete("attachments", ids)

    def _delete(self, table: str, ids: Sequence[str]) -> None:
        if ids:
            self.connection.execute(
                f"DELETE FROM headgate.{table} WHERE {_LISTED}", (*self._here, list(ids))
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
            "UPDATE headgate.collections SET documents = documents + %s, chunks = chunks + %s,"
            f" chars = chars + %s, seq = %s, place = %s WHERE {HERE}",
            (documents, chunks, chars, self.seq, self.place, *self._here),
        )
