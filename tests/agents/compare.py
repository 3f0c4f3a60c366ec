"""Compare a run with the same run without us: what reached the service, what is on the disk, what it cost."""

import difflib
import re

# What is new in every run of an agent, whoever stands between it and the service.
_NEW_EVERY_TIME = re.compile(
    "|".join(
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",  # ids
            r"\b(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})\b",  # of a fence, a trace, a commit, a device
            r"(?<=date and time is: )20[0-9T:.-]+",
            r"\b(?:ses|msg|prt)_[0-9a-zA-Z]{20,}",  # OpenCode's
            r"(?<!\d)1[7-9]\d{8}(?:\d{3}|\.\d+)?(?!\d)",  # now, in seconds or milliseconds
            r"(?<=Chunk ID: )[0-9a-f]{6}",
            r'(?<=chunk_id\\":\\")[0-9a-f]{6}',
            r'(?<=wall_time_seconds\\":)[0-9.e-]+',
            r"(?<=Wall time )[0-9.]+",
            r"(?<=Process Group PGID: )\d+",
            r"(?<=Wall time: )[0-9.]+",
            r"(?<=127\.0\.0\.1:)\d{4,5}",
        )
    )
)
# Codex writes the fields of this object in another order every time.
_UNORDERED = re.compile(r'"client_metadata":\{((?:"[^"]*":"(?:[^"\\]|\\.)*",?)*)\}')
_FIELD = re.compile(r'"[^"]*":"(?:[^"\\]|\\.)*"')
# What each connection says for itself. A gateway has connections of its own, and must be able to read the answer.
_OF_THE_CONNECTION = frozenset(
    (
        "host",
        "connection",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "transfer-encoding",
        "keep-alive",
    )
)


def steady(text):
    """A text without what is new in every run."""
    return _NEW_EVERY_TIME.sub("*", text)


def lines_of(sent):
    """A request as lines: its first, its headers in their order, its body cut at every field."""
    headers = [(name.lower(), value) for name, value in sent.headers]
    kept = [f"{name}: {value}" for name, value in headers if name not in _OF_THE_CONNECTION]
    body = sent.plain.decode("utf-8", "backslashreplace")
    body = _UNORDERED.sub(lambda found: ",".join(sorted(_FIELD.findall(found[1]))), body)
    return [steady(line) for line in (f"{sent.method} {sent.target}", *kept, *re.split(r"(?<=,)(?=[\"{])", body))]  # fmt: skip


def differences(direct, other, *, most=12):
    """How two lists of requests differ, as lines; empty if they do not."""
    found = []
    if len(direct) != len(other):
        found.append(f"{len(other)} requests reached the service, {len(direct)} without us")
    for number, (one, two) in enumerate(zip(direct, other, strict=False), start=1):
        lines = difflib.unified_diff(lines_of(one), lines_of(two), "direct", "with us", n=0, lineterm="")  # fmt: skip
        found += [
            f"request {number}: {line[:300]}" for line in [*lines][2:] if not line.startswith("@@")
        ]
    return found[:most]


def in_order(calls):
    """The requests of model calls: those of the main loop first, since the others run beside it."""
    return [call.sent for call in sorted(calls, key=lambda call: not call.main)]


def worse_than(direct, other, scenario):
    """All in which a run is worse than the same run without us."""
    found = [*_work(direct, other, scenario), *_cost(direct, other, scenario)]
    if other.refused > direct.refused:
        found.append(f"the service refused {other.refused} requests, {direct.refused} without us")
    alone, with_us = in_order(direct.play.calls), in_order(other.play.calls)
    if scenario.same_requests is not None:
        alone = alone[: scenario.same_requests]
        with_us = with_us[: len(alone)]
    found += differences(alone, with_us)
    if scenario.same_requests is None and steady(other.stdout) != steady(direct.stdout):
        found.append(f"it said {other.stdout[-200:]!r} instead of {direct.stdout[-200:]!r}")
    return found


def _work(direct, other, scenario):
    """In what the work itself is worse."""
    if scenario.recovers:
        if not other.finished:
            yield "the task is not done"
        return
    if other.code != direct.code:
        yield f"it ended with exit code {other.code}, not {direct.code}: {other.stderr[-300:]!r}"
    if direct.finished and not other.finished:
        yield "the task is not done"
    if scenario.same_requests is None and other.files != direct.files:
        yield f"its files are {sorted(other.files)}, not {sorted(direct.files)}, or differ"


def _cost(direct, other, scenario):
    """In what it costs more."""
    allowed = direct.calls + scenario.more_calls
    if not (scenario.recovers and other.finished) and other.calls > allowed:
        yield f"{other.calls} model calls, {direct.calls} without us"
    better = other.finished and not direct.finished  # more was done
    if scenario.loops and not better and other.output_tokens > direct.output_tokens:
        yield f"{other.output_tokens} tokens were generated, {direct.output_tokens} without us"
