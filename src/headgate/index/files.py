"""Segment files: one file a segment, mapped into memory, never changed once it has its name.

    magic | length of the head | head (JSON: checksum, and dtype, shape, offset of each array) | arrays

A file is written under a temporary name, flushed to disk and renamed, so a file under its name is complete.
Small files are checked against their checksum when they are opened. Of large ones only the head and the size are, since
a gigabyte should be mapped and not read; the background reads them through once.
"""

import json
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headgate.errors import StoreError
from headgate.index.posting_list import Counts, PostingList
from headgate.index.segment import Segment

_MAGIC = b"HEADGATE SEGMENT 1\n"
_ALIGN = 64
CHECKED = 64 << 20  # bytes; larger files are opened without reading them through
# bytes; a mapping keeps a descriptor before Python 3.13, and a thousand tenants have small indexes
_READ = 1 << 20
_WITHOUT_DESCRIPTOR: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}

Array = npt.NDArray[Any]


class DamagedIndex(StoreError):
    """An index file is missing, cut short or altered; the index can be rebuilt from the store."""


def write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file whole or not at all: under a temporary name, flushed, then renamed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as out:
            out.writelines(parts)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def save_segment(segment: Segment, path: Path) -> None:
    """Write a segment to a file."""
    table: dict[str, Any] = {}
    parts: list[bytes | memoryview] = []
    offset = crc = 0
    for name, array in _arrays(segment, ""):
        table[name] = [array.dtype.str, array.shape, offset]
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for part in (raw, bytes(-len(raw) % _ALIGN)):
            parts.append(part)
            offset += len(part)
            crc = crc32(part, crc)
    head = json.dumps({"crc": crc, "size": offset, "arrays": table}).encode()
    head += b" " * (-(len(_MAGIC) + 8 + len(head)) % _ALIGN)
    write_whole(path, _MAGIC, len(head).to_bytes(8, "little"), head, *parts)


def _arrays(part: object, prefix: str) -> Iterator[tuple[str, Array]]:
    assert is_dataclass(part)
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            yield prefix + field.name, value
        else:
            yield from _arrays(value, f"{prefix}{field.name}.")


def _map(path: Path) -> npt.NDArray[np.uint8]:
    """The bytes of a file: a small one read, a large one mapped into memory."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= _READ:
            return np.frombuffer(file.read(), np.uint8)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_WITHOUT_DESCRIPTOR)
    return np.frombuffer(mapped, np.uint8)


def is_mapped(path: Path) -> bool:
    """Whether a file is large enough to be mapped when it is opened."""
    return path.stat().st_size > _READ


def load_segment(path: Path, *, verify: bool = False) -> Segment:
    """Map a segment file into memory; a large one is compared with its checksum only with `verify`."""
    try:
        raw = _map(path)
        at = len(_MAGIC) + 8
        if raw[: len(_MAGIC)].tobytes() != _MAGIC:
            raise DamagedIndex(f"{path.name} is not a segment of this version")
        begin = at + int.from_bytes(raw[len(_MAGIC) : at].tobytes(), "little")
        head = json.loads(raw[at:begin].tobytes())
        data = raw[begin:]
        if len(data) != head["size"]:
            raise DamagedIndex(f"{path.name} is cut short")
        if (verify or len(data) <= CHECKED) and _checksum(path, begin) != head["crc"]:
            raise DamagedIndex(f"{path.name} does not match its checksum")
        return _segment(data, head["arrays"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error


def _checksum(path: Path, begin: int) -> int:
    """The checksum of a file from some place on, which is read: through its mapping it would stay in memory."""
    crc = 0
    with path.open("rb") as file:
        file.seek(begin)
        while block := file.read(_READ):
            crc = crc32(block, crc)
    return crc


def _segment(data: npt.NDArray[np.uint8], table: dict[str, Any]) -> Segment:
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


def load_vectors(path: Path, count: int) -> npt.NDArray[np.float16]:
    """Map the embeddings of a segment of `count` chunks into memory."""
    try:
        flat = _map(path).view(np.float16)
        return np.asarray(flat.reshape(count, -1))
    except (OSError, ValueError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error
