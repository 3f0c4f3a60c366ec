"""Analyze: from the files of recorded sessions to findings, in one pass and bounded memory."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from millgate.sessions.xray.entries import read_entries
from millgate.sessions.xray.files import Lines
from millgate.sessions.xray.findings import Session, Xray
from millgate.sessions.xray.folds import FoldFollower
from millgate.sessions.xray.formats import session_of
from millgate.sessions.xray.session import SessionBuilder
from millgate.spending.prices import Prices

LARGEST = 200  # sessions of which windows are kept
MOST_KINDS = 20  # kinds of lines that were passed over, the most frequent first
OPEN_SESSIONS = 16  # conversations of one log that are followed at a time


def analyze(files: Iterable[Path], prices: Prices | None = None) -> Xray:
    """What filled the windows of all sessions in these files, and what broke their caches."""
    prices = prices or Prices()
    sessions: list[Session] = []
    lines = skipped = size = count = 0
    passed_over, unread = Counter[str](), []
    for path in files:
        source = Lines(path)
        sessions += _sessions(source, prices)
        passed_over += source.passed_over
        if not source.understood:
            unread.append(str(path))
        count, lines, skipped, size = count + 1, lines + source.read, skipped + source.skipped, size + source.size  # fmt: skip
        if len(sessions) > 2 * LARGEST:
            sessions = _thin(sessions)
    kinds = dict(passed_over.most_common(MOST_KINDS))
    return Xray(tuple(_thin(sessions)), count, size, lines, skipped, kinds, tuple(unread))


def _sessions(source: Lines, prices: Prices) -> Iterator[Session]:
    """The sessions of one file, each as soon as it is complete."""
    building: OrderedDict[str, SessionBuilder] = OrderedDict()
    current = ""
    for entry in read_entries(source):
        current = session_of(entry) or current
        if current not in building:
            name = current or source.path.stem
            building[current] = SessionBuilder(name, str(source.path), prices, FoldFollower(prices))
        building.move_to_end(current)
        building[current].add_entry(entry)
        if len(building) > OPEN_SESSIONS:
            yield from _finish(building.popitem(last=False)[1])
    for builder in building.values():
        yield from _finish(builder)


def _finish(builder: SessionBuilder) -> Iterator[Session]:
    """The session, unless it is empty."""
    session = builder.finish()
    if session.turns or session.added:
        yield session


def _thin(sessions: list[Session]) -> list[Session]:
    """The sessions, largest first; only the LARGEST keep their windows."""
    ordered = sorted(sessions, key=lambda session: -session.added)
    rest = [replace(session, windows=()) for session in ordered[LARGEST:]]
    return ordered[:LARGEST] + rest
