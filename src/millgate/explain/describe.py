"""Describe: what became of a request in sentences, for the command line, HTTP and the dashboard.

`describe` says what was decided, what each stage did, which chunks were shown and left out, and what Millgate did to a
call of a model (an intervention), why, and what would have left it undone. The terms of a chunk's score are read from
the notes of the stages, so they add up to the score that the chunk ended with.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from millgate.circles.finder import clip
from millgate.errors import LoopError, PartialCallError
from millgate.text.table import money_of
from millgate.types import Step, Trace
from millgate.types.notes import Note, NoteCode, Stage

_Told = tuple[str, str]
"""What was done, and what would have left it undone."""


@dataclass(frozen=True, slots=True)
class Intervention:
    """One thing that was done: by which stage, what and why, and what would have left it undone, as a sentence."""

    stage: Stage
    what: str
    change: str
    facts: Mapping[str, float | str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A chunk that was left out: where, and why."""

    chunk: str
    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True)
class Description:
    """What became of a request, in sentences: every surface shows this."""

    plan: str
    """What was decided before anything was looked up; of a call through the proxy, where it went."""
    steps: tuple[tuple[Step, str], ...]
    """Each step with what went wrong in it, and what is known of a model call."""
    shown: Mapping[str, tuple[str, ...]]
    """For each chunk that was shown, what each stage made of it."""
    done: tuple[Intervention, ...]
    """What was done to a call, in order; nothing for a call that went through as it was."""
    left_out: tuple[LeftOut, ...]
    untouched: str
    """What to say of a request to which nothing was done and of which nothing was left out; "" if nothing is sure."""


def describe(trace: Trace) -> Description:
    """What became of a request."""
    left_out = [c for c in trace.candidates if c.dropped]
    told = [
        Intervention(step.stage, what, change, step.facts)
        for step in trace.steps
        for what, change in (_READERS[step.stage](step) if step.stage in _READERS else ())
    ]
    if (window := trace.step(Stage.WINDOW)) and (stands := _earlier_context(trace)):
        told.append(Intervention(window.stage, stands, _NO_CONTEXT, window.facts))
    return Description(
        plan=_describe_plan(trace),
        steps=tuple((step, _describe_step(step)) for step in trace.steps),
        shown={c.chunk.id: describe_notes(c.notes) for c in trace.candidates if not c.dropped},
        done=tuple(told),
        left_out=tuple(
            LeftOut(c.chunk.id, c.notes[-1].stage, c.notes[-1].reason) for c in left_out
        ),
        untouched="" if told or left_out else _describe_untouched(trace),
    )


def describe_notes(notes: Sequence[Note]) -> tuple[str, ...]:
    """What each stage made of a chunk, a line each, and the terms of its score."""
    if not notes:
        return ()
    lines = [
        f"{note.stage:<10} {note.fate:<5} {note.score:6.3f}  {_describe_note(note)}"
        for note in notes
    ]
    return (*lines, describe_terms(notes))


def _describe_plan(trace: Trace) -> str:
    if (call := trace.step(Stage.MODEL)) is None:
        return f"{trace.plan.strategy.value}: {trace.plan.reasoning}" if trace.plan else ""
    facts = call.facts
    where = f"{facts.get('model', '')} at {facts.get('upstream')}: {_outcome_of(call)}"
    what = where if "upstream" in facts else call.degraded
    return f"model call: {facts.get('path', '')} {what}"


def _describe_step(step: Step) -> str:
    known = step.facts if step.stage in _READERS else {}
    facts = ", ".join(f"{name} {clip(show_fact(value), 60)}" for name, value in known.items())
    return "; ".join(part for part in (step.degraded, facts) if part)


def _describe_note(note: Note) -> str:
    """Its reason; of a found chunk, whether words of the query found it."""
    share = note.numbers.get("share")
    if note.code is not NoteCode.FOUND or share is None:
        return note.reason
    if share > 0:
        return f"found: it has {share:.0%} of the query's words, by weight"
    return "found without a word of the query: by words of the best chunks, or by its embedding if there is an embedder"


