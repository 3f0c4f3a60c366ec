"""Interventions: what Millgate did to a call of a model, why, and what would have left it undone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from millgate.errors import LoopError, PartialCallError
from millgate.notes import Stage
from millgate.text.table import money_of
from millgate.types import Step, Trace


@dataclass(frozen=True, slots=True)
class Intervention:
    """One thing that was done: by which stage, what and why, and what would have left it undone, as a sentence."""

    stage: Stage
    what: str
    change: str
    facts: Mapping[str, float | str] = field(hash=False)


def interventions(trace: Trace) -> tuple[Intervention, ...]:
    """What was done to a call, in the order of its trace; nothing for a call that went through as it was."""
    return tuple(_read(trace))


def _read(trace: Trace) -> Iterator[Intervention]:
    for step in trace.steps:
        read = _READERS.get(step.stage)
        if read is not None:
            yield from read(step)
    yield from _earlier_context(trace)


def _circle(step: Step) -> Iterator[Intervention]:
    what = f"{_DONE[str(step.facts['rung'])]}: {step.facts.get('reason', '')}"
    yield Intervention(step.stage, what, _rung(step), step.facts)


def _pause(step: Step) -> Iterator[Intervention]:
    if step.facts.get("state") != "open":
        what = f"{step.facts['state']}: {step.facts.get('reason', '')}"
        yield Intervention(step.stage, what, _cap(step), step.facts)


def _break(step: Step) -> Iterator[Intervention]:
    if blame := step.facts.get("blame"):
        yield Intervention(step.stage, _describe_break(step), _BLAMED[str(blame)], step.facts)


def _cut(step: Step) -> Iterator[Intervention]:
    cut, reason = step.facts["cut_chars"], step.facts.get("reason", "")
    assert isinstance(cut, int | float)
    what = f"{cut:.0f} characters were cut from {step.facts['channel']}: {reason}"
    change = "it would have passed if the request had asked for the repetition, or in fenced code"
    yield Intervention(step.stage, what, change, step.facts)


def _describe_compaction(step: Step) -> Iterator[Intervention]:
    """What left the window, which the agent did, and what was put back, which Millgate did."""
    if reason := step.facts.get("reason"):
        if step.facts.get("way") == "service":
            change = (
                "the agent asked for it: other edits in the request's context_management keep more"
            )
        else:
            change = "the agent compacted its own window: with a larger one it does so later"
        yield Intervention(step.stage, str(reason), change, step.facts)
    if tokens := step.facts.get("put_back"):
        what = f"{tokens:.0f} tokens of what a compaction lost were put back" if isinstance(tokens, int | float) else ""  # fmt: skip
        yield Intervention(step.stage, what, 'to put nothing back: compaction.mode = "observe", or x-millgate-compaction: observe', step.facts)  # fmt: skip
    if why := step.facts.get("not_put_back"):
        change = (
            "a question that names what it asks for gets it; recall_session finds all that was kept"
        )
        if "compaction.mode" in str(why):
            change = 'compaction.mode = "inject" puts back what a turn needs'
        yield Intervention(step.stage, f"nothing was put back: {why}", change, step.facts)


def _describe_break(step: Step) -> str:
    """What broke the prompt cache, and what that cost."""
    lost, cost = step.facts["lost"], step.facts.get("cost")
    assert isinstance(lost, int | float)
    money = f", about {money_of(cost)} more" if isinstance(cost, int | float) else ""
    return f"the prompt cache broke: {step.facts['reason']}; {lost:,.0f} tokens were paid in full again{money}"


_BLAMED = {
    "client": "the agent changed this part; left as it was, it would have been read from the cache",
    "millgate": "this is a bug of Millgate: please report it with this trace",
    "provider": "the provider did not have it any more: nothing that the agent or Millgate did",
    "time": 'it would have held with a shorter pause, or "ttl": "1h" in cache_control',
    "unknown": "nobody knows why: the request itself was not seen",
}


def _injection(step: Step) -> Iterator[Intervention]:
    """The context that was looked up for the newest question, and whether it was put in front of it."""
    see = f"millgate why {str(step.facts.get('context_trace', ''))[:8]}"
    if tokens := step.facts.get("context_tokens"):
        what = f"{show_fact(tokens)} tokens of context were put in front of the question: {see}"
        yield Intervention(step.stage, what, _NO_CONTEXT, step.facts)
    elif "context_trace" in step.facts:
        what = f"context was looked up for the question, and none was added: {see}"
        change = f"{see} CHUNK says what would have let a chunk in"
        yield Intervention(step.stage, what, change, step.facts)


def _earlier_context(trace: Trace) -> Iterator[Intervention]:
    """Context that stands in the window though this call brought none: blocks stay where they were put."""
    call, window = trace.step(Stage.MODEL), trace.step(Stage.WINDOW)
    if call is None or window is None or call.facts.get("context_tokens"):
        return
    if (tokens := window.number("injected")) and not _puts_back(trace):
        what = f"{tokens:,.0f} tokens of context stand in this request from before; this call added none to them"
        yield Intervention(window.stage, what, _NO_CONTEXT, window.facts)


def _puts_back(trace: Trace) -> bool:
    return any(step.stage is Stage.COMPACTION and step.facts.get("put_back") for step in trace.steps)  # fmt: skip


_NO_CONTEXT = "to add none: x-millgate-context: off, or millgate wrap --no-inject"


def _endings(step: Step) -> Iterator[Intervention]:
    """Why a call had no answer, and how a guarded one ended if the guard did not bring it to a clean end."""
    yield from _injection(step)
    if repaired := step.facts.get("repaired"):
        what = f"the request was repaired so that the prompt cache holds: {repaired}"
        yield Intervention(
            step.stage, what, "to leave it as it came: proxy.repair = []", step.facts
        )
    if step.facts.get("outcome") == "unanswered":
        status = show_fact(step.facts.get("status", ""))
        what, change = f"the upstream answered {status}", "Millgate passed that on as it came"
        if not step.facts.get("status"):
            what, change = (
                f"the service was not reached{step.degraded and ': '}{step.degraded}",
                "the client was told so",
            )
        elif step.degraded:
            what, change = f"there was no answer: {step.degraded}", f"the client was told so, with status {status}"  # fmt: skip
        yield Intervention(step.stage, what, change, step.facts)
    if why := step.facts.get("passed_on"):
        what = f"the answer was passed on without being cut further: {why}"
        yield Intervention(
            step.stage,
            what,
            "what may change it: a larger service.memory_bytes, or another model",
            step.facts,
        )
    if step.degraded == PartialCallError.__name__:
        what = "the connection was broken, since a tool call looped after a part of it was sent; the retry is held until its calls are complete"  # fmt: skip
        yield Intervention(
            step.stage,
            what,
            'with guard.tool_calls = "whole" every call is held until it is complete',
            step.facts,
        )
    elif step.degraded == LoopError.__name__:
        what = "the model kept looping after every rollback; the answer ended with its clean text and one sentence"
        yield Intervention(
            step.stage,
            what,
            "what may change it: a larger guard.max_rollbacks, or another model",
            step.facts,
        )


def show_fact(value: float | str) -> str:
    """A fact of a step in words: a trace that was stored has every number as a float."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _folds(step: Step) -> Iterator[Intervention]:
    """A run of lines that was folded, and that folding stopped; nothing if it was only measured."""
    lines, tokens, source = (show_fact(step.facts.get(name, "")) for name in ("lines", "tokens", "source"))  # fmt: skip
    if lines:
        were = "line was" if lines == "1" else "lines were"
        what = f"{lines} {were} folded, {tokens} tokens: they stand in {source or 'an earlier message'}"
        yield Intervention(
            step.stage, what, "only lines that stand in the window already are folded", step.facts
        )
    if step.facts.get("stops"):
        why = step.facts.get("stopped") or "a result came again"
        what = f"folding stopped for this session, since the model asked again for what was folded: {why}"
        yield Intervention(
            step.stage, what, "it would have gone on if the model had not asked again", step.facts
        )


_DONE = {
    "note": "a note was added to the last tool result",
    "list": "a note with all that was tried was added to the last tool result",
    "end": "the turn was ended without asking the model",
}


def _rung(step: Step) -> str:
    rung, copies = step.facts["rung"], step.facts["copies"]
    assert isinstance(copies, int | float)
    return f"it would have waited with circles.rungs.{rung} = {copies + 1:.0f} (there were {copies:.0f} copies)"


def _cap(step: Step) -> str:
    scope, name = step.facts["scope"], step.facts.get("name", "")
    who = {"session": name, "key": f"--key {name}", "tenant": "--all"}[str(scope)]
    return f"a larger fuse.caps.{scope} lets more through; a person resumes it: millgate sessions resume {who}"


_READERS: Mapping[Stage, Callable[[Step], Iterator[Intervention]]] = {
    Stage.MODEL: _endings,
    Stage.CIRCLES: _circle,
    Stage.FUSE: _pause,
    Stage.CACHE: _break,
    Stage.COMPACTION: _describe_compaction,
    Stage.FOLD: _folds,
    Stage.CUT: _cut,
}
