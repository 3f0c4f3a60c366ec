"""Replay: a stored request once more, under other settings, and what that changes.

The request runs twice over what the store holds now: as it was, and changed. So the difference is the settings' doing
alone; if the first run no longer gives what was stored (the collection has changed since), that is said as drift.
Changes are named as settings are ("gate.min_ratio"), those of the request itself plainly ("budget", "k").
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from millgate.errors import InputError
from millgate.text.meant import did_you_mean
from millgate.types import Context, ContextBudget, Request, Trace
from millgate.types.notes import Stage

Changes = Mapping[str, Any]
Run = Callable[[Request, Changes], Awaitable[Context]]
"""Builds a context under changed settings (dotted names), leaving no trace behind."""

# whose request it is, what it asks, and when: that makes it the request it is
FIXED = frozenset({"query", "tenant", "window", "session", "asker", "cwd", "context_budget"})
WINDOW = frozenset(field.name for field in fields(ContextBudget))


@cache
def changeable() -> Mapping[str, TypeAdapter[Any]]:
    """What of a request a replay may change, and how each value is checked."""
    kinds = get_type_hints(Request) | get_type_hints(ContextBudget)
    return {name: TypeAdapter(kind) for name, kind in kinds.items() if name not in FIXED}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the chunks shown, in order, those left out, and the size of the block."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A request before and after some changes: what came in, what went out, and the tokens.

    `reasons` says of each chunk that left why it did, and of those that stayed which took more tokens then.
    `drift` names chunks whose fate has changed since the trace was stored, whatever the settings.
    """

    trace: str
    changes: Changes
    before: Outcome
    after: Outcome
    entered: tuple[str, ...]
    left: tuple[str, ...]
    reasons: Mapping[str, str]
    drift: tuple[str, ...]
    text: str

    @property
    def tokens(self) -> int:
        """Tokens more (or, negative, fewer) than before."""
        return self.after.tokens - self.before.tokens

    def as_dict(self) -> dict[str, Any]:
        """The replay as plain values."""
        return asdict(self) | {
            "changes": dict(self.changes),
            "reasons": dict(self.reasons),
            "tokens": self.tokens,
        }


async def replay(trace: Trace, changes: Changes, run: Run) -> Replay:
    """Run a stored request as it was and with changes."""
    request = request_of(trace)
    was = await run(request, {})
    now = await run(*apply_changes(request, changes))
    before, after = outcome(was), outcome(now)
    seen = set(shown_ids(trace))
    left = tuple(id for id in before.kept if id not in after.kept)
    return Replay(
        trace=trace.id,
        changes=changes,
        before=before,
        after=after,
        entered=tuple(id for id in after.kept if id not in before.kept),
        left=left,
        reasons=_explain_left(was.trace, now.trace, left) if left else {},
        drift=tuple(sorted(seen ^ set(before.kept))),
        text=now.text,
    )


def _explain_left(was: Trace, now: Trace, left: Collection[str]) -> dict[str, str]:
    """Why chunks left, and which of those that stayed are shown in more tokens than before, so that others had to."""
    reasons = {}
    for candidate in now.candidates:
        id, last = candidate.chunk.id, candidate.notes[-1]
        if id in left:
            reasons[id] = f"{last.stage}: {last.reason}"
        elif not candidate.dropped and (former := was.find(id)) is not None and not former.dropped:
            size, size_then = (c.number(Stage.COMPOSE, "tokens") for c in (candidate, former))
            if size and size_then and size > size_then:
                reasons[id] = f"takes {size:,.0f} tokens now, {size_then:,.0f} before"
    return reasons | {id: "not among the candidates" for id in left if id not in reasons}


def request_of(trace: Trace) -> Request:
    """The request of a trace, if it asked for a context and its text was kept."""
    if any(step.stage is Stage.MODEL for step in trace.steps):
        raise InputError(
            "this is a model call; nothing to replay",
            hint="name the trace of a context; millgate why --list and gate.traces() list them",
        )
    if not trace.request.query:
        raise InputError(
            "this trace was stored without its text, so its request cannot be run again",
            hint="set trace.text to keep it",
        )
    if any(step.stage is Stage.TRACE and "window_chars" in step.facts for step in trace.steps):
        raise InputError(
            "the window of this request was too large to be stored, so it cannot be run again",
            hint="send the window's fingerprint instead of its text",
        )
    return trace.request


def apply_changes(request: Request, changes: Changes) -> tuple[Request, Changes]:
    """The request with what concerns it changed, and the rest of the changes: settings."""
    settings = {name: value for name, value in changes.items() if "." in name}
    given = {name: value for name, value in changes.items() if "." not in name}
    asked = {name: _check_field(name, value) for name, value in given.items()}
    window = {name: asked.pop(name) for name in WINDOW & asked.keys()}
    if window:
        asked["context_budget"] = replace(request.context_budget or ContextBudget(), **window)
    return replace(request, **asked), settings


def _check_field(name: str, value: object) -> Any:  # noqa: ANN401  (any field's value)
    """The value, if requests have such a field and it takes the value; else an error that says what to change."""
    kinds = changeable()
    if name not in kinds:
        raise InputError(
            f"{name} cannot be changed in a replay",
            hint=f"{did_you_mean(name, kinds)} change a setting by its dotted name, or one of {', '.join(kinds)}".lstrip(),
        )
    try:
        return kinds[name].validate_python(value, strict=True)
    except ValidationError as invalid:
        wrong = invalid.errors()[0]["msg"].lower()
        raise InputError(
            f"{name} cannot be {value!r}: {wrong}", hint="write it as budget=2000 or penalize=false"
        ) from invalid


def outcome(context: Context) -> Outcome:
    """What a context gave, by id."""
    kept = tuple(chunk.id for chunk in context.chunks)
    dropped = tuple(c.chunk.id for c in context.trace.candidates if c.dropped)
    return Outcome(kept, dropped, context.token_estimate)


def shown_ids(trace: Trace) -> tuple[str, ...]:
    """The chunks that a stored trace ended with."""
    return tuple(c.chunk.id for c in trace.candidates if not c.dropped)
