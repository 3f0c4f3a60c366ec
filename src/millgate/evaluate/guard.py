"""Evaluate the guard's detectors on labeled streams.

A file holds one JSON object a line (gzip or plain): chunks, and label {loop, near, mid}; a stream is clean
when all three are empty. Each stream is fed chunk by chunk until the first stall, as the guard would.
    found        a loop stream was stopped, at its loop or before its onset
    at loop      the loop itself stalls, fed on to its end: a stop before the onset is not a find
    onset error  distance to the labeled onset, or to the true start if an earlier run was stopped
    held         clean streams ever held; held_chars went out late
    mid          streams whose only repetitions, all under 300 characters, ended by themselves
"""

import gzip
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from millgate.errors import InputError
from millgate.guard.detectors import (
    CountingDetector,
    Detector,
    HoldingDetector,
    RepeatDetector,
    Stall,
)
from millgate.text.bounded_json import describe_json_error

LONG = (
    300  # characters from which a loop counts as long, and below which a repetition counts as short
)


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
    in_loop: bool = False  # whether the labeled loop stalled, before or after another repetition
    warned: bool = False
    was_held: bool = False
    held: int = 0  # characters held back until a repetition broke off
    chars: int = 0


def evaluate(
    streams: Iterable[LabeledStream], detector: Callable[[], Detector] = RepeatDetector
) -> dict[str, float]:
    """Feed every stream through a fresh detector and count: counts and percentiles by name, no shares."""
    every = list(streams)
    watched = [watch(stream, detector()) for stream in every]
    loops = [s for s in watched if s.stream.loop]
    long = [s for s in loops if s.stream.loop and int(s.stream.loop["len"]) >= LONG]
    clean = [s for s in watched if s.stream.clean]
    near = [s for s in watched if s.stream.near and not s.stream.loop]
    brief = [s for s in watched if s.stream.brief]
    stalls = [(s, s.stall) for s in loops if s.stall]
    delays = [stall.position - stall.onset for _, stall in stalls]
    errors = [onset_error(s.stream, stall) for s, stall in stalls]
    return {
        "streams": len(watched),
        "loops": len(loops),
        "found": len(stalls),
        "long": len(long),
        "found_long": sum(s.stall is not None for s in long),
        "found_at_loop": sum(s.in_loop for s in loops),
        "clean": len(clean),
        "clean_cut": sum(s.stall is not None for s in clean),
        "delay_chars_p50": percentile(delays, 50),
        "delay_chars_p95": percentile(delays, 95),
        "onset_error_p95": percentile(errors, 95),
        "onset_error_max": max(errors, default=0),
        "held": sum(s.was_held for s in clean),
        "held_chars": sum(s.held for s in clean),
        "clean_chars": sum(s.chars for s in clean),
        "near": len(near),
        "near_warned": sum(s.warned for s in near),
        "clean_warned": sum(s.warned for s in clean),
        "mid": len(brief),
        "mid_cut": sum(s.stall is not None for s in brief),
        "ns_per_char": round(ns_per_char([s for s in every if s.clean] or every, detector), 1),
    }


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


def watch(stream: LabeledStream, detector: Detector) -> Watched:
    """Feed one stream: to its first stall as the guard would, and on to see whether its loop is found."""
    watched, counting = Watched(stream), CountingDetector()
    held_from: int | None = None
    for chunk in stream.chunks:
        watched.chars += len(chunk)
        watched.warned = counting.feed(chunk) is not None or watched.warned
        stall = detector.feed(chunk)
        if stall and stream.loop and stall.position > stream.loop["onset"]:
            watched.in_loop = True
        if watched.stall:
            continue
        watched.stall = stall
        hold = detector.hold if isinstance(detector, HoldingDetector) else None
        if hold is not None and held_from is None:
            held_from = max(hold, watched.chars - len(chunk))  # what came before has gone out
            watched.was_held = True
        elif hold is None and held_from is not None:
            watched.held += watched.chars - held_from
            held_from = None
    return watched


def onset_error(stream: LabeledStream, stall: Stall) -> int:
    """Characters between the reported onset and the true one.

    The label gives the true onset if it names this very run, else the run's own start in the text does.
    """
    loop = stream.loop
    if loop and loop["period"] == stall.period and stall.position > loop["onset"]:
        return abs(stall.onset - int(loop["onset"]))
    return abs(stall.onset - true_onset("".join(stream.chunks), stall))


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
