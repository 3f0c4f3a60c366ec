"""Call traces: a call that went through the proxy, as a trace like any other.

It holds the sizes of what stood in its window, what was cut from its answer, the rungs that its agent reached, and how
its spenders stand to their caps.
"""

from collections.abc import Iterator, Mapping

from headgate.guard.channels import CONTENT
from headgate.guard.fuse import CapStatus
from headgate.guard.policy import Rung
from headgate.guard.report import Cut
from headgate.guard.tools import Circle
from headgate.notes import Stage
from headgate.service.proxy.call_window import window_step
from headgate.service.proxy.model_call import ModelCall
from headgate.text.bounded_json import loads
from headgate.types import Plan, Request, Step, Strategy, Tier, Trace

MOST_MESSAGES = 10_000  # of a conversation that is read; each takes some 40 microseconds
GAP = "\x1e"  # between the pieces of an answer that was cut: unlike offsets, it stays true when secrets are taken out
PIECE_CHARS = 8000


def call_trace(call: ModelCall, *, tenant: str, now: float) -> Trace:
    """The call as a trace: one step for the call itself, one for its window, and one for each cut, rung and cap."""
    what = f"{call.model} at {call.upstream}: {call.outcome}" if call.upstream else call.error
    plan = Plan(
        skip=True,
        tier=Tier.STUFF,
        strategy=Strategy.STUFF,
        budget=0,
        reasoning=f"{call.path} {what}",
    )
    request = Request(call.query, tenant=tenant, session=call.session)
    cuts = call.report.cuts if call.report else []
    steps = (
        _call_step(call),
        *_window_steps(call),
        *(_cut_step(cut) for cut in cuts),
        *(_circle_step(mark.rung, mark.circle) for mark in call.climb.marks),
        *(_fuse_step(reading) for reading in call.cap_statuses),
    )
    return Trace(call.id, request, plan, steps, created=now)


def _window_steps(call: ModelCall) -> Iterator[Step]:
    """What was in the window, if that is known and can be read in little time."""
    fields = loads(call.sent) if call.sent else {}
    messages = fields.get("messages") or fields.get("input")
    if fields and not (isinstance(messages, list) and len(messages) > MOST_MESSAGES):
        yield window_step(fields, call.length)


def _call_step(call: ModelCall) -> Step:
    facts: dict[str, float | str] = {
        "path": call.path,
        "model": call.model,
        "upstream": call.upstream,
        "status": call.status,
        "guard": call.outcome,
        "rollbacks": call.report.rollbacks if call.report else 0,
        "saved_tokens": call.report.saved_tokens if call.report else 0,
        "wasted_tokens": call.report.wasted_tokens if call.report else 0,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "estimated": 1 if call.estimated else "",
        "first_byte_s": round(call.first_byte_s or 0.0, 4),
        "unwatched": call.unwatched,
        "passed_on": call.report.passed_on if call.report else "",
        "rescued_by": call.rescued_by,
        "response_id": call.response_id,
        "context_trace": call.context_trace,
    }
    text = GAP.join(_pieces(call))
    return Step(
        Stage.MODEL, call.seconds, degraded=call.error, facts=_without_blanks(facts), text=text
    )


def _pieces(call: ModelCall) -> Iterator[str]:
    """What the client has of an answer that was cut: what stands before each cut, and after the last."""
    if not call.answer:
        return
    at, answer = 0, call.answer.replace(GAP, " ")
    for cut in call.report.cuts if call.report else ():
        if cut.channel == CONTENT:
            yield answer[max(at, cut.at - PIECE_CHARS) : cut.at]
            at = cut.at
    yield answer[at : at + PIECE_CHARS]


def _cut_step(cut: Cut) -> Step:
    facts: dict[str, float | str] = {
        "channel": cut.channel,
        "onset": cut.onset,
        "period": cut.period,
        "cut_chars": cut.cut_chars,
        "reason": cut.reason,
        "unit": cut.unit,
    }
    return Step(Stage.CUT, 0.0, facts=facts, text=cut.text)


def _circle_step(rung: Rung, circle: Circle) -> Step:
    facts: dict[str, float | str] = {
        "rung": rung,
        "period": circle.period,
        "copies": circle.copies,
        "first": circle.first,
        "last": circle.last,
        "reason": circle.describe(),
    }
    return Step(Stage.CIRCLES, 0.0, facts=facts)


def _fuse_step(reading: CapStatus) -> Step:
    facts: dict[str, float | str] = {
        "scope": reading.scope,
        "name": reading.name,
        "state": reading.state,
        "used": reading.used,
        "cap": reading.cap,
        "unit": reading.unit,
        "calls_left": "" if reading.calls_left is None else reading.calls_left,
        "reason": reading.describe(),
    }
    return Step(Stage.FUSE, 0.0, facts=_without_blanks(facts))


def _without_blanks(facts: Mapping[str, float | str]) -> dict[str, float | str]:
    return {name: value for name, value in facts.items() if value != ""}
