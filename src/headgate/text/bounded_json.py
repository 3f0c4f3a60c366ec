"""Bounded JSON: parse what a stranger sent, unless it would take far more memory than bytes.

A list of empty lists takes thirty times its bytes, and holds every other thread while it is built. So values are counted
first: each follows a comma or an opening bracket outside a string. What has too many is not parsed.
"""

from typing import Any

import numpy as np
import orjson

MOST_VALUES = (
    500_000  # 60 MB at worst; the largest honest body, a window of 100 000 messages, has 400 000
)
_MARKS = b",[{"


def loads(data: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """The value in some JSON. JSONDecodeError where it is no JSON, or holds more than MOST_VALUES values."""
    if len(data) > MOST_VALUES and has_more_values(data, MOST_VALUES):
        raise orjson.JSONDecodeError(f"it holds more than {MOST_VALUES:,} values", "", 0)
    return orjson.loads(data)


def has_more_values(data: bytes, most: int, *, piece: int = 1 << 20) -> bool:
    """Whether some JSON holds more than so many values; it is looked at a piece at a time."""
    if sum(data.count(mark) for mark in _MARKS) <= most:
        return False
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    values, inside = 0, False
    for at in range(0, len(data), piece):
        part = np.frombuffer(data[at : at + piece], np.uint8)
        quoted = np.logical_xor.accumulate(part == ord('"')) ^ inside
        marks = np.logical_or.reduce([part == mark for mark in _MARKS])
        values += int(np.count_nonzero(marks & ~quoted))
        inside = bool(quoted[-1])
        if values > most:
            return True
    return False
