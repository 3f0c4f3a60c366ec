"""Own headers: those that a request may carry for the gate itself, and what is said of one that does not exist."""

from collections.abc import Iterable

from millgate.text.meant import nearest

PREFIX = "x-millgate-"
# `wrap` is what `millgate wrap` sends to its own gateway.
NAMES = frozenset(
    {
        "budget", "circles", "collection", "compaction", "context", "fold", "guard", "guard-detector",
        "guard-divergence-token", "guard-tool-calls", "k", "key", "session", "upstream", "window", "wrap",
    }
)  # fmt: skip
MOST = 5  # that are told: one mistake has one or two


def describe_unknown(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The headers of ours that do not exist, each with the nearest that does; "" if there is none."""
    given = (name.decode("latin-1").lower() for name, _ in headers)
    names = dict.fromkeys(name.removeprefix(PREFIX) for name in given if name.startswith(PREFIX))
    return ", ".join(_describe(name[:80]) for name in [n for n in names if n not in NAMES][:MOST])


def _describe(name: str) -> str:
    close = nearest(name, NAMES)
    return f"{PREFIX}{name}" + (f" (did you mean {PREFIX}{close}?)" if close else "")
