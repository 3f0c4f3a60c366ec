"""Bounded JSON: parse untrusted JSON, unless it would take far more memory than bytes, or is too deep to write.

A list of empty lists takes thirty times its bytes, and holds every other thread while it is built. So values are
counted first: each follows a comma or an opening bracket outside a string. A text takes four times its bytes if one
sign of it is an emoji. So the texts of a huge body are measured too. A body that would take too much is not parsed.
orjson reads lists in lists four times as deep as it writes them. A value that is too deep to be written is refused when
it is read.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from json import JSONDecodeError
from math import isfinite
from random import sample
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from pydantic_core import from_json

# 60 MB at worst; the largest honest body, a window of 100 000 messages, has 400 000
MOST_VALUES = 500_000
MOST_BYTES = 80 << 20  # of a body together with what is made of it
HUGE = 8 << 20  # bytes from which a body is measured
DEEPEST = 200  # lists and objects inside each other; orjson writes 254
_MARKS = b",[{"
_PAGE, _FEW_PAGES = 4_096, 16
_PIECE = 1 << 20  # bytes that are looked at together
_ESCAPED = 1  # stands for what was escaped; no JSON holds it
_VALUE = 120  # bytes of a value without its text, at worst
_SHORT = 4_096  # bytes up to which counting brackets is quicker than looking into the value

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Container = dict[str, object] | list[object]


def loads(data: bytes, *, times: int = 1) -> Any:  # noqa: ANN401  (any JSON value)
    """The value in some JSON, which may take so many `times` the memory of a body.

    JSONDecodeError if it is not JSON, would take too much memory, or is deeper than DEEPEST.
    """
    if why := why_too_large(data, times):
        raise orjson.JSONDecodeError(why, "", 0)
    value = orjson.loads(data) if len(data) <= HUGE else _parse_huge(data)
    if len(data) > 2 * DEEPEST and (len(data) > _SHORT or _count_openings(data) > DEEPEST):
        _check_depth(value)
    return value


def loads_loosely(data: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """The same for what only some readers take for JSON: with NaN, half a character or a byte order mark."""
    try:
        return loads(data)
    except orjson.JSONDecodeError:
        if len(data) > HUGE or why_too_large(data):
            raise
        with suppress(ValueError, RecursionError):
            value = json.loads(data.decode("utf-8-sig", "surrogatepass"))
            _check_depth(value)
            return value
        raise


def why_too_large(data: bytes, times: int = 1) -> str:
    """Why some JSON would take more memory than so many bodies may; "" if it would not."""
    most_values, most_bytes = times * MOST_VALUES, times * MOST_BYTES
    if len(data) > most_values and has_more_values(data, most_values):
        return f"it holds more than {most_values:,} values"
    if len(data) > HUGE and measure(data) > most_bytes:
        return f"it takes more than {most_bytes:,} bytes once it is read"
    return ""


def _parse_huge(data: bytes) -> Any:  # noqa: ANN401
    """As orjson, which would copy the data first. Numbers that it rounds or refuses are refused."""
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise orjson.JSONDecodeError(str(error), "", 0) from None
    for level in _levels(value):
        if not all(map(_is_usual, _values(level))):
            raise orjson.JSONDecodeError("it holds a number of more than 64 bits", "", 0)
    return value


def _is_usual(value: object) -> bool:
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 64
    return type(value) is not float or isfinite(value)


def _count_openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _check_depth(value: object) -> None:
    if next(islice(_levels(value), DEEPEST, None), None):
        raise orjson.JSONDecodeError(f"it is nested deeper than {DEEPEST} lists and objects", "", 0)


def _levels(value: object) -> Iterator[list[Container]]:
    """The lists and objects in a value, level by level."""
    level = _containers([value])
    while level:
        yield level
        level = _containers(_values(level))


def _values(level: list[Container]) -> Iterator[object]:
    return chain.from_iterable(one.values() if isinstance(one, dict) else one for one in level)


def _containers(values: Iterable[object]) -> list[Container]:
    return [one for one in values if isinstance(one, (dict, list))]


def has_more_values(data: bytes, most: int, *, piece: int = _PIECE) -> bool:
    """Whether some JSON holds more than `most` values."""
    if 4 * estimate_marks(data) <= most:
        return False
    values = 0
    for _, found in _pieces(data, piece):
        values += found
        if values > most:
            return True
    return False


def measure(data: bytes, *, piece: int = _PIECE) -> int:
    """About how many bytes some JSON takes together with its values and texts while it is parsed, at most.

    What stands between two quotes is taken for a text, whether it is one or not. While a text with an escape is read,
    it is there twice.
    """
    values = texts = twice = 0
    rest = np.zeros(5, np.int64)  # what was counted in the text that a piece ended in
    for plain, begun in _pieces(data, piece):
        bounds = np.concatenate(([0], np.flatnonzero(plain == ord('"')), [len(plain)]))
        counts = np.zeros((5, len(bounds) - 1), np.int64)
        sizes, escapes, continuing, wide, widest = counts
        sizes[:] = np.diff(bounds)
        escaped = (plain == ord("\\")) | (plain == _ESCAPED)
        if escaped.any():
            escapes[:] = _count_between(bounds, escaped)
            _mark_escapes(plain)
        if plain.max() >= 0x80:
            continuing[:] = _count_between(bounds, (plain & 0xC0) == 0x80)
            wide[:] = _count_between(bounds, plain >= 0xC4)
            widest[:] = _count_between(bounds, plain >= 0xF0)
        counts[:, 0] += rest
        rest = counts[:, -1].copy()
        values += begun
        texts += int(np.sum(((sizes - continuing) * (1 + (wide > 0) + 2 * (widest > 0)))[:-1]))
        twice = max(twice, int(np.max(sizes * (escapes > 0))))
    return len(data) + texts + twice + _VALUE * values


def _count_between(bounds: Offsets, mask: npt.NDArray[np.bool_]) -> Offsets:
    """How many places of the mask are true from each bound to the next."""
    return np.diff(np.searchsorted(np.flatnonzero(mask), bounds))


def _mark_escapes(plain: Bytes) -> None:
    r"""Write each \uXXXX as the bytes of a sign that is as wide, but for its hexadecimal digits, and as long."""
    at = np.flatnonzero((plain[:-5] == ord("\\")) & (plain[1:-4] == ord("u")))
    high, low = plain[at + 2] | 0x20, plain[at + 3] | 0x20  # lower case
    surrogate = (high == ord("d")) & (low >= ord("8"))
    first = np.where((high == ord("0")) & (low == ord("0")), 0x01, 0xC4)
    first = np.where(surrogate, np.where(low < ord("c"), 0xF0, 0x80), first)
    plain[at] = first  # of a pair, the second continues the first
    for place in range(1, 6):
        plain[at + place] = 0x80


def _pieces(data: bytes, piece: int) -> Iterator[tuple[Bytes, int]]:
    """The data a piece at a time, escaped quotes and backslashes replaced by one byte, and the values that begin in it.

    A piece has at least 16 bytes, and ends before an escape that would not be whole.
    """
    inside, at = False, 0
    while at < len(data):
        part = data[at : at + piece]
        if at + len(part) < len(data):
            last = part.rfind(b"\\", len(part) - 6)
            part = part[:last] if last > 0 else part
            if (len(part) - len(part.rstrip(b"\\"))) % 2:
                part = part[:-1]
        at += len(part)
        if b"\\" in part:
            part = part.replace(b"\\\\", bytes([_ESCAPED])).replace(b'\\"', bytes([_ESCAPED]))
        plain, begun = np.frombuffer(part, np.uint8).copy(), 0
        if b'"' in part or not inside:
            quoted = np.logical_xor.accumulate(plain == ord('"')) ^ inside
            marks = np.logical_or.reduce([plain == sign for sign in _MARKS])
            inside, begun = bool(quoted[-1]), int(np.count_nonzero(marks & ~quoted))
        yield plain, begun


def estimate_marks(data: bytes) -> int:
    """About how many marks there are, in strings or not, by an eighth of the pages, drawn at random.

    Of a few pages all are counted, and not by numpy: it lets go of the interpreter six times, and an event loop that
    reads a hundred bodies waits each time until a thread that computes gives it back.
    """
    pages = len(data) // _PAGE
    if pages < _FEW_PAGES:
        return sum(data.count(mark) for mark in _MARKS)
    view = np.frombuffer(data, np.uint8, pages * _PAGE).reshape(pages, _PAGE)
    drawn = view[sample(range(pages), pages // 8)]
    marks = sum(int(np.count_nonzero(drawn == mark)) for mark in _MARKS)
    return marks * pages // len(drawn)


def describe_json_error(error: JSONDecodeError) -> str:
    """The parser's reason and the column. The parser's own message counts lines from the row's start."""
    return f"{error.msg} at column {error.pos + 1}"
