"""What tests of the pipeline share: an engine built in a thread, a grader asked and judged."""

import asyncio
from dataclasses import replace

from millgate.calls.loop import LoopCalls
from millgate.pipeline.engine import Engine
from millgate.pipeline.resources import Resources
from millgate.pipeline.sizes import CollectionTokens
from millgate.pipeline.stages.grade import (
    ask_grader,
    bands_of,
    grade,
    join_best_strips,
    pass_ungraded,
    strips_of_long,
)
from millgate.ranking.model import chances
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
    graded = grade(candidates, marks, policy.bands(bands_of(grader)))
    strips = {
        id: join_best_strips(parts, await ask_grader(grader, query, parts), policy)
        for id, parts in strips_of_long(graded.sifted.kept, policy).items()
    }
    return replace(graded, strips=strips)


def grade_built_in(question, view, candidates, policy, **options):
    """What the built-in grader makes of candidates, without their strips."""
    found = chances(question, candidates, view, **options) if candidates else []
    marks = [chance.confidence for chance in found]
    return grade(candidates, marks, policy.bands(bands_of(None)), chances=found)
