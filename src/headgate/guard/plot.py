"""Plot: entropy and repetition along a stream, as a PNG or in the terminal.

A Profile samples both curves while text flows; when it has too many samples it drops every second one, so
an endless stream needs no more memory than a short one. Upper half: character entropy over 64 characters,
0 to 6 bits. Lower half: length of the repetition going on, on a logarithmic scale. Red: where it stalls.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path
from typing import NamedTuple

from headgate.errors import InputError
from headgate.guard.detectors import RepeatDetector, Stall
from headgate.text.entropy import SlidingEntropy

SAMPLES = 2048  # most samples kept
BITS = 6.0  # top of the entropy scale
RUN = 14.0  # top of the repetition scale: 2^14 characters
BARS = " ▁▂▃▄▅▆▇█"
WHITE, GRID = (255, 255, 255), (225, 225, 230)
BLUE, ORANGE, RED = (38, 90, 200), (225, 125, 20), (210, 30, 40)


class Sample(NamedTuple):
    """One point of the curves: offset, entropy in bits, length of the repetition going on."""

    position: int
    bits: float
    run: int


class Profile:
    """Samples entropy and repetition along a stream, and keeps its stalls."""

    def __init__(self, *, every: int = 8) -> None:
        self.samples: list[Sample] = []
        self.stalls: list[Stall] = []
        self._every = every
        self._entropy = SlidingEntropy(64)
        self._detector = RepeatDetector()
        self._seen = 0

    def feed(self, text: str) -> None:
        """Take text in."""
        for char in text:
            bits = self._entropy.push(char)
            stall = self._detector.feed(char)
            self._seen += 1
            if stall and len(self.stalls) < SAMPLES:
                self.stalls.append(stall)
            if not self._seen % self._every:
                self.samples.append(Sample(self._seen, bits, self._detector.run))
        while len(self.samples) > SAMPLES:
            del self.samples[::2]
            self._every *= 2


def terminal(profile: Profile, *, width: int = 72) -> str:
    """Both curves as rows of bars, stalls marked below."""
    cells = [_cell(profile.samples, column, width) for column in range(width)]
    marks = [" "] * width
    end = profile.samples[-1].position if profile.samples else 1
    for stall in profile.stalls:
        marks[min(width - 1, stall.onset * width // max(1, end))] = "<"
        marks[min(width - 1, stall.position * width // max(1, end))] = "x"
    rows = [
        "entropy    " + "".join(_bar(bits / BITS) for bits, _ in cells),
        "repetition " + "".join(_bar(_height(run)) for _, run in cells),
        "stalls     " + "".join(marks),
    ]
    return "\n".join(row.rstrip() for row in rows) + "\n"


def png(profile: Profile, path: Path, *, width: int = 960, height: int = 360) -> None:
    """Both curves as a PNG file."""
    half = height // 2
    rows = [[WHITE] * width for _ in range(height)]
    for y in (*range(0, half, half // 6), half, *range(half, height, half // 7)):
        rows[y] = [GRID] * width
    end = profile.samples[-1].position if profile.samples else 1
    for stall in profile.stalls:
        _column(rows, stall.position * (width - 1) // end, RED)
    _curve(rows, [s.bits / BITS for s in profile.samples], (0, half), BLUE)
    _curve(rows, [_height(s.run) for s in profile.samples], (half, height), ORANGE)
    path.write_bytes(_encoded(rows))


def target(name: str) -> Callable[[Profile], str]:
    """What draws to this name: "terminal" gives text, a .png file is written; else an error."""
    if name == "terminal":
        return terminal
    path = Path(name)
    if path.suffix.lower() != ".png":
        raise InputError(f"cannot plot to {name}", hint="give a .png file, or the word terminal")

    def draw(profile: Profile) -> str:
        try:
            png(profile, path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error
        return ""

    return draw


def _height(run: int) -> float:
    return min(1.0, log2(run + 1) / RUN)


def _bar(share: float) -> str:
    return BARS[min(len(BARS) - 1, round(share * (len(BARS) - 1)))]


def _cell(samples: Sequence[Sample], column: int, width: int) -> tuple[float, int]:
    """Least entropy and longest repetition of one column."""
    start, stop = column * len(samples) // width, (column + 1) * len(samples) // width
    part = samples[start : max(stop, start + 1)]
    if not part:
        return 0.0, 0
    return min(s.bits for s in part), max(s.run for s in part)


Color = tuple[int, int, int]
Rows = list[list[Color]]


def _column(rows: Rows, x: int, color: Color) -> None:
    for row in rows:
        row[min(x, len(row) - 1)] = color


def _curve(rows: Rows, values: Sequence[float], band: tuple[int, int], color: Color) -> None:
    """A line through the values, joined column by column."""
    top, bottom = band[0] + 2, band[1] - 2
    width, before = len(rows[0]), None
    for x in range(width if values else 0):
        value = min(1.0, max(0.0, values[x * len(values) // width]))
        y = round(bottom - value * (bottom - top))
        first = y if before is None else before
        for at in range(min(y, first), max(y, first) + 1):
            rows[at][x] = color
        before = y


def _encoded(rows: Rows) -> bytes:
    """The rows as an RGB PNG, each row unfiltered."""
    raw = b"".join(b"\0" + bytes(value for color in row for value in color) for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
