"""The law of conservation: no stage loses, invents, alters or admits a chunk.

Every function of `pipeline.stages` that returns Sifted, or something that holds one, is found by its annotation and
must have a driver here; a stage without one fails the test below.
"""

import asyncio
import importlib
import inspect
import pkgutil
import typing
from collections import Counter
from dataclasses import is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import grade_with

import millgate.pipeline.stages
from millgate.index.indexes import Indexes
from millgate.pipeline.stages.compose import ComposePolicy, compose
from millgate.pipeline.stages.expand import ExpandPolicy, fuse
from millgate.pipeline.stages.gate import GatePolicy, gate
from millgate.pipeline.stages.grade import (
    GradePolicy,
    grade,
    outside_candidates,
    pass_ungraded,
)
from millgate.pipeline.stages.penalize import PenalizePolicy, penalize
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.protocols import Bands
from millgate.ranking.model import Chance
from millgate.stores.temporary import TemporaryStore
from millgate.text.tokens import estimate_tokens
from millgate.types import Candidate, Chunk, Document, Edge, Sifted, Window

WORDS = [
    "gate",
    "river",
    "Ada",
    "Lovelace",
    "engine",
    "the",
    "of",
    "42",
    "漢字",
    "café",
    "```",
    "|",
]

texts = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
chunks = st.lists(
    st.builds(
        Chunk,
        id=st.integers(0, 10**6).map(str),
        text=texts,
        title=texts,
        source=st.sampled_from(["document", "turn", "graph", "memory", "web"]),
        admission=st.none() | st.text("0123456789abcdef", min_size=32, max_size=32),
    ),
    max_size=12,
    unique_by=lambda chunk: chunk.id,
)
found = st.tuples(chunks, st.lists(st.floats(0, 1), min_size=12, max_size=12)).map(
    lambda pair: [Candidate(c, s) for c, s in zip(pair[0], pair[1], strict=False)]
)
windows = st.lists(texts, max_size=4).map(lambda blocks: Window(tuple(blocks)))


def ids(candidates):
    return [c.chunk.id for c in candidates]


def stored(candidates):
    """The candidates' chunks as a collection, each its own document."""
    store = TemporaryStore()
    documents = [
        Document(id=f"d{c.chunk.id}", chunks=(c.chunk,)) for c in candidates if c.chunk.text
    ]
    store.put("t", documents)
    return Indexes(store).snapshot("t", "main")


# A driver runs one stage and returns what came to it and what it made of that.


def drive_retrieve(candidates, window):
    return (), retrieve("Ada Lovelace river", stored(candidates), RetrievePolicy(keep=3))


def drive_propagate(candidates, window):
    view = stored(candidates)
    came = retrieve("river gate", view, RetrievePolicy(keep=3))
    edges = [Edge("gate", "uses", c.chunk.id) for c in candidates[:2]]
    sifted = propagate(came, "river gate", view, PropagatePolicy(keep=4), edges=edges)
    return came.kept, sifted


def drive_penalize(candidates, window):
    return candidates, penalize(candidates, window, PenalizePolicy())


def drive_fuse(candidates, window):
    first, second = candidates[::2], candidates[1::2]
    more = penalize(second, window, PenalizePolicy())
    return first, fuse(first, more, ExpandPolicy())


def drive_gate(candidates, window):
    shares = [0.5**n for n in range(len(candidates))]
    policy = GatePolicy()
    return candidates, gate(
        candidates, 60, estimate_tokens, policy, k=5, evidence_shares=shares, floor=0.5
    )


def drive_compose(candidates, window):
    made = compose(candidates, 60, estimate_tokens, ComposePolicy(), secret=b"s", order="edges")
    assert made.tokens <= 60
    return candidates, made.sifted


class Halves:
    """A grader that finds every second candidate relevant."""

    async def grade(self, query, candidates):
        return [0.9 if at % 2 else 0.1 for at, _ in enumerate(candidates)]


def drive_grade(candidates, window):
    return candidates, asyncio.run(grade_with(Halves(), "river", candidates, GradePolicy())).sifted


def drive_pass_ungraded(candidates, window):
    return candidates, pass_ungraded(candidates).sifted


def drive_outside(candidates, window):
    sifted = outside_candidates([c.chunk for c in candidates])
    assert not any(c.chunk.admission for c in sifted.kept)
    return (), sifted


def drive_grade_by_model(candidates, _):
    chances = [Chance(n % 3 / 2, n % 5 / 4, 0.1) for n in range(len(candidates))]
    marks = [chance.confidence for chance in chances]
    return candidates, grade(candidates, marks, Bands(0.5, 0.1, 0.05), chances=chances).sifted


DRIVERS = {
    "retrieve.retrieve": drive_retrieve,
    "propagate.propagate": drive_propagate,
    "penalize.penalize": drive_penalize,
    "expand.fuse": drive_fuse,
    "gate.gate": drive_gate,
    "grade.grade": drive_grade,
    "grade.pass_ungraded": drive_pass_ungraded,
    "grade.outside_candidates": drive_outside,
    "compose.compose": drive_compose,
}


def holds_sifted(annotation):
    if isinstance(annotation, type) and issubclass(annotation, Sifted):
        return True
    return is_dataclass(annotation) and Sifted in typing.get_type_hints(annotation).values()


def sifting():
    """Every public function of a stage whose answer is, or holds, a Sifted."""
    for module in pkgutil.iter_modules(millgate.pipeline.stages.__path__):
        stage = importlib.import_module(f"millgate.pipeline.stages.{module.name}")
        for name, function in inspect.getmembers(stage, inspect.isfunction):
            own = function.__module__ == stage.__name__ and not name.startswith("_")
            if own and holds_sifted(typing.get_type_hints(function).get("return")):
                yield f"{module.name}.{name}"


def test_every_stage_that_sifts_is_driven():
    assert sorted(sifting()) == sorted(DRIVERS)


WAYS = {**DRIVERS, "grade.grade by our model": drive_grade_by_model}


@pytest.mark.parametrize("stage", sorted(WAYS))
@given(candidates=found, window=windows)
def test_nothing_is_lost_invented_altered_or_admitted(stage, candidates, window):
    came, sifted = WAYS[stage](candidates, window)
    after = [*sifted.kept, *sifted.dropped]
    assert Counter(ids(after)) == Counter(ids([*came, *sifted.added]))
    whole = {c.chunk.id: c.chunk for c in candidates}
    for candidate in after:
        before = whole[candidate.chunk.id]
        assert candidate.chunk.text == before.text
        assert candidate.chunk.admission in (before.admission, None)
        assert candidate.chunk.admission == before.admission or stage == "grade.outside_candidates"
        assert 0 <= candidate.score <= 1
    assert all(c.dropped for c in sifted.dropped)
    assert not any(c.dropped for c in sifted.kept)