def _describe_untouched(trace: Trace) -> str:
    if (call := trace.step(Stage.MODEL)) is None:
        if trace.candidates:
            return "nothing was left out"
        return "" if trace.plan and trace.plan.skip else "nothing was found"
    is_well = _outcome_of(call) in ("clean", "off") and not trace.degraded
    if not is_well or trace.step(Stage.WINDOW) is None:
        return ""
    # notes and folds of earlier calls of its session stand in it again
    return "nothing new was done to this request, and nothing was left out"


def _outcome_of(call: Step) -> float | str:
    return call.facts.get("outcome") or call.facts.get("guard", "off")


def _circle(step: Step) -> Iterator[_Told]:
    what = f"{_DONE[str(step.facts['rung'])]}: {step.facts.get('reason', '')}"
    yield what, _rung(step)


def _pause(step: Step) -> Iterator[_Told]:
    if step.facts.get("state") != "open":
        what = f"{step.facts['state']}: {step.facts.get('reason', '')}"
        yield what, _cap(step)


def _break(step: Step) -> Iterator[_Told]:
    if blame := step.facts.get("blame"):
        yield _describe_break(step), _BLAMED[str(blame)]


def _cut(step: Step) -> Iterator[_Told]:
    cut, reason = step.facts["cut_chars"], step.facts.get("reason", "")
    assert isinstance(cut, int | float)
    what = f"{cut:.0f} characters were cut from {step.facts['channel']}: {reason}"
    change = "it would have passed if the request had asked for the repetition, or in fenced code"
    yield what, change


def _describe_compaction(step: Step) -> Iterator[_Told]:
    """What left the window, which the agent did, and what was put back, which Millgate did."""
    if reason := step.facts.get("reason"):
        if step.facts.get("way") == "service":
            change = (
                "the agent asked for it: other edits in the request's context_management keep more"
            )
        else:
            change = "the agent compacted its own window: with a larger one it does so later"
        yield str(reason), change
    if tokens := step.facts.get("put_back"):
        what = f"{tokens:.0f} tokens of what a compaction lost were put back" if isinstance(tokens, int | float) else ""  # fmt: skip
        yield what, 'to put nothing back: compaction.mode = "observe", or x-millgate-compaction: observe'  # fmt: skip
    if why := step.facts.get("not_put_back"):
        change = (
            "a question that names what it asks for gets it; recall_session finds all that was kept"
        )
        if "compaction.mode" in str(why):
            change = 'compaction.mode = "inject" puts back what a turn needs'
        yield f"nothing was put back: {why}", change


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


def _injection(step: Step) -> Iterator[_Told]:
    """The context that was looked up for the newest question, and whether it was put in front of it."""
    see = f"millgate why {str(step.facts.get('context_trace', ''))[:8]}"
    if tokens := step.facts.get("context_tokens"):
        what = f"{show_fact(tokens)} tokens of context were put in front of the question: {see}"
        yield what, _NO_CONTEXT
    elif "context_trace" in step.facts:
        what = f"context was looked up for the question, and none was added: {see}"
        change = f"{see} CHUNK says what would have let a chunk in"
        yield what, change


def _earlier_context(trace: Trace) -> str:
    """Context that stands in the window though this call brought none: blocks stay where they were put."""
    call, window = trace.step(Stage.MODEL), trace.step(Stage.WINDOW)
    if call is None or window is None or call.facts.get("context_tokens"):
        return ""
    tokens = window.number("injected")
    if not tokens or any(
        s.stage is Stage.COMPACTION and s.facts.get("put_back") for s in trace.steps
    ):
        return ""
    return f"{tokens:,.0f} tokens of context stand in this request from before; this call added none to them"


_NO_CONTEXT = "to add none: x-millgate-context: off, or millgate wrap --no-inject"


