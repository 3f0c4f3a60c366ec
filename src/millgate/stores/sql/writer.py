"""CollectionWriter: changes one collection, inside the caller's transaction.

It locks the collection's row first, so numbers of the feed are visible in their order. Each document is compared row by
row with what the store holds. Rows that differ are written under the next numbers; rows that are gone are deleted, and
their removal gets a number too. Sizes and counters come last. `grown` is by how many bytes the collection has grown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millgate.stores.chunk_rows import (
    Row,
    compare,
    count_bytes,
    count_chars,
    encode_metadata,
    from_row,
)
from millgate.stores.sql.database import COLUMNS, HERE, LISTED, Link, fetch_one
from millgate.stores.validate import DocumentsById, amend_documents, chunk_clash
from millgate.types import Chunk

_OPEN = """
INSERT INTO millgate.collections AS c (tenant, collection) VALUES (?, ?)
ON CONFLICT (tenant, collection) DO UPDATE SET seq = c.seq RETURNING seq, place
"""
_EMPTY = f"""
{LISTED} AND NOT EXISTS (SELECT 1 FROM millgate.chunks c WHERE c.tenant = documents.tenant
AND c.collection = documents.collection AND c.place = documents.place)
"""


@dataclass
class CollectionWriter:
    """Changes one collection of one tenant."""

    link: Link
    tenant: str
    collection: str
    grown: int = 0
    seq: int = field(init=False)
    place: int = field(init=False)
    _bytes: int = 0  # of growth that the collection's row does not have yet

    def __post_init__(self) -> None:
        self._here = self.tenant, self.collection
        self.seq, self.place = fetch_one(self.link, _OPEN, self._here)

    def put(self, documents: DocumentsById) -> int:
        """Put every document in the place of its former version; how many chunks changed."""
        columns = "id, place, bytes, title, digest, source, metadata"
        stored = {
            row[0]: row for row in self._select(columns, "documents", LISTED, list(documents))
        }
        places = {id: row[1] for id, row in stored.items()}
        former = self._former(list(places.values()))
        new = compare(documents, former)
        added = [id for id in documents if id not in places]
        for id in added:
            self.place += 1
            places[id] = self.place
        self._delete_chunks(new.stale)
        fresh = [id for id in new.changed if id not in former]
        for id, owner in self._select("id, document", "chunks", LISTED, fresh):
            # those of this put were looked up by document
            raise chunk_clash(self.collection, id, owner, new.fresh[id][1])
        self._delete("attachments", new.outdated)
        rows = [
            (id, places[id], count_bytes(id, d.title, data), d.title, d.digest, d.source, data)
            for id, d in documents.items()
            for data in [encode_metadata(d.metadata)]
        ]
        differ = [row for row in rows if row != stored.get(row[0])]
        self._delete_counted("documents", LISTED, [row[0] for row in differ if row[0] in stored])
        self.link.insert("documents", ((*self._here, *row) for row in differ))
        self._bytes += sum(row[2] for row in differ)
        self._delete("removed", fresh)
        self._insert([new.fresh[id] for id in new.changed], former, places)
        grown = len(new.fresh) - len(former)
        self._add_sizes(documents=len(added), chunks=grown, chars=new.chars)
        return len(new.stale) + len(new.changed)

    def amend(self, ids: Sequence[str], change: Callable[[Chunk], Chunk]) -> int:
        """Put what is made of stored chunks in their place; how many differ."""
        order = " ORDER BY place, position"
        former = {row[0]: row for row in self._select(COLUMNS, "chunks", LISTED, ids, order)}
        chunks = [from_row(self.collection, row) for row in former.values()]
        documents = amend_documents(self.tenant, self.collection, chunks, change)
        new = compare(documents, former)
        rows = self._select("id, place", "documents", LISTED, list(documents))
        places: dict[str, int] = dict(rows)
        self._delete("attachments", new.outdated)
        self._insert([new.fresh[id] for id in new.changed], former, places)
        self._add_sizes(documents=0, chunks=0, chars=new.chars)
        return len(new.changed)

    def clear_some(self, count: int) -> tuple[int, bool]:
        """Remove the first documents, of about `count` chunks; how many chunks went, and whether any are left."""
        bound = self.link.execute(
            f"SELECT place FROM millgate.chunks WHERE {HERE} ORDER BY place, position LIMIT 1 OFFSET ?",
            (*self._here, count - 1),
        ).fetchone()
        last = bound[0] if bound else self.place
        rows = self._select("id, chars", "chunks", "place <= ?", last, " ORDER BY place, position")
        ids = [id for id, _ in rows]
        self._log_removals(ids)
        self._delete("attachments", ids)
        self._delete_counted("chunks", "place <= ?", last)
        documents = self._delete_counted("documents", "place <= ?", last)
        chars = sum(chars for _, chars in rows)
        self._add_sizes(documents=-documents, chunks=-len(ids), chars=-chars)
        return len(ids), bound is not None

    def remove_documents(self, documents: Sequence[str]) -> int:
        """Remove documents with all they hold; how many chunks went."""
        places = [place for (place,) in self._select("place", "documents", LISTED, documents)]
        former = self._former(places)
        self._delete_chunks(list(former))
        self._delete_counted("documents", LISTED, documents)
        self._add_sizes(documents=-len(places), chunks=-len(former), chars=-count_chars(former))
        return len(former)

    def remove_chunks(self, chunks: Sequence[str]) -> int:
        """Remove chunks from their documents; the last one takes its document along."""
        rows = self._select("id, document, chars", "chunks", LISTED, chunks)
        if not rows:
            return 0
        order = {id: n for n, id in enumerate(dict.fromkeys(chunks))}
        self._delete_chunks(sorted((id for id, _, _ in rows), key=order.__getitem__))
        touched = list({document for _, document, _ in rows})
        emptied = self._delete_counted("documents", _EMPTY, touched)
        self.link.execute(
            f"UPDATE millgate.documents SET digest = '' WHERE {HERE} AND {LISTED}",
            (*self._here, self.link.listed(touched)),
        )
        chars = sum(count for _, _, count in rows)
        self._add_sizes(documents=-emptied, chunks=-len(rows), chars=-chars)
        return len(rows)

    def _select(
        self,
        columns: str,
        table: str,
        which: str,
        value: Sequence[str | int] | int,
        order: str = "",
    ) -> list[Row]:
        """The rows of this collection that a condition picks; none without names."""
        if not isinstance(value, int) and not value:
            return []
        sql = f"SELECT {columns} FROM millgate.{table} WHERE {HERE} AND {which}{order}"
        return self.link.execute(sql, (*self._here, self._one_value(value))).fetchall()

    def _one_value(self, value: Sequence[str | int] | int) -> str | int:
        return value if isinstance(value, int) else self.link.listed(value)

    def _former(self, places: Sequence[int]) -> dict[str, Row]:
        """The stored rows of the chunks at these places, by id."""
        which, order = "place = ANY(?::bigint[])", " ORDER BY place, position"
        return {row[0]: row for row in self._select(COLUMNS, "chunks", which, places, order)}

    def _insert(
        self,
        changed: Sequence[Row],
        former: Mapping[str, Row],
        places: Mapping[str, int],
    ) -> None:
        """Write the chunks that are new or differ, each under the next number of the feed."""
        self._delete_counted("chunks", LISTED, [row[0] for row in changed if row[0] in former])

        def rows() -> Iterator[Row]:  # one at a time: a document may have a hundred thousand
            for row in changed:
                self.seq += 1
                id, document, position, source, title, data, admission, text = row
                size = count_bytes(id, title, data, text)
                self._bytes += size
                yield (*self._here, id, document, places[document], position,
                       self.seq, len(text), size, source, title, data, admission, text)  # fmt: skip

        self.link.insert("chunks", rows())

    def _delete_chunks(self, ids: Sequence[str]) -> None:
        self._log_removals(ids)
        self._delete("attachments", ids)
        self._delete_counted("chunks", LISTED, ids)

    def _delete_counted(self, table: str, which: str, value: Sequence[str] | int) -> int:
        """Delete the documents or chunks that a condition picks; how many went."""
        if not value:
            return 0
        sql = f"DELETE FROM millgate.{table} WHERE {HERE} AND {which} RETURNING bytes"
        sizes = self.link.execute(sql, (*self._here, self._one_value(value))).fetchall()
        self._bytes -= sum(size for (size,) in sizes)
        return len(sizes)

    def _delete(self, table: str, ids: Sequence[str]) -> None:
        if ids:
            sql = f"DELETE FROM millgate.{table} WHERE {HERE} AND {LISTED}"
            self.link.execute(sql, (*self._here, self.link.listed(ids)))

    def _log_removals(self, ids: Sequence[str]) -> None:
        first = self.seq + 1
        self.seq += len(ids)
        self.link.insert(
            "removed",
            [(*self._here, id, seq) for seq, id in enumerate(ids, first)],
            on_conflict="ON CONFLICT (tenant, collection, id) DO UPDATE SET seq = excluded.seq",
        )

    def _add_sizes(self, *, documents: int, chunks: int, chars: int) -> None:
        self.link.execute(
            "UPDATE millgate.collections SET documents = documents + ?, chunks = chunks + ?,"
            f" chars = chars + ?, bytes = bytes + ?, seq = ?, place = ? WHERE {HERE}",
            (documents, chunks, chars, self._bytes, self.seq, self.place, *self._here),
        )
        self.grown += self._bytes
        self._bytes = 0
