"""Merging: one segment of the living chunks of several, array by array and piece by piece; and a segment's file.

    magic | length of the head | head (JSON: checksum, and dtype, shape, offset of each array) | arrays

Keys are digests, so a slice of their range holds as large a slice of each vocabulary, and of its postings. What is held
is one slice, and the new number of each key. Of mapped parts nothing stays in memory.
"""

import json
import mmap
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from millgate.index.arrays import Array, Bytes, Ints, offsets, ranges, union
from millgate.index.files import (
    CHECKED,
    ArrayFile,
    DamagedIndex,
    checksum,
    make_folder,
    map_file,
    whole_file,
)
from millgate.index.posting_list import PostingList
from millgate.index.segment import Segment

Alive = npt.NDArray[np.bool_]
TermIds = npt.NDArray[np.uint32]
Parts = Sequence[tuple[Segment, Alive]]

_MAGIC = b"MILLGATE SEGMENT 1\n"
_HEAD = 4096  # bytes before the arrays, more than their table ever takes
_HELD = 250_000  # words, and different words, that are held in memory until they are saved: at most 6 MB
_AT_ONCE = 1 << 16  # postings that are moved together: some 5 MB on the way
_COLUMNS = ("place", "position", "fields", "chars", "speaker", "evidence", "language")
_GONE = np.uint32(0xFFFFFFFF)
_POSTING_LISTS = ("terms", "names", "case")


def save_segment(parts: Parts, path: Path) -> None:
    """Write the living chunks of all parts to a file, as one segment."""
    with whole_file(path) as out:
        arrays = ArrayFile(out, _HEAD)
        merge(parts, arrays)
        out.truncate(_HEAD + arrays.size)
        table = {"crc": checksum(out, _HEAD), "size": arrays.size, "arrays": arrays.table}
        out.seek(0)
        out.write(_MAGIC + (_HEAD - len(_MAGIC) - 8).to_bytes(8, "little"))
        out.write(json.dumps(table).encode().ljust(_HEAD - len(_MAGIC) - 8))


