"""Segment files: one file a segment, mapped into memory, never changed once it has its name.

    magic | length of the head | head (JSON: checksum, and dtype, shape, offset of each array) | arrays

A file is written under a temporary name, flushed to disk and renamed, so a file under its name is complete. Embeddings
and their neighbor graphs lie beside it, with their checksums in their names.
Small files are checked against their checksum when they are opened. Of large ones only the head and the size are, since
a gigabyte should be mapped and not read; the background reads them through once.
"""

import json
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
import numpy.typing as npt

from millgate.errors import StoreError
from millgate.index.arrays import ArrayFile, Bytes
from millgate.index.merging import Parts, merge
from millgate.index.posting_list import Counts, PostingList
from millgate.index.segment import Segment

_MAGIC = b"MILLGATE SEGMENT 1\n"
_HEAD = 4096  # bytes before the arrays, more than their table ever takes
_HELD = 250_000  # words, and different words, that are held in memory until they are saved: at most 6 MB
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


def save_segment(parts: Parts, path: Path) -> None:
    """Write the living chunks of all parts to a file, as one segment."""
    with whole_file(path) as out:
        arrays = ArrayFile(out, _HEAD)
        merge(parts, arrays)
        out.truncate(_HEAD + arrays.size)
        table = {"crc": _checksum(out, _HEAD), "size": arrays.size, "arrays": arrays.table}
        out.seek(0)
        out.write(_MAGIC + (_HEAD - len(_MAGIC) - 8).to_bytes(8, "little"))
        out.write(json.dumps(table).encode().ljust(_HEAD - len(_MAGIC) - 8))


def join(parts: Parts, folder: Path | None = None) -> Segment:
    """One segment of the living chunks of all parts, in order, which is not saved yet.

    A large one is held in a file without a name.
    """
    if folder and is_large(*(segment for segment, _ in parts)):
        # what cannot be written is held in memory
        with suppress(OSError):
            make_folder(folder)
            with TemporaryFile(dir=folder) as out:
                return _join(parts, out)
    return _join(parts, BytesIO())


def _join(parts: Parts, out: BinaryIO) -> Segment:
    arrays = ArrayFile(out, 0)
    merge(parts, arrays)
    out.flush()
    data = np.frombuffer(out.getbuffer(), np.uint8) if isinstance(out, BytesIO) else _map(out)
    return _segment(data, arrays.table)


def is_large(*segments: Segment) -> bool:
    """Whether some segments hold more than should stay in memory."""
    return sum(len(s.terms.own) + len(s.terms.keys) for s in segments) > _HELD


def make_folder(folder: Path) -> None:
    """Make the folder of an index, but not if its store is gone."""
    # not its parents: if the store was moved or deleted, the old path must stay gone
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _map(file: BinaryIO) -> Bytes:
    """The bytes of a file: a small one is read, a large one is mapped into memory."""
    if os.fstat(file.fileno()).st_size <= _READ:
        file.seek(0)
        return np.frombuffer(file.read(), np.uint8)
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_WITHOUT_DESCRIPTOR)
    return np.frombuffer(mapped, np.uint8)


def load_segment(path: Path, *, verify: bool | None = None) -> Segment:
    """Map a segment file into memory; unless `verify` says so, only a small one is compared with its checksum."""
    try:
        with path.open("rb") as file:
            raw = _map(file)
            at = len(_MAGIC) + 8
            if raw[: len(_MAGIC)].tobytes() != _MAGIC:
                raise DamagedIndex(f"{path.name} is not a segment of this version")
            begin = at + int.from_bytes(raw[len(_MAGIC) : at].tobytes(), "little")
            head = json.loads(raw[at:begin].tobytes())
            data = raw[begin:]
            if len(data) != head["size"]:
                raise DamagedIndex(f"{path.name} is cut short")
            check = len(data) <= CHECKED if verify is None else verify
            if check and _checksum(file, begin) != head["crc"]:
                raise DamagedIndex(f"{path.name} does not match its checksum")
        return _segment(data, head["arrays"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error


def _checksum(file: BinaryIO, begin: int) -> int:
    """The checksum of a file from some place on, which is read: through its mapping it would stay in memory."""
    crc = 0
    file.seek(begin)
    while block := file.read(_READ):
        crc = crc32(block, crc)
    return crc


def _segment(data: Bytes, table: dict[str, Any]) -> Segment:
    arrays: dict[str, Any] = {}
    for name, (kind, shape, offset) in table.items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape))
        arrays[name] = np.asarray(data[offset : offset + size].view(dtype).reshape(shape))
    kinds = {"terms": PostingList, "names": PostingList, "case": Counts}
    for group, make in kinds.items():
        prefix = f"{group}."
        mine = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        arrays = {k: v for k, v in arrays.items() if not k.startswith(prefix)}
        arrays[group] = make(**mine)
    return Segment(**arrays)


def name_with_checksum(path: Path) -> Path:
    """Give a complete file a name that holds its checksum, before its ending; the path that it has then."""
    with path.open("rb") as file:
        named = path.with_name(f"{path.stem}.{_checksum(file, 0):08x}{path.suffix}")
    return path.replace(named)


def check_by_name(path: Path, *, verify: bool | None = None) -> None:
    """Compare a file with the checksum in its name; unless `verify` says so, only a small one. A file of an older
    release has none in its name.
    """
    crc = Path(path.stem).suffix.removeprefix(".")
    try:
        if len(crc) != 8 or not (path.stat().st_size <= CHECKED if verify is None else verify):
            return
        with path.open("rb") as file:
            if f"{_checksum(file, 0):08x}" != crc:
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
            flat = _map(file).view(np.float16)
        return np.asarray(flat.reshape(count, dimension))
    except (OSError, ValueError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error
