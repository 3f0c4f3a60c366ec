"""Files of an index: written whole, mapped into memory, and never changed once they have their name.

A file is written under a temporary name, flushed to disk and renamed, so a file under its name is complete. Embeddings
and their neighbor graphs lie beside their segment, with their checksums in their names.
Small files are checked against their checksum when they are opened. Of large ones only the head and the size are, since
a gigabyte should be mapped and not read; the background reads them through once.
"""

import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
import numpy.typing as npt

from millgate.errors import StoreError
from millgate.index.arrays import Array, Bytes

_ALIGN = 64
CHECKED = 64 << 20  # bytes; larger files are opened without reading them through
# bytes; a mapping keeps a descriptor before Python 3.13, and a thousand tenants have small indexes
_READ = 1 << 20
_WITHOUT_DESCRIPTOR: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class DamagedIndex(StoreError):
    """An index file is missing, cut short or altered; the index can be rebuilt from the store."""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file whole or not at all: under a temporary name, flushed, then renamed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of some bytes, whole or not at all."""
    with whole_file(path) as out:
        out.write(data)


def make_folder(folder: Path) -> None:
    """Make the folder of an index, but not if its store is gone."""
    # not its parents: if the store was moved or deleted, the old path must stay gone
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def map_file(file: BinaryIO) -> Bytes:
    """The bytes of a file: a small one is read, a large one is mapped into memory."""
    if os.fstat(file.fileno()).st_size <= _READ:
        file.seek(0)
        return np.frombuffer(file.read(), np.uint8)
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_WITHOUT_DESCRIPTOR)
    return np.frombuffer(mapped, np.uint8)


def checksum(file: BinaryIO, begin: int) -> int:
    """The checksum of a file from some place on, which is read: through its mapping it would stay in memory."""
    crc = 0
    file.seek(begin)
    while block := file.read(_READ):
        crc = crc32(block, crc)
    return crc


def name_with_checksum(path: Path) -> Path:
    """Give a complete file a name that holds its checksum, before its ending; the path that it has then."""
    with path.open("rb") as file:
        named = path.with_name(f"{path.stem}.{checksum(file, 0):08x}{path.suffix}")
    return path.replace(named)


def check_by_name(path: Path, *, verify: bool | None = None) -> None:
    """Compare a file with the checksum in its name; unless `verify` says so, only a small one."""
    crc = Path(path.stem).suffix.removeprefix(".")
    try:
        if not (path.stat().st_size <= CHECKED if verify is None else verify):
            return
        with path.open("rb") as file:
            if f"{checksum(file, 0):08x}" != crc:
                raise DamagedIndex(f"{path.name} does not match its checksum")
    except OSError as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error


def load_vectors(
    path: Path, count: int, dimension: int = -1, *, verify: bool | None = None
) -> npt.NDArray[np.float16]:
    """Map the embeddings of a segment of `count` chunks into memory; a dimension of -1 is whatever the file holds."""
    check_by_name(path, verify=verify)
    try:
        with path.open("rb") as file:
            flat = map_file(file).view(np.float16)
        return np.asarray(flat.reshape(count, dimension))
    except (OSError, ValueError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error


class ArrayFile:
    """Arrays in a file, from some place on, each under its name."""

    def __init__(self, out: BinaryIO, begin: int) -> None:
        self._out, self._begin = out, begin
        self.table: dict[str, Any] = {}
        self.size = 0

    def reserve(self, name: str, dtype: npt.DTypeLike, *shape: int) -> Callable[[Array], None]:
        """Reserve space for an array; the function returned writes the next piece of it."""
        kind, at = np.dtype(dtype), self._begin + self.size
        self.table[name] = [kind.str, shape, self.size]
        self.size += -(-kind.itemsize * prod(shape) // _ALIGN) * _ALIGN

        def put(piece: Array) -> None:
            nonlocal at
            self._out.seek(at)
            at += self._out.write(np.ascontiguousarray(piece, kind).reshape(-1).view(np.uint8).data)

        return put

    def put(self, name: str, array: Array) -> None:
        """Put a whole array there."""
        self.reserve(name, array.dtype, *array.shape)(array)
