"""Meters: counters and histograms in the Prometheus text format, and their sum over several processes.

A meter's labels are few and known beforehand, so that the series of a service have a bound. In a folder, each
process writes its numbers to a file of its own, and whoever is asked adds up all files: counters of a process that
has ended stay in the sum, as a counter must.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

import orjson

Kind = Literal["counter", "histogram", "gauge"]
Values = dict[str, list[float]]


class Meter(NamedTuple):
    """What is measured: its name, what it means, its label, and for a histogram the upper bounds of its buckets."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Meters:
    """The numbers of one process, under a lock."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self._meters = {meter.name: meter for meter in meters}
        self._values: dict[str, Values] = {meter.name: {} for meter in meters}
        self._lock = Lock()
        for meter in meters:
            if not meter.labels:
                self._values[meter.name][_key(())] = self._zero(meter)

    def add(self, name: str, amount: float = 1.0, *labels: str) -> None:
        """Count something."""
        with self._lock:
            held = self._values[name].setdefault(_key(labels), [0.0])
            held[0] += amount

    def observe(self, name: str, values: Iterable[float], *labels: str) -> None:
        """Put values into a histogram."""
        meter = self._meters[name]
        with self._lock:
            held = self._values[name].setdefault(_key(labels), self._zero(meter))
            for value in values:
                for at, bound in enumerate(meter.bounds):
                    held[at] += value <= bound
                held[-2] += value
                held[-1] += 1

    def snapshot(self) -> dict[str, Values]:
        """All numbers, as plain values."""
        with self._lock:
            return {n: {k: list(v) for k, v in held.items()} for n, held in self._values.items()}

    def render(self, snapshots: Iterable[Mapping[str, Values]]) -> str:
        """The sum of some snapshots as text."""
        total = _sum(snapshots)
        lines: list[str] = []
        for name, meter in self._meters.items():
            lines += [f"# HELP {name} {meter.help}", f"# TYPE {name} {meter.kind}"]
            for key, held in sorted(total.get(name, {}).items()):
                lines += _series(meter, orjson.loads(key), held)
        return "\n".join(lines) + "\n"

    def _zero(self, meter: Meter) -> list[float]:
        return [0.0] * (len(meter.bounds) + 2 if meter.kind == "histogram" else 1)


class Shared:
    """The numbers of the processes that share a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mine = folder / f"{os.getpid()}.json"

    def write(self, snapshot: Mapping[str, Values]) -> None:
        """Put this process's numbers where the others see them, whole or not at all."""
        fresh = self._mine.with_suffix(".new")
        with suppress(FileNotFoundError):  # the folder goes when the whole service ends
            fresh.write_bytes(orjson.dumps(snapshot))
            fresh.replace(self._mine)

    def others(self) -> Iterator[dict[str, Values]]:
        """The numbers of all the other processes, those that have ended included."""
        for file in sorted(self._folder.glob("*.json")):
            if file != self._mine:
                yield orjson.loads(file.read_bytes())


def _sum(snapshots: Iterable[Mapping[str, Values]]) -> dict[str, Values]:
    total: dict[str, Values] = {}
    for snapshot in snapshots:
        for name, series in snapshot.items():
            held = total.setdefault(name, {})
            for key, values in series.items():
                before = held.get(key, [0.0] * len(values))
                held[key] = [a + b for a, b in zip(before, values, strict=True)]
    return total


def _series(meter: Meter, labels: Sequence[str], held: Sequence[float]) -> Iterator[str]:
    pairs = [_pair(name, value) for name, value in zip(meter.labels, labels, strict=True)]
    if meter.kind != "histogram":
        yield f"{meter.name}{_braced(pairs)} {held[0]:.17g}"
        return
    bounds = [*(f"{bound:g}" for bound in meter.bounds), "+Inf"]
    counts = [*held[: len(meter.bounds)], held[-1]]
    for bound, count in zip(bounds, counts, strict=True):
        yield f"{meter.name}_bucket{_braced([*pairs, _pair('le', bound)])} {count:.17g}"
    yield f"{meter.name}_sum{_braced(pairs)} {held[-2]:.17g}"
    yield f"{meter.name}_count{_braced(pairs)} {held[-1]:.17g}"


def _braced(pairs: Sequence[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _pair(name: str, value: str) -> str:
    quoted = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{quoted}"'


def _key(labels: Sequence[str]) -> str:
    return orjson.dumps(labels).decode()
