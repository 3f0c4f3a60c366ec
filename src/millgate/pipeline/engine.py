"""The engine: from a request to the best context that fits, with the trace of how.

decide ─▶ retrieve ─▶ propagate ─▶ penalize ─▶ (expand once) ─▶ gate ─▶ grade ─▶ compose
                                                                         └─▶ search, then a person

`Engine.build` names every stage, in order; request_run.py shows how each is called. The whole request runs in one
thread. Only memory providers, a grader of the caller's own and a search are awaited, on an event loop (threads.py).
"""

from millgate.errors import InputError, LimitError
from millgate.pipeline.request_run import RequestRun
from millgate.pipeline.resources import Policies, Resources
from millgate.pipeline.threads import LoopCalls
from millgate.pipeline.verdict import Verdict
from millgate.policy import Limits
from millgate.stages.compose import Composed
from millgate.types import Context, Request, Sifted
from millgate.types.check import check_length
from millgate.types.lengths import MOST_COLLECTIONS, NAME_CHARS
from millgate.types.request import LENGTHS


class Engine:
    """The pipeline over one store. Safe to share between threads and event loops."""

    def __init__(self, resources: Resources, policy: Policies) -> None:
        self.resources, self.policy = resources, policy

    def build(self, request: Request, calls: LoopCalls) -> Context:
        """From a request to the best context that fits. `calls` reaches the event loop for what must be awaited."""
        check_limits(request, self.policy.limits)
        run = RequestRun(self.resources, self.policy, request, calls)
        plan = run.decide()
        if plan.skip:
            return run.context(Composed("", 0, Sifted()), Verdict(reason=plan.reasoning))
        run.open_indexes()  # may wait until an index is built, so it takes no place among those that compute
        with self.resources.computing.held(request.tenant):
            asked = run.ask_providers()
            found = run.retrieve()
            starts, edges = run.load_edges(found)
            ranked = run.propagate(found, starts, edges)
            facts, paths = run.recall_facts(), run.find_paths()
            fresh = run.penalize((*ranked, *facts, *run.collect_recalled(asked), *paths))
            if run.wants_more(fresh):
                fresh = run.expand(fresh, edges)
            gated = run.gate(fresh, edges, floor=run.floor)
            if request.best_effort and not gated.kept:
                gated = run.gate(run.show_again(), floor=run.floor)
            # grade; then, if that does not suffice, search outside and ask a person
            verdict, strips = run.judge(gated.kept)
            return run.context(run.compose(verdict, {**gated.strips, **strips}), verdict)


def check_limits(request: Request, limits: Limits) -> None:
    """Refuse what cannot be used, naming the limit it broke."""
    if not request.query.strip():
        raise InputError("the query is empty", hint="say what the context is for")
    for name, most in LENGTHS.items():
        check_length(name, getattr(request, name) or "", most)
    for name in request.collections:
        if not name:
            raise InputError("the name of a collection is empty", hint="leave it out, or name one")
        check_length("collection", name, NAME_CHARS)
    if len(request.collections) > MOST_COLLECTIONS:
        raise LimitError(
            f"{len(request.collections)} collections are named; at most {MOST_COLLECTIONS} are asked at once",
            hint="ask in several requests",
        )
    measured = {
        "query_chars": len(request.query),
        "window_chars": sum(map(len, request.window.texts)),
        "window_blocks": len(request.window.texts),
        "budget": request.budget,
        "k": request.k or 0,
    }
    for name, value in measured.items():
        most = getattr(limits, name)
        if not 0 <= value <= most:
            raise LimitError(
                f"{name} is {value:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )
