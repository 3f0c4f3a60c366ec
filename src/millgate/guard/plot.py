"""Plot: entropy and repetition along a stream, as a PNG or in the terminal.

A Profile samples both curves while text flows; when it has too many samples it drops every second one, so
an endless stream needs no more memory than a short one. Above: character entropy over 64 characters. Below: length of
the repetition going on, on a logarithmic scale. Red: from where a loop begins to where it is seen.
"""

from collections.abc import Callable, Sequence
from math import log2
from pathlib import Path
from typing import NamedTuple

from millgate.errors import InputError, MissingExtra
from millgate.guard.detectors import RepeatDetector, Stall
from millgate.text.entropy import SlidingEntropy

SAMPLES = 2048  # most samples kept
BITS = 6.0  # top of the entropy scale
RUN = 14.0  # top of the repetition scale: 2^14 characters
BARS = " ▁▂▃▄▅▆▇█"


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


def png(profile: Profile, path: Path) -> None:
    """Both curves as a PNG file; needs the extra `plot`."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded when asked for
    except ImportError:
        raise MissingExtra("matplotlib", extra="plot") from None
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    at = [sample.position for sample in profile.samples]
    upper.plot(at, [sample.bits for sample in profile.samples], linewidth=1)
    upper.set(ylabel="entropy of 64\ncharacters, bits", ylim=(0, BITS))
    lower.plot(at, [sample.run for sample in profile.samples], linewidth=1, color="tab:orange")
    lower.set(ylabel="repetition,\ncharacters", xlabel="character of the stream")
    lower.set_yscale("symlog", linthresh=10)
    for number, stall in enumerate(profile.stalls):
        for axis in (upper, lower):
            axis.axvspan(stall.onset, stall.position, color="tab:red", alpha=0.15)
            axis.axvline(stall.position, color="tab:red", linewidth=1)
        if not number:
            upper.set_title(f"loop from {stall.onset}, seen at {stall.position}: {stall.reason}")
    figure.savefig(path, dpi=100)


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
    """The lowest entropy and the longest repetition among the samples of one column."""
    start, stop = column * len(samples) // width, (column + 1) * len(samples) // width
    part = samples[start : max(stop, start + 1)]
    if not part:
        return 0.0, 0
    return min(s.bits for s in part), max(s.run for s in part)
