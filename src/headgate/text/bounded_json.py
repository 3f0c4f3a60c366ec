"""Bounded JSON: parse what a stranger sent, unless it would take far more memory than bytes, or is too deep to write.

A list of empty lists takes thirty times its bytes, and holds every other thread while it is built. So values are
counted first: each follows a comma or an opening bracket outside a string. What has too many is not parsed.
orjson reads lists in lists four times as deep as it writes them. What is too deep to be written is refused where it is
read.
"""

import gc
from collections.abc import Iterable
from itertools import chain
from json import JSONDecodeError
from random import sample
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

MOST_VALUES = (
    500_000  # 60 MB at worst; the largest honest body, a window of 100 000 messages, has 400 000
)
DEEPEST = 200  # lists and objects inside each other; orjson writes 254
_MARKS = b",[{"
_PAGE, _FEW_PAGES = 4_096, 16
_LONG = 1 << 16  # bytes from which the garbage collector would set in
_SHORT = 4_096  # bytes up to which counting brackets is quicker than looking into the value


def loads(data: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """The value in some JSON.

    JSONDecodeError where it is no JSON, has more than MOST_VALUES values, or is deeper than DEEPEST.
    """
    if len(data) > MOST_VALUES and has_more_values(data, MOST_VALUES):
        raise orjson.JSONDecodeError(f"it holds more than {MOST_VALUES:,} values", "", 0)
    value = _parse(data)
    if len(data) > 2 * DEEPEST and (len(data) > _SHORT or _count_openings(data) > DEEPEST):
        _check_depth(value)
    return value


def _parse(data: bytes) -> Any:  # noqa: ANN401
    if len(data) <= _LONG or not gc.isenabled():
        return orjson.loads(data)
    gc.disable()  # nobody else can go on while it looks through everything
    try:
        return orjson.loads(data)
    finally:
        gc.enable()


def _count_openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _check_depth(value: object) -> None:
    level = _containers([value])
    for _ in range(DEEPEST):
        if not level:
            return
        parts = (one.values() if isinstance(one, dict) else one for one in level)
        level = _containers(chain.from_iterable(parts))
    if level:
        raise orjson.JSONDecodeError(f"it is nested deeper than {DEEPEST} lists and objects", "", 0)


def _containers(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [one for one in values if isinstance(one, (dict, list))]


def has_more_values(data: bytes, most: int, *, piece: int = 1 << 20) -> bool:
    """Whether some JSON holds more than so many values. It is looked at a piece of two bytes or more at a time."""
    if 4 * estimate_marks(data) <= most:
        return False
    values, inside, at = 0, False, 0
    while at < len(data):
        part = data[at : at + piece]
        at += len(part)
        if at < len(data) and (len(part) - len(part.rstrip(b"\\"))) % 2:
            part, at = part[:-1], at - 1  # an escape stays whole
        plain = np.frombuffer(part.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
        if not plain.size:
            continue
        quoted = np.logical_xor.accumulate(plain == ord('"')) ^ inside
        marks = np.logical_or.reduce([plain == mark for mark in _MARKS])
        values += int(np.count_nonzero(marks & ~quoted))
        inside = bool(quoted[-1])
        if values > most:
            return True
    return False


def estimate_marks(data: bytes) -> int:
    """About how many marks there are, in strings or not, by an eighth of the pages, drawn at random."""
    pages = len(data) // _PAGE
    if pages < _FEW_PAGES:
        return _count_marks(np.frombuffer(data, np.uint8))
    view = np.frombuffer(data, np.uint8, pages * _PAGE).reshape(pages, _PAGE)
    drawn = sample(range(pages), pages // 8)
    return _count_marks(view[drawn]) * pages // len(drawn)


def _count_marks(view: npt.NDArray[np.uint8]) -> int:
    """How many bytes are marks. Of a long prompt they are counted in a tenth of the time of bytes.count."""
    return sum(int(np.count_nonzero(view == mark)) for mark in _MARKS)


def describe_json_error(error: JSONDecodeError) -> str:
    """The parser's reason and the column. The parser's own message counts lines from the row's start."""
    return f"{error.msg} at column {error.pos + 1}"