def load_segment(path: Path, *, verify: bool | None = None) -> Segment:
    """Map a segment file into memory; unless `verify` says so, only a small one is compared with its checksum."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise DamagedIndex(f"{path.name} is not a segment file")
            begin = len(_MAGIC) + 8 + int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(begin - len(_MAGIC) - 8))
            data = map_file(file)[begin:]
            if len(data) != head["size"]:
                raise DamagedIndex(f"{path.name} is cut short")
            check = len(data) <= CHECKED if verify is None else verify
            if check and checksum(file, begin) != head["crc"]:
                raise DamagedIndex(f"{path.name} does not match its checksum")
        return _segment(data, head["arrays"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedIndex(f"{path.name} cannot be read: {error}") from error


def join(parts: Parts, folder: Path | None = None) -> Segment:
    """One segment of the living chunks of all parts, in order, which is not saved yet.

    A large one is held in a file without a name.
    """
    if folder and is_large(*(segment for segment, _ in parts)):
        # what cannot be written is held in memory
        with suppress(OSError):
            make_folder(folder)
            with TemporaryFile(dir=folder) as file:
                arrays = ArrayFile(file, 0)
                merge(parts, arrays)
                file.flush()
                return _segment(map_file(file), arrays.table)
    out = BytesIO()
    arrays = ArrayFile(out, 0)
    merge(parts, arrays)
    return _segment(np.frombuffer(out.getbuffer(), np.uint8), arrays.table)


def is_large(*segments: Segment) -> bool:
    """Whether some segments hold more than should stay in memory."""
    return sum(len(s.terms.own) + len(s.terms.keys) for s in segments) > _HELD


def _segment(data: Bytes, table: dict[str, Any]) -> Segment:
    arrays: dict[str, Any] = {}
    for name, (kind, shape, offset) in table.items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape))
        group, _, own = name.rpartition(".")
        values = np.asarray(data[offset : offset + size].view(dtype).reshape(shape))
        (arrays.setdefault(group, {}) if group else arrays)[own] = values
    return Segment(**arrays | {name: PostingList(**arrays[name]) for name in _POSTING_LISTS})


def merge(parts: Parts, out: ArrayFile) -> None:
    """Put the living chunks of all parts into one segment, in order."""
    for name in _COLUMNS:
        out.put(name, np.concatenate([getattr(s, name)[alive] for s, alive in parts]))
    id_keys = np.concatenate([s.id_keys[np.argsort(s.id_ords)][alive] for s, alive in parts])
    order = np.argsort(id_keys, kind="stable")
    out.put("id_keys", id_keys[order])
    out.put("id_ords", order)
    _put_lists(out, "id_starts", "ids", [(s.id_starts, s.ids, alive) for s, alive in parts])
    for name in _POSTING_LISTS:
        lists: list[tuple[PostingList, Alive]] = [(getattr(s, name), alive) for s, alive in parts]
        new_ids, size = _merge_postings(out, name, lists)
        own = [(part.own_starts, part.own, alive) for part, alive in lists]
        _put_lists(out, f"{name}.own_starts", f"{name}.own", own, new_ids)
        if name == "names":
            _merge_labels(out, [s for s, _ in parts], new_ids, size)


def release_pages(array: Array) -> None:
    """Let the pages go that were read of a mapped file: they stay in the system's cache.

    Merging four segments of 42 MB peaks at 44 MB of resident memory with this, and at 89 MB without.
    """
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = getattr(base, "obj", None)
    if isinstance(base, mmap.mmap) and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def _put_lists(
    out: ArrayFile,
    starts_name: str,
    name: str,
    lists: Sequence[tuple[Ints, Array, Alive]],
    new_ids: Sequence[TermIds] = (),
) -> None:
    """Put what the living chunks hold end to end, and where each begins; keys by their new ids."""
    starts = offsets(np.concatenate([np.diff(starts)[alive] for starts, _, alive in lists]))
    out.put(starts_name, starts)
    put = out.reserve(name, lists[0][1].dtype, int(starts[-1]))
    for part, (begins, flat, alive) in enumerate(lists):
        cuts = np.searchsorted(begins, np.arange(0, begins[-1], _AT_ONCE)).tolist()
        for begin, end in pairwise([*cuts, len(alive)]):
            held = flat[begins[begin] : begins[end]]
            held = held[np.repeat(alive[begin:end], np.diff(begins[begin : end + 1]))]
            put(new_ids[part][held] if new_ids else held)
            release_pages(flat)


def _merge_postings(
    out: ArrayFile, name: str, parts: Sequence[tuple[PostingList, Alive]]
) -> tuple[list[TermIds], int]:
    """Put the keys that living chunks have, and their postings.

    The new id of each key of each part, _GONE for one that no living chunk has, and how many there are.
    """
    runs = sum(len(part.ords) for part, _ in parts) // _AT_ONCE + 1
    bounds = np.arange(1, runs, dtype=np.uint64) * np.uint64(((1 << 64) - 1) // runs)
    cuts = [[0, *part.keys.searchsorted(bounds).tolist(), len(part.keys)] for part, _ in parts]
    slices = [list(map(slice, own, own[1:])) for own in cuts]
    new_ids = [np.full(len(part.keys), _GONE) for part, _ in parts]
    sizes, total = [0], 0
    for run in zip(*slices, strict=True):
        living = list(map(_count, parts, run))
        used = [np.flatnonzero(n) + some.start for n, some in zip(living, run, strict=True)]
        own = [part.keys[at] for (part, _), at in zip(parts, used, strict=True)]
        found = union(own)
        for ids, at, keys in zip(new_ids, used, own, strict=True):
            ids[at] = found.searchsorted(keys) + sizes[-1]
        sizes.append(sizes[-1] + len(found))
        total += sum(int(n.sum()) for n in living)
        _release_keys(parts)
    put_keys = out.reserve(f"{name}.keys", np.uint64, sizes[-1])
    put_starts = out.reserve(f"{name}.starts", np.int64, sizes[-1] + 1)
    put_ords = out.reserve(f"{name}.ords", np.uint32, total)
    put_values = out.reserve(f"{name}.values", np.uint16, total)
    put_starts(np.zeros(1))
    ends = np.cumsum([int(alive.sum()) for _, alive in parts])
    new_ords = [
        np.cumsum(alive) + end - alive.sum() - 1
        for (_, alive), end in zip(parts, ends, strict=True)
    ]
    done = 0
    for (first, end), run in zip(pairwise(sizes), zip(*slices, strict=True), strict=True):
        keys, counts = np.empty(end - first, np.uint64), np.zeros(end - first, np.int64)
        living = list(map(_count, parts, run))
        places = []
        for (part, _), ids, some, n in zip(parts, new_ids, run, living, strict=True):
            places.append(ids[some][n > 0].astype(np.int64) - first)
            keys[places[-1]] = part.keys[some][n > 0]
            counts[places[-1]] += n[n > 0]
        begins = offsets(counts)
        ords, values = np.empty(begins[-1], np.uint32), np.empty(begins[-1], np.uint16)
        free = begins[:-1].copy()
        for at, (part, alive) in enumerate(parts):
            theirs = slice(part.starts[run[at].start], part.starts[run[at].stop])
            stays, n = alive[part.ords[theirs]], living[at][living[at] > 0]
            to = ranges(free[places[at]], n)
            ords[to] = new_ords[at][part.ords[theirs][stays]]
            values[to] = part.values[theirs][stays]
            free[places[at]] += n
        put_keys(keys)
        put_starts(begins[1:] + done)
        put_ords(ords)
        put_values(values)
        done += len(ords)
        _release_keys(parts)
    return new_ids, sizes[-1]


def _count(part: tuple[PostingList, Alive], some: slice) -> Ints:
    """In how many living chunks each key of a slice occurs."""
    lists, alive = part
    starts = lists.starts[some.start : some.stop + 1]
    counts = np.diff(starts)
    if alive.all():
        return counts
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(owner[alive[lists.ords[starts[0] : starts[-1]]]], minlength=len(counts))


def _release_keys(parts: Sequence[tuple[PostingList, Alive]]) -> None:
    for lists, _ in parts:
        release_pages(lists.keys)


def _merge_labels(
    out: ArrayFile, segments: Sequence[Segment], new_ids: Sequence[TermIds], size: int
) -> None:
    """Put the label of each name, from one of the segments that have it."""
    owner, begins, ends = np.zeros((3, size), np.int64)
    for at, (segment, ids) in enumerate(zip(segments, new_ids, strict=True)):
        used = np.flatnonzero(ids != _GONE)
        owner[ids[used]] = at
        begins[ids[used]] = segment.label_starts[used]
        ends[ids[used]] = segment.label_starts[used + 1]
    out.put("label_starts", starts := offsets(ends - begins))
    put = out.reserve("labels", np.uint8, int(starts[-1]))
    raw = [np.ascontiguousarray(segment.labels).data for segment in segments]
    for at in range(0, size, _AT_ONCE):
        run = slice(at, at + _AT_ONCE)
        spans = zip(owner[run].tolist(), begins[run].tolist(), ends[run].tolist(), strict=True)
        text = b"".join([raw[which][begin:end] for which, begin, end in spans])
        put(np.frombuffer(text, np.uint8))
