"""Segment files: one file a segment, mapped into memory, never changed once it has its name.

    magic | length of the head | head (JSON: checksum, and dtype, shape, offset of each array) | arrays

A file is written under a temporary name, flushed to disk and renamed, so a name stands for whole content.
Small files are checked against their checksum when they are opened; of large ones the head and the size
are, since reading a gigabyte to open it would defeat mapping it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headgate.errors import StoreError
from headgate.index.posting_list import PostingList, Tally
from headgate.index.segment import Segment

_MAGIC = b"HEADGATE SEGMENT 1\n"
_ALIGN = 64
_CHECKED = 64 << 20  # bytes; larger files are opened without reading them through

Array = npt.NDArray[Any]


class Damaged(StoreError):
    """An index file is missing, cut short or altered; the index can be rebuilt from the store."""


def write(path: Path, content: bytes) -> None:
    """Put whole content under a name, or nothing: written aside, flushed, renamed."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def save(segment: Segment, path: Path) -> None:
    """Write a segment to a file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in _arrays(segment, "")}
    table, parts, offset = {}, [], 0
    for name, array in arrays.items():
        raw = array.tobytes()
        pad = -len(raw) % _ALIGN
        table[name] = [array.dtype.str, array.shape, offset]
        parts += [raw, bytes(pad)]
        offset += len(raw) + pad
    data = b"".join(parts)
    head = json.dumps({"crc": crc32(data), "size": len(data), "arrays": table}).encode()
    head += b" " * (-(len(_MAGIC) + 8 + len(head)) % _ALIGN)
    write(path, b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, data]))


def _arrays(part: object, prefix: str) -> Iterator[tuple[str, Array]]:
    assert is_dataclass(part)
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            yield prefix + field.name, value
        else:
            yield from _arrays(value, f"{prefix}{field.name}.")


def load(path: Path) -> Segment:
    """Map a segment file into memory."""
    try:
        raw = np.memmap(path, np.uint8, "r")
        at = len(_MAGIC) + 8
        if raw[: len(_MAGIC)].tobytes() != _MAGIC:
            raise Damaged(f"{path.name} is not a segment of this version")
        begin = at + int.from_bytes(raw[len(_MAGIC) : at].tobytes(), "little")
        head = json.loads(raw[at:begin].tobytes())
        data = raw[begin:]
        if len(data) != head["size"]:
            raise Damaged(f"{path.name} is cut short")
        if len(data) <= _CHECKED and crc32(data.data) != head["crc"]:
            raise Damaged(f"{path.name} does not match its checksum")
        return _segment(data, head["arrays"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path.name} cannot be read: {error}") from error


def _segment(data: npt.NDArray[np.uint8], table: dict[str, Any]) -> Segment:
    arrays: dict[str, Any] = {}
    for name, (kind, shape, offset) in table.items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape))
        arrays[name] = np.asarray(data[offset : offset + size].view(dtype).reshape(shape))
    kinds = {"terms": PostingList, "names": PostingList, "case": Tally}
    for group, make in kinds.items():
        prefix = f"{group}."
        mine = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        arrays = {k: v for k, v in arrays.items() if not k.startswith(prefix)}
        arrays[group] = make(**mine)
    return Segment(**arrays)


def load_vectors(path: Path, count: int) -> npt.NDArray[np.float16]:
    """Map the embeddings of a segment of `count` chunks into memory."""
    try:
        flat = np.memmap(path, np.float16, "r")
        return np.asarray(flat.reshape(count, -1))
    except (OSError, ValueError) as error:
        raise Damaged(f"{path.name} cannot be read: {error}") from error
