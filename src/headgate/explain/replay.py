"""Replay: a stored request once more, under other settings, and what that changes.

The request runs twice over what the store holds now: as it was, and changed. So the difference is the settings' doing
alone; where the first run no longer gives what was stored (the collection has changed since), that is said as drift.
Changes are named as settings are ("gate.min_ratio"), those of the request itself plainly ("budget", "k").
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.errors import InputError
from headgate.types import Context, ContextBudget, Request, Trace

Changes = Mapping[str, Any]
Run = Callable[[Request, Changes], Awaitable[Context]]
"""Builds a context under changed settings (dotted names), leaving no trace behind."""

WINDOW = frozenset(field.name for field in fields(ContextBudget))


class RequestChanges(BaseModel):
    """What of a request a replay may change: not whose it is, nor what it asks."""

    model_config = ConfigDict(extra="forbid", strict=True)

    budget: int = 0
    k: int | None = None
    collection: str = ""
    task: str | None = None
    penalize: bool = True
    graph: bool = True
    best_effort: bool = False
    detail: Literal["whole", "preview"] = "whole"
    order: Literal["rank", "edges"] = "rank"
    context_length: int = 0
    used_tokens: int = 0
    threshold_tokens: int = 0
    compression_enabled: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the chunks shown, in order, those left out, and the size of the block."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A request before and after some changes: what came in, what went out, and the tokens.

    `drift` names chunks whose fate has changed since the trace was stored, whatever the settings.
    """

    trace: str
    changes: Changes
    before: Outcome
    after: Outcome
    entered: tuple[str, ...]
    left: tuple[str, ...]
    drift: tuple[str, ...]
    text: str

    @property
    def tokens(self) -> int:
        """Tokens more (or, negative, fewer) than before."""
        return self.after.tokens - self.before.tokens

    def as_dict(self) -> dict[str, Any]:
        """The replay as plain values."""
        return asdict(self) | {"changes": dict(self.changes), "tokens": self.tokens}


async def replay(trace: Trace, changes: Changes, run: Run) -> Replay:
    """Run a stored request as it was and with changes."""
    request = stored(trace)
    was = await run(request, {})
    now = await run(*applied(request, changes))
    before, after = outcome(was), outcome(now)
    seen = set(shown(trace))
    return Replay(
        trace=trace.id,
        changes=changes,
        before=before,
        after=after,
        entered=tuple(id for id in after.kept if id not in before.kept),
        left=tuple(id for id in before.kept if id not in after.kept),
        drift=tuple(sorted(seen ^ set(before.kept))),
        text=now.text,
    )


def stored(trace: Trace) -> Request:
    """The request of a trace, where its text was kept."""
    if not trace.request.query:
        raise InputError(
            "this trace was stored without its text, so its request cannot be run again",
            hint="set trace.text to keep it",
        )
    return trace.request


def applied(request: Request, changes: Changes) -> tuple[Request, Changes]:
    """The request with what concerns it changed, and the rest of the changes: settings."""
    settings = {name: value for name, value in changes.items() if "." in name}
    given = {name: value for name, value in changes.items() if "." not in name}
    try:
        asked = RequestChanges.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        raise InputError(
            f"{'.'.join(map(str, first['loc']))} cannot be changed so: {first['msg'].lower()}",
            hint=f"change a setting by its dotted name, or one of {', '.join(RequestChanges.model_fields)}",
        ) from invalid
    window = {name: asked.pop(name) for name in WINDOW & asked.keys()}
    if window:
        asked["context_budget"] = replace(request.context_budget or ContextBudget(), **window)
    return replace(request, **asked), settings


def outcome(context: Context) -> Outcome:
    """What a context gave, by id."""
    kept = tuple(chunk.id for chunk in context.chunks)
    dropped = tuple(c.chunk.id for c in context.trace.candidates if c.dropped)
    return Outcome(kept, dropped, context.token_estimate)


def shown(trace: Trace) -> tuple[str, ...]:
    """The chunks that a stored trace ended with."""
    return tuple(c.chunk.id for c in trace.candidates if not c.dropped)
