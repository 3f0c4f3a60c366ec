"""Documents: what the store holds, added, listed and removed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millgate.calls.loop import async_version
from millgate.errors import InputError, MillgateError, NotFound
from millgate.gateway.wiring import Lifecycle
from millgate.stores.validate import check_name
from millgate.types import Chunk, Size
from millgate.types.check import check_several, check_type
from millgate.types.lengths import FOLDER_CHARS

if TYPE_CHECKING:
    from millgate.ingest.load import Kind, OnProgress, Progress, Summary
    from millgate.knowledge.turns import AddedTurns

_FOLLOW = 1_000  # chunks added from which the index follows at once


class Documents(Lifecycle):
    """The documents and turns of a tenant."""

    def add(
        self,
        rows: Iterable[Mapping[str, Any] | str] | Mapping[str, Any] | str | Path,
        *,
        collection: str = "main",
        kind: "Kind" = "",
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add rows {id, text, title, collection, metadata}; a row with a known id replaces what had it.

            gate.add([{"id": "policy", "text": "Refunds are paid within 14 days.", "metadata": {"url": "https://…"}}])
            gate.add(["Refunds are paid within 14 days.", "Parcels leave at noon."])

        One row, texts without an id and a `Path` may be given too. A string in a list is always a text and never the
        name of a file, so that a program may add what its users send; `add_files` takes names. One string alone that
        names a file which is there is refused, since few mean its letters.
        A row that fits one chunk keeps its id. `kind` is "conversation" if rows are turns although their text does not
        show it, and "documents" if they are not turns although they look like it. `on_progress` is called after each
        batch.
        """
        from millgate.ingest.load import add_rows  # noqa: PLC0415  (to read needs no ingest)

        if isinstance(rows, Path):
            return self.add_files(rows, collection=collection, kind=kind, on_progress=on_progress)
        if isinstance(rows, str) and _is_file_name(rows):
            raise InputError(
                f"{rows!r} is the name of a file, and add takes texts",
                hint=f"to read files: gate.add_files({rows!r}); to store these words: gate.add([{rows!r}])",
            )
        given = [rows] if isinstance(rows, Mapping | str) else rows
        check_name("collection", collection)
        components = self._components
        return add_rows(
            components.store, self.tenant, given,
            collection=collection, kind=kind, policy=components.settings.ingest, on_progress=self._follow_index(on_progress),
        )  # fmt: skip

    def add_files(
        self,
        *paths: str | Path,
        collection: str = "main",
        kind: "Kind" = "",
        exclude: Sequence[str] = (),
        gitignore: bool = True,
        prune: bool = False,
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add files and folders. Unchanged files are left alone; files that cannot be read are skipped and listed.

            summary = gate.add_files("docs/", "notes.md", exclude=["*.min.js"])
            print(summary.documents, summary.skipped)

        A file's id is its path below the folder that the store lies in, else its full path, wherever this is called
        from. `exclude` are patterns, as in a `.gitignore`, of what to leave out of folders. What such files of the
        folders themselves name is left out too, unless `gitignore` is off, and so is the store's own folder. `kind` is
        as in `add`. With `prune`, documents whose file is gone from a folder that was named go too, and so do rows with
        ids of their own that are gone from their file.
        """
        from millgate.ingest.files import add_files  # noqa: PLC0415  (to read needs no ingest)

        check_name("collection", collection)
        check_several("exclude", exclude)
        for path in paths:
            if not isinstance(path, str | Path):
                raise InputError(
                    f"a path is {type(path).__name__}, not a text or a Path",
                    hint="give several as gate.add_files(*paths)",
                )
        components = self._components
        own = self.folder
        return add_files(
            components.store, self.tenant, paths,
            collection=collection, kind=kind, policy=components.settings.ingest, prune=prune,
            root=own and own.absolute().parent, exclude=exclude, gitignore=gitignore, own_folder=own,
            on_progress=self._follow_index(on_progress),
        )  # fmt: skip

    def add_stream(
        self,
        data: bytes,
        *,
        id: str = "stdin",
        collection: str = "main",
        kind: "Kind" = "",
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add what came over a pipe: JSON lines as rows, else one text under that id; `kind` as in `add`.

        For example: `gate.add_stream(sys.stdin.buffer.read(), id="release-notes")`.
        """
        from millgate.ingest.load import add_stream  # noqa: PLC0415  (to read needs no ingest)

        check_name("collection", collection)
        components = self._components
        return add_stream(
            components.store, self.tenant, data,
            id=id, collection=collection, kind=kind, policy=components.settings.ingest,
            on_progress=self._follow_index(on_progress),
        )  # fmt: skip

    def add_turns(
        self,
        session: str,
        messages: Iterable[Mapping[str, Any] | str],
        *,
        collection: str = "turns",
    ) -> "AddedTurns":
        """Keep the turns of a conversation, so that `context(..., collection="turns")` recalls what was said.

            gate.add_turns("monday", [{"role": "user", "content": "My name is Ada."}])

        The whole history may be sent each time; only what is new is added.
        """
        from millgate.knowledge.turns import add_turns  # noqa: PLC0415  (to read needs no ingest)

        check_name("collection", collection)
        components = self._components
        return add_turns(
            components.store,
            self.tenant,
            session,
            messages,
            collection=collection,
            now=components.clock(),
        )

    def remove(
        self,
        *,
        collection: str = "main",
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
        everything: bool = False,
    ) -> int:
        """Remove documents, chunks, or everything in the collection; how many chunks went.

        For example: `gate.remove(documents=["policy"])`, or `gate.remove(collection="drafts", everything=True)`.
        """
        check_type("everything", everything, bool)
        for name, ids in (("documents", documents), ("chunks", chunks)):
            if ids is not None:
                check_several(name, ids)
        if everything == (documents is not None or chunks is not None):
            raise InputError(
                "say what to remove",
                hint="documents=[id], chunks=[id], or everything=True for the whole collection",
            )
        store = self._components.store
        return store.remove(self.tenant, collection, documents=documents, chunks=chunks)

    def collections(self) -> Mapping[str, Size]:
        """The collections of this tenant, and how much each holds.

        For example: `gate.collections()["main"].chunks`.
        """
        return self._components.store.collections(self.tenant)

    def document(self, id: str, *, collection: str = "main") -> list[Chunk]:
        """The chunks of a document in reading order; NotFound if there is none of that id.

        For example: `[chunk.text for chunk in gate.document("policy")]`.
        """
        return list(self.scan_document(id, collection=collection))

    def scan_document(self, id: str, *, collection: str = "main") -> Iterator[Chunk]:
        """As `document`, without all of them in memory at once."""
        chunk = None
        for chunk in self._components.store.scan(self.tenant, collection, document=id):
            yield chunk
        if chunk is None:
            raise NotFound(f"there is no document {id!r} in {collection!r}")

    aadd = async_version(add)
    aadd_files = async_version(add_files)
    aadd_stream = async_version(add_stream)
    aadd_turns = async_version(add_turns)
    aremove = async_version(remove)
    acollections = async_version(collections)
    adocument = async_version(document)

    def _follow_index(self, on_progress: "OnProgress | None") -> "OnProgress":
        """Let the indexes follow a long add batch by batch. The next query indexes what is left, and small adds.

        Added documents are safe even if they cannot be indexed now; a query that cannot use the index says why.
        """
        has_followed = False
        indexes = self._components.indexes
        # a request that does not wait finds what was added before only if the index has followed
        least = _FOLLOW if self._components.wait_for_index else 1

        def follow(progress: "Progress") -> None:
            nonlocal has_followed
            if has_followed or progress.chunks >= least:
                with suppress(MillgateError):
                    for collection in sorted(progress.touched):
                        indexes.follow(self.tenant, collection)
                progress.touched.clear()
                has_followed = True
            if on_progress:
                on_progress(progress)

        return follow


def _is_file_name(text: str) -> bool:
    """Whether a text looks like the name of a file, as docs/ or notes.md, and there is one."""
    if len(text) > FOLDER_CHARS or not ("/" in text or Path(text).suffix):
        return False
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a part that is too long for a name
        return False
