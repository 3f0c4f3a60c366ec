"""Circles: the ladder on a request: notes where its conversation goes in circles, or an answer that ends the turn.

Notes stand in every request of a conversation, at the same places; what is told, counted and traced is only what this
request reached, behind the last words of the model.
"""

import time
from collections.abc import Sequence
from uuid import uuid4

from headgate.guard.calls import events_of, is_from_model
from headgate.guard.climb_cache import ClimbCache
from headgate.guard.dialects.dialect import Dialect, OwnAnswer
from headgate.guard.ladder import Climb, annotate, ending
from headgate.guard.policy import CirclesPolicy
from headgate.guard.tools import Circle
from headgate.service.body import weigh
from headgate.service.proxy.asgi import Reply
from headgate.service.proxy.request import ProxyRequest
from headgate.service.proxy.sse import encode

STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


def apply_ladder(
    request: ProxyRequest, dialect: Dialect, policy: CirclesPolicy, climbs: ClimbCache
) -> tuple[ProxyRequest, Climb]:
    """The request with its notes, and what it reached."""
    found = climbs.climb(request.messages, policy, size=weigh(request.body))
    if not found.marks:
        return request, found
    noted = annotate(request.messages, found.marks)
    if any(a is not b for a, b in zip(noted, request.messages, strict=True)):
        request = request.with_messages(noted, dialect)
    reached = tuple(mark for mark in found.marks if mark.at >= _first_new(noted))
    return request, Climb(reached, found.ended)


def _first_new(messages: Sequence[object]) -> int:
    """Where the results begin that the model has not seen: behind its last words and a person's."""
    for at in range(len(messages) - 1, -1, -1):
        if is_from_model(messages[at]) or any(e.kind == "human" for e in events_of(messages[at])):
            return at + 1
    return 0


def describe(found: Climb) -> str:
    """A header that tells of the rungs: which, and at how many copies."""
    return ", ".join(f"{mark.rung} {mark.circle.copies}" for mark in found.marks) or "end"


async def end_turn(
    dialect: Dialect, request: ProxyRequest, circle: Circle, reply: Reply, headers: dict[str, str]
) -> None:
    """Answer in the model's place, streamed or whole: all but the end of the reply."""
    answer = OwnAnswer(ending(circle), request.model, uuid4().hex, int(time.time()))
    if not request.fields.get("stream"):
        reply.put_json(200, dialect.own_answer(answer), headers)
        return
    reply.head(200, STREAM, headers)
    for event in dialect.own_events(answer, request.fields):
        await reply.write(encode(event, name=dialect.event_name(event)))
    if dialect.done:
        await reply.write(b"data: " + dialect.done + b"\n\n")
