"""Evaluate the guard's detector on collected answers: how many it cuts, and whether they deserve it.

A file is .jsonl or .jsonl.gz with one {"text": ...} a line, or .json with a list of {"output": ...}; a folder is
searched for both. Each answer is fed in pieces of 24 characters.
    loops      answers that end in at least 3 copies and 300 characters; found: those that were cut
    went_on    answers that were cut although they do not end in a loop
    good_cut   of those, the ones that look good: less than half of the answer is the run, at least 40 characters
               follow it, and nothing in them is cut again. A rule of thumb: read them with --show
"""

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from millgate.errors import InputError
from millgate.guard.detectors import Detector, RepeatDetector, Stall
from millgate.text.bounded_json import describe_json_error

PIECE = 24  # characters fed at a time
LOOP = 300  # characters that a loop at the end has at least ...
COPIES = 3  # ... and copies
NEEDLE = 16  # characters of the end that are searched for ...
TRIES = 64  # ... and places where they are found that are tried as periods
REST = 40  # characters behind a run that make an answer go on
FILES = ("*.jsonl", "*.jsonl.gz", "model_outputs.json")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, and whether it ends in a loop."""

    id: str
    text: str
    loops: bool


@dataclass(frozen=True, slots=True)
class WatchedAnswer:
    """What the detector made of an answer."""

    answer: Answer
    stall: Stall | None
    good: bool


def is_answers(path: Path) -> bool:
    """Whether a file or folder holds answers rather than labeled streams."""
    if path.is_dir() or path.suffix == ".json":
        return True
    line = next(iter(_lines(path)), b"{}")
    return b'"chunks"' not in line


def read_answers(path: Path) -> Iterator[Answer]:
    """The answers of a file or folder; InputError names what cannot be read."""
    if path.is_dir():
        files = sorted(chain.from_iterable(path.rglob(pattern) for pattern in FILES))
        if not files:
            raise InputError(f"{path} holds no answers", hint=f"files: {', '.join(FILES)}")
        for file in files:
            yield from read_answers(file)
    elif path.suffix == ".json":
        rows = _parse(path.read_bytes(), str(path), describe=str)
        for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
            yield _answer(row, f"{path}:{number}")
    else:
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                yield _answer(_parse(line, f"{path}:{number}"), f"{path}:{number}")


def _lines(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise InputError(f"{path} is not a file", hint="give a .jsonl, .jsonl.gz or .json file")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as lines:
            yield from lines
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _parse(
    data: bytes, where: str, describe: Callable[[json.JSONDecodeError], str] = describe_json_error
) -> Any:  # noqa: ANN401  # whatever the file holds
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data)  # such files hold lone surrogates, which orjson refuses
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON ({describe(error)})") from error
    except ValueError as error:  # bytes that are not text
        raise InputError(f"{where}: not JSON ({error})") from error


def _answer(row: Any, where: str) -> Answer:  # noqa: ANN401  # whatever the file holds
    text = row.get("text", row.get("output")) if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise InputError(
            f"{where}: no answer", hint='an answer is {"text": ...} or {"output": ...}'
        )
    runs = row.get("repeats")
    loops = _loops_by_label(runs, len(text)) if runs is not None else ends_in_loop(text)
    return Answer(str(row.get("id", where)), text, loops)


def _loops_by_label(runs: Iterable[Any], size: int) -> bool:
    """Whether a labeled loop reaches the end of the text; the last copy may be incomplete."""
    return any(
        run["end"] + run["period"] > size
        and run["end"] - run["start"] >= max(LOOP, COPIES * run["period"])
        for run in runs
    )


def ends_in_loop(text: str) -> bool:
    """Whether a text ends in at least 3 copies and 300 characters of something."""
    text = text.rstrip()
    size = len(text)
    found = size - NEEDLE
    for _ in range(TRIES):
        found = text.rfind(text[size - NEEDLE :], 0, found + NEEDLE - 1)
        period = size - NEEDLE - found
        least = max(LOOP, COPIES * period)
        if found < 0 or least > size:
            return False
        if text[size - least + period :] == text[size - least : size - period]:
            return True
    return False


def evaluate_answers(
    answers: Iterable[Answer],
    detector: Callable[[], Detector] = RepeatDetector,
    show: Callable[[WatchedAnswer], None] | None = None,
) -> dict[str, float]:
    """Feed every answer through a fresh detector and count; `show` gets each one that was cut and goes on."""
    total = chars = cut = went_on = good = loops = found = 0
    nanoseconds = 0
    for answer in answers:
        began = time.process_time_ns()
        stall = _first_stall(answer.text, detector())
        nanoseconds += time.process_time_ns() - began
        total, chars = total + 1, chars + len(answer.text)
        cut, loops = cut + bool(stall), loops + answer.loops
        found += bool(stall) and answer.loops
        if stall and not answer.loops:
            verdict = WatchedAnswer(answer, stall, _looks_good(answer.text, stall, detector))
            went_on, good = went_on + 1, good + verdict.good
            if show:
                show(verdict)
    return {
        "answers": total,
        "chars": chars,
        "cut": cut,
        "went_on": went_on,
        "good_cut": good,
        "loops": loops,
        "found": found,
        "found_share": round(found / loops, 4) if loops else 1.0,
        "ns_per_char": round(nanoseconds / max(1, chars), 1),
    }


def _first_stall(text: str, detector: Detector) -> Stall | None:
    for start in range(0, len(text), PIECE):
        stall = detector.feed(text[start : start + PIECE])
        if stall:
            return stall
    return None


def _looks_good(text: str, stall: Stall, detector: Callable[[], Detector]) -> bool:
    """Whether the run that was cut is the lesser part of an answer that goes on without another."""
    end = stall.position
    while stall.period and end < len(text) and text[end] == text[end - stall.period]:
        end += 1
    rest = text[end:]
    is_lesser = 2 * (end - stall.onset) < len(text)
    return is_lesser and len(rest) >= REST and _first_stall(rest, detector()) is None
