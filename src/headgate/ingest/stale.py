"""Stale: which documents of a collection lost their file, or their line in it.

A digest begins with where a document came from. A row named by its line is stale when its file was read to the end
without meeting it. A whole file is stale when it lies under a folder that was walked and was not found there.
Rows with their own id are never stale: they stay until they are removed.
"""

from collections.abc import Iterable, Mapping, Set

from headgate.ingest.rows import FILE, LINE


def stale_lines(digests: Mapping[str, str], *, read: Set[str], met: Set[str]) -> list[str]:
    """Rows named by a line that their file, one of those `read` to the end, no longer has."""
    return [
        id
        for id, digest in digests.items()
        if digest.startswith(LINE) and id not in met and id.rpartition(":")[0] in read
    ]


def stale_files(
    digests: Mapping[str, str], *, folders: Iterable[str], found: Set[str]
) -> list[str]:
    """Whole files, and rows named by their lines, under the folders, whose file was not found."""
    heads = tuple("" if folder == "." else folder.rstrip("/") + "/" for folder in folders)
    return [
        id
        for id, digest in digests.items()
        if id.startswith(heads) and _file_of(id, digest) not in found and _file_of(id, digest)
    ]


def _file_of(id: str, digest: str) -> str:
    """The file a document came from; nothing for a row of its own."""
    if digest.startswith(FILE):
        return id
    return id.rpartition(":")[0] if digest.startswith(LINE) else ""
