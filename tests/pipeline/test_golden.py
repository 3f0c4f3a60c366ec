"""Golden traces: one decision a line, for requests that between them meet every stage.

To accept a change: `python -m tests.pipeline.test_golden > tests/golden/traces.txt`, then read the difference.
"""

import asyncio
from dataclasses import fields
from pathlib import Path

import pytest
from tests.building import build, engine_over

from millgate.gateway.wiring import build as open_parts
from millgate.ingest.load import add_rows
from millgate.knowledge.edges import edge
from millgate.models.search import web_chunks
from millgate.pipeline.resources import Policies
from millgate.settings import Settings
from millgate.types import ContextBudget, Request, Window

GOLDEN = Path(__file__).parents[1] / "golden" / "traces.txt"

CITIES = ("Oslo", "Turin", "Quito", "Dakar")
THINGS = ("bridge", "harbor", "garden")
VERBS = ("opened", "closed", "restored")
EDGES = (
    ("falcon", "depends_on", "redis"),
    ("falcon", "uses", "harbor"),
    ("redis", "conflicts_with", "Quito-harbor-restored"),
    ("falcon", "mentions", "nobody"),
    ("zebra", "depends_on", "Dakar"),
)
RIGHT = "When was the harbor of Quito restored by the council?"
SEEN = "The harbor of Quito was restored in 1923 by the city council."
ALERT = "A zebra alert is raised when the zebra leaves the garden of Oslo."
REQUESTS = {
    "plain": Request(RIGHT, budget=200),
    "k": Request(RIGHT, budget=400, k=2),
    "window": Request(RIGHT, budget=200, window=Window((SEEN,))),
    "expand": Request("zebra", budget=200, window=Window((ALERT,)), cwd="/src/Dakar", graph=False),
    "graph": Request("what does falcon depend on at the harbor?", budget=300),
    "hop": Request("keeper on duty at night", budget=300),
    "memory": Request("where is the deploy key of Falcon?", budget=200),
    "wrong": Request("What did Melanie's dentist recommend to Jonathan?", budget=200),
    "boilerplate": Request("zebra alert", budget=2000),
    "selective": Request(RIGHT, budget=400, context_budget=ContextBudget(10_000, 7_050)),
    "full": Request(RIGHT, context_budget=ContextBudget(1000, 990)),
    "whole": Request("write a poem", budget=5000, collection="few", context_budget=ContextBudget(100_000)),
    "preview": Request(RIGHT, budget=120, detail="preview", order="edges"),
}  # fmt: skip


class Web:
    """A search that always brings the same two pages."""

    async def search(self, query, *, limit):
        texts = ("The dentist of Melanie did recommend rest to Jonathan.", "Cheap watches.")
        rows = [{"url": f"https://example.org/{n}", "content": t} for n, t in enumerate(texts)]
        return web_chunks(rows, limit)


def lines(name, context):
    """The decisions of one request, by chunk and in the order they were made."""
    plan, fallback = context.trace.plan, context.fallback or "none"
    yield f"# {name}: {plan.strategy.value}, fallback {fallback}"
    for candidate in sorted(context.trace.candidates, key=_name):
        for note in candidate.notes:
            yield f"{note.stage:<10} {note.fate:<4} {_name(candidate):<24} {note.score:.4f}"


def _name(candidate):
    """Its id; facts, whose ids are drawn by chance, are called so."""
    return "fact" if candidate.chunk.document == "facts" else candidate.chunk.id


async def traces():
    """All golden traces, line by line."""
    parts = open_parts(Settings(store=":memory:", retrieve={"keep": 12}, propagate={"keep": 10}))
    cells = [(c, t, v) for c in CITIES for t in THINGS for v in VERBS]
    rows = [
        {"id": f"{c}-{t}-{v}", "text": f"The {t} of {c} was {v} in {1900 + n} by the city council."}
        for n, (c, t, v) in enumerate(cells)
    ]
    rows += [
        {"id": "log", "text": "zebra alert again. " * 40},
        {"id": "zebra", "text": ALERT},
        {"id": "keeper", "text": "The keeper on duty at night is Zoltan Varga."},
        {"id": "born", "text": "Zoltan Varga was born beside a mill."},
        {"id": "twin", "text": ALERT},
    ]
    few = [{"id": f"few{n}", "text": f"Verse {n} of the poem."} for n in range(3)]
    for collection, some in (("main", rows), ("few", few)):
        add_rows(parts.store, "default", some, collection=collection, policy=parts.settings.ingest)
    parts.store.link("default", [edge(*one) for one in EDGES])
    parts.memory.facts("default").add("The deploy key of Falcon lies in vault seven.")
    policy = Policies(**{f.name: getattr(parts.settings, f.name) for f in fields(Policies)})
    engine = engine_over(
        parts.store, parts.indexes.snapshot, policy,
        memory=parts.memory, search=Web(),
    )  # fmt: skip
    found = []
    for name, request in REQUESTS.items():
        found += lines(name, await build(engine, request))
    parts.close()
    return found


@pytest.fixture(scope="module")
def made():
    return asyncio.run(traces())


def test_every_decision_is_the_golden_one(made):
    assert made == GOLDEN.read_text().splitlines()


if __name__ == "__main__":
    print("\n".join(asyncio.run(traces())))
