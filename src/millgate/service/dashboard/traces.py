"""Traces of a list: those that can still be read, and of the others why not.

Between the list and the reading a trace may be pruned, and one of many may be damaged. Either costs its own row.
"""

from collections.abc import Iterable
from typing import NamedTuple

from millgate.errors import DamagedError, NotFound
from millgate.gateway import Millgate
from millgate.types import Trace, TraceSummary


class ReadTraces(NamedTuple):
    """Traces in the order of their rows, and the reason of each that is missing, by its id."""

    found: list[Trace]
    missing: dict[str, str]


def read_traces(gate: Millgate, rows: Iterable[TraceSummary]) -> ReadTraces:
    """The traces of some rows."""
    read = ReadTraces([], {})
    for row in rows:
        try:
            read.found.append(gate.trace(row.id))
        except NotFound:
            read.missing[row.id] = "no longer stored"
        except DamagedError as error:
            read.missing[row.id] = error.message
    return read
