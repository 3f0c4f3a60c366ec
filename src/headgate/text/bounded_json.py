"""Bounded JSON: parse what a stranger sent, unless it would take far more memory than bytes, or is too deep to be written.

A list of empty lists takes thirty times its bytes, and holds every other thread while it is built. So values are counted
first: each follows a comma or an opening bracket outside a string. What has too many is not parsed.
orjson reads lists in lists four times as deep as it writes them. What is too deep to be written is refused where it is read.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import orjson

MOST_VALUES = (
    500_000  # 60 MB at worst; the largest honest body, a window of 100 000 messages, has 400 000
)
DEEPEST = 200  # lists and objects inside each other; orjson writes 254
_MARKS = b",[{"
_SHORT = 4_096  # bytes up to which counting brackets is quicker than looking into the value


def loads(data: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """The value in some JSON.

    JSONDecodeError where it is no JSON, has more than MOST_VALUES values, or is deeper than DEEPEST.
    """
    if len(data) > MOST_VALUES and has_more_values(data, MOST_VALUES):
        raise orjson.JSONDecodeError(f"it holds more than {MOST_VALUES:,} values", "", 0)
    value = orjson.loads(data)
    if len(data) > 2 * DEEPEST and (len(data) > _SHORT or _count_openings(data) > DEEPEST):
        _check_depth(value)
    return value


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
    if count_marks(data, piece) <= most:
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


def count_marks(data: bytes, piece: int = 1 << 20) -> int:
    """How many marks there are, in strings or not. Of a long prompt this is counted in a tenth of the time of bytes.count."""
    view = np.frombuffer(data, np.uint8)
    parts = (view[at : at + piece] for at in range(0, len(view), piece))
    return sum(int(np.count_nonzero(part == mark)) for part in parts for mark in _MARKS)
