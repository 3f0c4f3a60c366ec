"""Evaluate the guard's detectors on labeled streams.

A file holds one JSON object a line (gzip or plain): chunks, and label {loop, near, mid}; a stream is clean
when all three are empty. Each stream is fed chunk by chunk until the first stall, as the guard would.
    found        a loop stream was stopped, at its loop or before its onset (stopped_early)
    at loop      the loop itself stalls, fed on to its end: a stop before the onset is not a find
    onset error  distance to the labeled onset, or to the true start if an earlier run was stopped
    held         clean streams ever held; held_chars went out late, held_at_end when the stream ended
    mid          streams whose only repetitions, all under 300 characters, ended by themselves
"""

import gzip
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from millgate.errors import InputError
from millgate.guard.counting import CountingDetector
from millgate.guard.detectors import Detector, HoldingDetector, RepeatDetector, Stall
from millgate.text.bounded_json import describe_json_error

# characters from which a loop counts as long, and below which a repetition counts as short
LONG = 300
UNIT = 40  # shortest period whose hold-back is measured
REACH = 1.3  # periods by which such a loop should be held
DELAY = (3.2, 64)  # periods and characters the median delay is compared with


@dataclass(frozen=True, slots=True)
class LabeledStream:
    """One labeled stream."""

    id: str
    chunks: tuple[str, ...]
    loop: Mapping[str, Any] | None = None
    near: Mapping[str, Any] | None = None
    mid: tuple[Mapping[str, Any], ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing in it repeats."""
        return not (self.loop or self.near or self.mid)

    @property
    def brief(self) -> bool:
        """Whether it holds only short repetitions that ended by themselves."""
        if self.loop or self.near or not self.mid:
            return False
        return all(run["end"] - run["start"] < LONG for run in self.mid)


@dataclass(slots=True)
class Watched:
    """How the detectors treated one stream."""

    stream: LabeledStream
    stall: Stall | None = None
    in_loop: bool = (
        False  # whether the labeled loop itself stalled, before or after another repetition
    )
    warned: bool = False
    holds: int = 0  # how often text was held back
    held: int = 0  # characters held back until a repetition broke off
    held_last: int = 0  # characters held back when the stream ended inside a repetition
    reach: float | None = None  # periods of the labeled loop after which it was held
    chars: int = 0


@dataclass(slots=True)
class Figures:
    """Numbers over all streams."""

    watched: list[Watched] = field(default_factory=list)
    nanoseconds: float = 0.0

    def summary(self) -> dict[str, float]:
        """The figures by name: counts and percentiles, no shares."""
        loops = [s for s in self.watched if s.stream.loop]
        found = [s for s in loops if s.stall]
        long = [s for s in loops if _loop_length(s) >= LONG]
        clean = [s for s in self.watched if s.stream.clean]
        brief = [s for s in self.watched if s.stream.brief]
        near = [s for s in self.watched if s.stream.near and not s.stream.loop]
        delays = [s.stall.position - s.stall.onset for s in found if s.stall]
        excess = [_excess(s.stall) for s in found if s.stall]
        errors = [_onset_error(s) for s in found]
        reaches = [s.reach for s in self.watched if s.reach is not None]
        return {
            "streams": len(self.watched),
            "loops": len(loops),
            "found": len(found),
            "long": len(long),
            "found_long": sum(s.stall is not None for s in long),
            "found_at_loop": sum(s.in_loop for s in loops),
            "stopped_early": sum(_is_stopped_early(s) for s in found),
            "clean": len(clean),
            "clean_cut": sum(s.stall is not None for s in clean),
            "delay_chars_p50": percentile(delays, 50),
            "delay_chars_p95": percentile(delays, 95),
            "delay_excess_p50": percentile(excess, 50),
            "onset_error_p95": percentile(errors, 95),
            "onset_error_max": max(errors, default=0),
            "held": sum(s.holds > 0 for s in clean),
            "held_chars": sum(s.held for s in clean),
            "held_at_end": sum(s.held_last for s in clean),
            "clean_chars": sum(s.chars for s in clean),
            "hold_loops": len(reaches),
            "hold_in_time": sum(reach <= REACH for reach in reaches),
            "near": len(near),
            "near_warned": sum(s.warned for s in near),
            "clean_warned": sum(s.warned for s in clean),
            "mid": len(brief),
            "mid_cut": sum(s.stall is not None for s in brief),
            "ns_per_char": round(self.nanoseconds, 1),
        }


def evaluate(
    streams: Iterable[LabeledStream], detector: Callable[[], Detector] = RepeatDetector
) -> dict[str, float]:
    """Feed every stream through a fresh detector and count."""
    everyone = list(streams)
    figures = Figures([_watch(stream, detector()) for stream in everyone])
    figures.nanoseconds = ns_per_char([s for s in everyone if s.clean] or everyone, detector)
    return figures.summary()


def ns_per_char(streams: Sequence[LabeledStream], detector: Callable[[], Detector]) -> float:
    """CPU nanoseconds a character, chunk by chunk."""
    chars = sum(len(chunk) for stream in streams for chunk in stream.chunks)
    began = time.process_time_ns()
    for stream in streams:
        feed = detector().feed
        for chunk in stream.chunks:
            feed(chunk)
    return (time.process_time_ns() - began) / max(1, chars)


def read(path: Path) -> Iterator[LabeledStream]:
    """The streams of a file, gzip or plain; InputError names the line that cannot be read."""
    if not path.is_file():
        raise InputError(f"{path} is not a file", hint="give a .jsonl or .jsonl.gz file of streams")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _stream(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _stream(line: bytes, where: str) -> LabeledStream:
    hint = 'a line is {"chunks": [...], "label": {"loop": ..., "near": ..., "mid": [...]}}'
    try:
        row = orjson.loads(line)
        label = row["label"]
        return LabeledStream(
            id=str(row.get("id", where)),
            chunks=tuple(map(str, row["chunks"])),
            loop=label.get("loop"),
            near=label.get("near"),
            mid=tuple(label.get("mid") or ()),
        )
    except orjson.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON ({describe_json_error(error)})", hint=hint) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: not a labeled stream ({error})", hint=hint) from error


def _watch(stream: LabeledStream, detector: Detector) -> Watched:
    """Feed one stream: to its first stall as the guard would, and on to see whether its loop is found."""
    watched = Watched(stream)
    counting = CountingDetector()
    holding = detector if isinstance(detector, HoldingDetector) else None
    held_from: int | None = None
    for chunk in stream.chunks:
        watched.chars += len(chunk)
        watched.warned = counting.feed(chunk) is not None or watched.warned
        stall = detector.feed(chunk)
        watched.in_loop = watched.in_loop or _is_in_loop(stream, stall)
        if watched.stall:
            continue
        watched.stall = stall
        hold = holding.hold if holding is not None else None
        if hold is not None and held_from is None:
            held_from = max(hold, watched.chars - len(chunk))  # what came before has gone out
            watched.holds += 1
            _note_hold(watched, held_from)
        elif hold is None and held_from is not None:
            watched.held += watched.chars - held_from
            held_from = None
    if held_from is not None and watched.stall is None:
        watched.held_last = watched.chars - held_from
    return watched


def _note_hold(watched: Watched, hold: int) -> None:
    """Note after how many periods of repetition the labeled loop was first held back."""
    loop = watched.stream.loop
    if loop and loop["period"] >= UNIT and hold > loop["onset"] + loop["period"]:
        reach = (hold - loop["onset"]) / loop["period"] - 1
        watched.reach = reach if watched.reach is None else min(watched.reach, reach)


def _is_in_loop(stream: LabeledStream, stall: Stall | None) -> bool:
    return bool(stream.loop and stall and stall.position > stream.loop["onset"])


def _is_stopped_early(watched: Watched) -> bool:
    """Whether an earlier repetition, not the labeled loop, stopped the stream."""
    loop, stall = watched.stream.loop, watched.stall
    return bool(loop and stall and stall.position <= loop["onset"])


def _loop_length(watched: Watched) -> int:
    return int(watched.stream.loop["len"]) if watched.stream.loop else 0


def _excess(stall: Stall) -> float:
    periods, chars = DELAY
    return stall.position - stall.onset - periods * stall.period - chars


def _onset_error(watched: Watched) -> int:
    """Characters between the reported onset and the true one.

    The label gives the true onset if it names this very run, else the run's own start in the text does.
    """
    stall, loop = watched.stall, watched.stream.loop
    if stall is None:
        return 0
    if loop and loop["period"] == stall.period and stall.position > loop["onset"]:
        return abs(stall.onset - int(loop["onset"]))
    return abs(stall.onset - true_onset("".join(watched.stream.chunks), stall))


def true_onset(text: str, stall: Stall) -> int:
    """Where the repetition that a stall names begins, by brute force; its position if the period is unknown."""
    if not stall.period:
        return stall.position
    at = stall.position
    while at > stall.period and text[at - 1] == text[at - 1 - stall.period]:
        at -= 1
    return at - stall.period


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; 0 of nothing."""
    if not values:
        return 0.0
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))]
