"""Tenants: what one does never shows to another, not even as a count, and ids say nothing about existence."""

import asyncio
import re
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings

NAMES = st.sampled_from(["d0", "d1", "d2"])
WORDS = st.sampled_from(["refund", "parcel", "invoice", "harbor"])

operations = st.one_of(
    st.tuples(st.just("add"), NAMES, WORDS),
    st.tuples(st.just("drop"), NAMES, WORDS),
    st.tuples(st.just("look"), NAMES, WORDS),
    st.tuples(st.just("ask"), NAMES, WORDS),
    st.tuples(st.just("remember"), NAMES, WORDS),
    st.tuples(st.just("recall"), NAMES, WORDS),
    st.tuples(st.just("link"), NAMES, WORDS),
    st.tuples(st.just("walk"), NAMES, WORDS),
    st.tuples(st.sampled_from(["sizes", "traces", "reviews", "metrics"]), NAMES, WORDS),
)
runs = st.lists(st.tuples(st.booleans(), operations), min_size=2, max_size=14)

# Random or of the moment, so different in every run: hex ids, nonces and what they weigh, and times.
CHANCE = re.compile(
    r"[0-9a-f]{12,}|\"(latency_ms|created|updated|seconds|expires|token_estimate)\":[^,}]+"
)


@given(runs)
def test_a_tenant_sees_the_same_whether_another_is_there_or_not(run):
    both = asyncio.run(_observe(run))
    alone = asyncio.run(_observe([step for step in run if step[0]]))
    assert both == alone


@given(runs)
def test_nothing_of_one_tenant_shows_in_what_another_is_told(run):
    seen = asyncio.run(_observe(run))
    assert not any("birch" in text for _, text in seen), "the other tenant's mark shows"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/documents/{document}", None),
        ("DELETE", "/v1/documents/{document}", None),
        ("GET", "/v1/facts/{fact}", None),
        ("DELETE", "/v1/facts/{fact}", None),
        ("POST", "/v1/facts/{fact}/feedback", {"helpful": True}),
        ("GET", "/v1/reviews/{review}", None),
        ("POST", "/v1/reviews/{review}", {"status": "approved"}),
        ("GET", "/v1/traces/{trace}", None),
        ("GET", "/v1/traces/{trace}/why/x", None),
        ("POST", "/v1/traces/{trace}/replay", {"changes": {}}),
    ],
)
async def test_the_ids_of_another_tenant_are_as_unknown_as_any(method, path, body):
    with _gate() as (gate, key, _):
        theirs = gate.for_tenant("birch")
        theirs.add([{"id": "doc-1", "text": "a refund"}])
        asked = theirs.reviews.ask("why?", collection="main", grades={}, reason="a test")
        ids = {
            "document": "doc-1",
            "fact": theirs.remember("A refund is paid.").fact.id,
            "review": asked.id,
            "trace": (await theirs.acontext("refund")).trace.id,
        }
        unknown = {name: "0" * len(id) for name, id in ids.items()}
        async with connected(create(gate), key=key) as client:
            options = {"headers": {"x-request-id": "same"}, **({"json": body} if body else {})}
            there = await client.request(method, path.format(**ids), **options)
            nowhere = await client.request(method, path.format(**unknown), **options)
        assert there.status_code == nowhere.status_code == 404
        kind = path.split("/")[3].strip("{}")
        assert there.text.replace(ids[kind], "") == nowhere.text.replace(unknown[kind], "")


@contextmanager
def _gate():
    """A gate, and keys of two tenants to it."""
    with Millgate.open(settings=Settings(store=":memory:", service={"log": False})) as gate:
        scopes = ["read", "write", "review"]
        keys = [gate.for_tenant(name).keys.create(scopes) for name in ("alder", "birch")]
        yield gate, keys[0].token, keys[1].token


async def _observe(run):
    """What the first tenant is told in a run of operations by both."""
    told = []
    with _gate() as (gate, key, other):
        app = create(gate)
        async with connected(app, key=key) as mine, connected(app, key=other) as theirs:
            for first, (verb, name, word) in run:
                client, mark = (mine, "alder") if first else (theirs, "birch")
                answer = await _act(client, verb, name, f"{word} {mark}")
                if first:
                    told.append((answer.status_code, CHANCE.sub("#", answer.text)))
    return told


async def _act(client, verb, name, text):
    if verb == "add":
        row = {"id": name, "title": text, "text": f"The {text} of {name}.", "metadata": {"m": text}}
        return await client.post("/v1/documents", json={"documents": [row]})
    if verb == "ask":
        return await client.post("/v1/context", json={"query": text, "session_id": text})
    if verb == "remember":
        return await client.post("/v1/facts", json={"content": f"The {text} is {name}."})
    if verb == "link":
        edge = {"source": name, "predicate": "uses", "target": text}
        return await client.post("/v1/graph/edges", json={"edges": [edge]})
    paths = {
        "drop": f"/v1/documents/{name}",
        "look": f"/v1/documents/{name}",
        "recall": f"/v1/facts?query={text}",
        "walk": f"/v1/graph/paths?start={name}",
        "sizes": "/v1/documents",
        "traces": "/v1/traces",
        "reviews": "/v1/reviews",
        "metrics": "/metrics",
    }
    return await client.request("DELETE" if verb == "drop" else "GET", paths[verb])