def _endings(step: Step) -> Iterator[_Told]:
    """Why a call had no answer, and how a guarded one ended if the guard did not bring it to a clean end."""
    yield from _injection(step)
    if repaired := step.facts.get("repaired"):
        what = f"the request was repaired so that the prompt cache holds: {repaired}"
        yield what, "to leave it as it came: proxy.repair = []"
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
        yield what, change
    if why := step.facts.get("passed_on"):
        what = f"the answer was passed on without being cut further: {why}"
        yield what, "what may change it: a larger service.memory_bytes, or another model"
    if step.degraded == PartialCallError.__name__:
        what = "the connection was broken, since a tool call looped after a part of it was sent; the retry is held until its calls are complete"  # fmt: skip
        yield what, 'with guard.tool_calls = "whole" every call is held until it is complete'
    elif step.degraded == LoopError.__name__:
        what = "the model kept looping after every rollback; the answer ended with its clean text and one sentence"
        yield what, "what may change it: a larger guard.max_rollbacks, or another model"


def show_fact(value: float | str) -> str:
    """A fact of a step in words: a trace that was stored has every number as a float."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _folds(step: Step) -> Iterator[_Told]:
    """A run of lines that was folded, and that folding stopped; nothing if it was only measured."""
    lines, tokens, source = (show_fact(step.facts.get(name, "")) for name in ("lines", "tokens", "source"))  # fmt: skip
    if lines:
        were = "line was" if lines == "1" else "lines were"
        what = f"{lines} {were} folded, {tokens} tokens: they stand in {source or 'an earlier message'}"
        yield what, "only lines that stand in the window already are folded"
    if step.facts.get("stops"):
        why = step.facts.get("stopped") or "a result came again"
        what = f"folding stopped for this session, since the model asked again for what was folded: {why}"
        yield what, "it would have gone on if the model had not asked again"


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


_READERS: Mapping[Stage, Callable[[Step], Iterator[_Told]]] = {
    Stage.MODEL: _endings,
    Stage.CIRCLES: _circle,
    Stage.FUSE: _pause,
    Stage.CACHE: _break,
    Stage.COMPACTION: _describe_compaction,
    Stage.FOLD: _folds,
    Stage.CUT: _cut,
}

_FOUND_TERMS: Final = ("words", "phrases", "heads", "related")
# what a change of the score is called, by the stage that made it; others by the stage's own name
_CHANGES: Final = {Stage.PROPAGATE: "names", Stage.PENALIZE: "in the window"}
_LEAST = 0.005  # smaller terms would read as 0.00


def score_terms(notes: Sequence[Note]) -> dict[str, float]:
    """What words, names, the window and other stages added to a chunk's score, in the order in which they did."""
    terms: dict[str, float] = {}
    score = 0.0
    for note in notes:
        if note.code is NoteCode.FOUND and "words" in note.numbers:
            terms |= {name: note.numbers.get(name, 0.0) for name in _FOUND_TERMS}
        else:
            name = (
                "edges" if note.code is NoteCode.CONNECTED else _CHANGES.get(note.stage, note.stage)
            )
            terms[name] = terms.get(name, 0.0) + note.score - score
        score = note.score
    return terms


def describe_terms(notes: Sequence[Note]) -> str:
    """The terms of a chunk's score with their signs, and its share, chance and confidence; "" if it has no notes.

    For example "words +0.04, names +0.22 = 0.26; 1% of the expected evidence; the collection knows 0.99".
    """
    if not notes:
        return ""
    terms = {name: term for name, term in score_terms(notes).items() if abs(term) >= _LEAST}
    parts = ", ".join(f"{name} {term:+.2f}" for name, term in terms.items())
    said = [f"{parts} = {notes[-1].score:.2f}" if parts else f"score {notes[-1].score:.2f}"]
    numbers = {name: value for note in notes for name, value in _read_judgment(note)}
    if "share" in numbers:
        said.append(f"{numbers['share']:.0%} of the expected evidence")
    if "known" in numbers:
        said.append(f"the collection knows {numbers['known']:.2f}")
    if "confidence" in numbers:
        said.append(f"confidence {numbers['confidence']:.2f}")
    return "; ".join(said)


def _read_judgment(note: Note) -> Sequence[tuple[str, float]]:
    """What the model said; a found chunk's `share` is one of words, and another thing."""
    return list(note.numbers.items()) if note.stage in (Stage.GATE, Stage.GRADE) else []
