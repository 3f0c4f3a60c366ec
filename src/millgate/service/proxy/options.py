"""Options: what the client wants of the proxy itself.

It stands in `x-millgate-*` headers, which never reach the upstream.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millgate.circles.policy import CirclesPolicy
from millgate.guard.dialects.dialect import InvalidRequest
from millgate.service.proxy.session_name import safe_name
from millgate.sessions.compaction.policy import MODES as COMPACTION_MODES
from millgate.sessions.compaction.policy import Mode as CompactionMode
from millgate.sessions.folding.policy import MODES as FOLD_MODES
from millgate.sessions.folding.policy import Mode as FoldMode
from millgate.types.lengths import NAME_CHARS
from millgate.types.policy import ProxyPolicy

M = TypeVar("M", bound=str)
GUARD_HEADERS = {
    "detector": "x-millgate-guard-detector",
    "divergence_token": "x-millgate-guard-divergence-token",
    "tool_calls": "x-millgate-guard-tool-calls",
}
ENTROPY_HEADERS = {
    "window": "x-millgate-guard-window",
    "min_bits": "x-millgate-guard-min-bits",
    "max_drop": "x-millgate-guard-max-drop",
    "span": "x-millgate-guard-span",
    "warm_up": "x-millgate-guard-warm-up",
}
SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What the client wants of the proxy."""

    guard: bool = True
    guard_changes: Mapping[str, Any] = field(default_factory=dict)
    context: bool = False
    collection: str = "main"
    budget: int = 1000
    k: int | None = None
    window: int = 0
    upstream: str = ""
    session: str = ""
    circles: CirclesPolicy | None = None
    """The rungs that the client wants; None: as the settings say."""
    compaction: CompactionMode | None = None
    """What the client wants done about compactions; None: as the settings say."""
    fold: FoldMode | None = None
    """Whether the client wants its request folded; None: as the settings say."""


def parse_options(headers: Iterable[tuple[bytes, bytes]], policy: ProxyPolicy) -> Options:
    """What the headers say about guard and context; an error names the header."""
    given = {
        name.decode("latin-1").lower(): value.decode("latin-1").strip()
        for name, value in headers
        if name.lower().startswith(b"x-millgate-")
    }
    long = next((name for name, value in given.items() if len(value) > NAME_CHARS), None)
    if long is not None:
        raise InvalidRequest(
            f"{long[:80]} has {len(given[long]):,} characters; it may have {NAME_CHARS}",
            param=long[:80],
        )
    if not given:
        return Options(context=policy.context, collection=policy.collection, budget=policy.budget)
    return Options(
        guard=_parse_switch(given, "x-millgate-guard", default=True),
        guard_changes=_parse_guard(given),
        context=_parse_switch(given, "x-millgate-context", default=policy.context),
        collection=given.get("x-millgate-collection") or policy.collection,
        budget=_parse_number(given, "x-millgate-budget") or policy.budget,
        k=_parse_number(given, "x-millgate-k") or None,
        window=_parse_number(given, "x-millgate-window"),
        session=safe_name(given.get("x-millgate-session", "")),
        upstream=given.get("x-millgate-upstream", ""),
        circles=_parse_rungs(given),
        compaction=_parse_mode(given, "x-millgate-compaction", COMPACTION_MODES),
        fold=_parse_mode(given, "x-millgate-fold", FOLD_MODES),
    )


def _parse_guard(given: Mapping[str, str]) -> dict[str, Any]:
    """What the headers change in the guard's policy, which checks the values."""
    rule = {name: given[header] for name, header in ENTROPY_HEADERS.items() if header in given}
    changes: dict[str, Any] = {"entropy": rule} if rule else {}
    changes |= {name: given[header] for name, header in GUARD_HEADERS.items() if header in given}
    return changes


def _parse_switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if value.lower() not in SWITCH:
        raise InvalidRequest(f"{name} is {value[:80]!r}; it must be on or off", param=name)
    return SWITCH[value.lower()]


def _parse_rungs(given: Mapping[str, str]) -> CirclesPolicy | None:
    """`x-millgate-circles`: off, on, or rungs as note=3, list=5, end=8."""
    name = "x-millgate-circles"
    value = given.get(name)
    if value is None or SWITCH.get(value.lower()):
        return None
    if SWITCH.get(value.lower()) is False:
        return CirclesPolicy(rungs={})
    pairs = [part.split("=") for part in value.replace(" ", "").split(",")]
    try:
        return CirclesPolicy.model_validate({"rungs": dict(pairs)})
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is {value[:80]!r}; it must be on, off, or rungs as note=3,list=5,end=8",
            param=name,
        ) from error


def _parse_mode(given: Mapping[str, str], name: str, modes: tuple[M, ...]) -> M | None:
    value = given.get(name, "").lower()
    found = next((mode for mode in modes if mode == value), None)
    if value and found is None:
        allowed = f"{', '.join(modes[:-1])} or {modes[-1]}"
        raise InvalidRequest(f"{name} is {value[:80]!r}; it must be {allowed}", param=name)
    return found


def _parse_number(given: Mapping[str, str], name: str) -> int:
    value = given.get(name)
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and int(value[:10]) > 0 and len(value) < 10):
        raise InvalidRequest(f"{name} is {value[:80]!r}; it must be a positive number", param=name)
    return int(value)
