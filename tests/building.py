"""What tests of the pipeline share: an engine built in a thread, a grader asked and judged."""

import asyncio

from millgate.calls.loop import LoopCalls
from millgate.pipeline.engine import Engine
from millgate.pipeline.resources import CollectionTokens, Resources
from millgate.pipeline.stages.grade import ask_grader, bands_of, grade, pass_ungraded
from millgate.ranking.model import chances, read_model
from millgate.text.tokens import estimate_tokens


def engine_over(store, views, policy, **resources):
    """An engine that estimates tokens."""
    sizes = CollectionTokens(store, estimate_tokens, policy.compose.notice)
    return Engine(Resources(store, views, estimate_tokens, sizes, **resources), policy)


async def build(engine, request):
    """The context of a request, as an async caller gets it."""
    return await asyncio.to_thread(engine.build, request, LoopCalls.of_running_loop())


async def grade_with(grader, query, candidates, policy):
    """What a grader of the caller's own makes of candidates."""
    if candidates and not policy.enabled:
        return pass_ungraded(candidates)
    marks = await ask_grader(grader, query, candidates) if candidates else []
    return grade(candidates, marks, policy.bands(bands_of(grader, read_model())))


def grade_built_in(question, view, candidates, policy, **options):
    """What the built-in grader makes of candidates."""
    found = chances(question, candidates, view, **options) if candidates else []
    marks = [chance.confidence for chance in found]
    return grade(candidates, marks, policy.bands(bands_of(None, read_model())), chances=found)
