"""Every field that comes from outside has a length, and one that is longer is refused before any work."""

import sys
from dataclasses import replace
from typing import Annotated

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from tests.service.clients import connected

from millgate.errors import LimitError
from millgate.gateway import Millgate
from millgate.integrations.mcp.tools import TOOLS
from millgate.keys import Keys
from millgate.knowledge.project import MARKERS, MOST_PARENTS, project_of
from millgate.service.app import create
from millgate.settings import Settings
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge, Fact, Review, Step
from millgate.types.lengths import (
    CHUNK_CHARS,
    FACT_CHARS,
    FOLDER_CHARS,
    LABEL_CHARS,
    MOST_LABELS,
    MOST_REASONS,
    NAME_CHARS,
    NOTE_CHARS,
    PROVENANCE_CHARS,
    SESSION_CHARS,
    SUMMARY_CHARS,
)
from millgate.types.notes import Stage

# Their lengths are settings, which the gate checks before anything else.
BY_SETTING = {("GetContext", "query"), ("GetContext", "window"), ("ContextStrategy", "query"), ("Remember", "content"), ("Recall", "query"), ("RecallSession", "query")}  # fmt: skip
SECRET = "ghp_" + "a1B2" * 9


def endless(schema, path):
    """The places in a JSON schema where a text or a list has no length."""
    found = []
    is_text = schema.get("type") == "string" and not {"enum", "const", "maxLength"} & schema.keys()
    if is_text or (schema.get("type") == "array" and "maxItems" not in schema):
        found.append(path)
    for name, field in schema.get("properties", {}).items():
        found += endless(field, (*path, name))
    for kind in ("anyOf", "oneOf"):
        for one in schema.get(kind, ()):
            found += endless(one, path)
    return found + (endless(schema["items"], path) if "items" in schema else [])


def test_every_text_and_list_of_the_http_api_has_a_length(app):
    schema = app.openapi()
    bodies = {n: body for n, body in schema["components"]["schemas"].items() if n.endswith("In")}
    assert len(bodies) > 15
    found = [place for name, body in bodies.items() for place in endless(body, (name,))]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                found += endless(parameter["schema"], (path, parameter["name"]))
    assert found == []


def test_every_parameter_of_a_page_has_a_length(app):
    """The pages of the dashboard are in no schema."""
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) > 60
    for route in routes:
        for parameter in (*route.dependant.path_params, *route.dependant.query_params):
            kind = parameter.field_info.annotation
            assert endless(_schema_of(parameter), (route.path, parameter.name)) == [], kind


def _schema_of(parameter):
    info = parameter.field_info
    return TypeAdapter(Annotated[info.annotation, info]).json_schema()


def test_every_argument_of_a_tool_has_a_length():
    models = list(TOOLS.values())
    found = {place for kind in models for place in endless(kind.model_json_schema(), (kind.__name__,))}  # fmt: skip
    assert found == BY_SETTING


LONG = [
    ("POST", "/v1/context", {"query": "refunds", "session": "s" * (SESSION_CHARS + 1)}),
    ("POST", "/v1/context", {"query": "refunds", "cwd": "/" + "a/" * FOLDER_CHARS}),
    ("POST", "/v1/context", {"query": "refunds", "task": "t" * (LABEL_CHARS + 1)}),
    ("POST", "/v1/context", {"query": "refunds", "collection": "c" * (NAME_CHARS + 1)}),
    ("POST", "/v1/hooks/prompt", {"prompt": "refunds", "cwd": "/" + "a/" * FOLDER_CHARS}),
    ("POST", "/v1/hooks/prompt", {"prompt": "refunds", "session_id": "s" * (SESSION_CHARS + 1)}),
    ("POST", "/v1/turns", {"session": "s" * (SESSION_CHARS + 1), "messages": ["hello"]}),
    ("POST", "/v1/facts", {"content": "a fact", "category": "c" * (LABEL_CHARS + 1)}),
    ("POST", "/v1/facts", {"content": "a fact", "tags": ["t"] * (MOST_LABELS + 1)}),
    ("POST", "/v1/facts/f-1/feedback", {"helpful": True, "note": "n" * (NOTE_CHARS + 1)}),
    ("POST", "/v1/strategy", {"query": "x", "available_tools": ["t" * (LABEL_CHARS + 1)]}),
    ("GET", f"/v1/traces/{'t' * (NAME_CHARS + 1)}", None),
    ("GET", f"/v1/sessions/{'s' * (NAME_CHARS + 1)}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), LONG)
async def test_a_field_that_is_too_long_is_refused_and_nothing_is_kept(client, gate, method, path, body):  # fmt: skip
    reply = await client.request(method, path, json=body)
    assert reply.status_code == 422
    assert len(reply.content) < 1_000
    assert gate.traces() == []


async def test_a_field_of_its_full_length_is_taken(client, gate):
    body = {"query": "refunds", "session": "s" * SESSION_CHARS, "cwd": "/" + "d" * (FOLDER_CHARS - 1)}  # fmt: skip
    assert (await client.post("/v1/context", json=body)).status_code == 200
    assert [row.session for row in gate.traces()] == ["s" * SESSION_CHARS]


@pytest.mark.parametrize(
    "more",
    [
        {"session": "s" * (SESSION_CHARS + 1)},
        {"cwd": "/" + "a/" * FOLDER_CHARS},
        {"task": "t" * (LABEL_CHARS + 1)},
        {"collection": "c" * (NAME_CHARS + 1)},
        {"collection": [f"c{n}" for n in range(101)]},
    ],
)
def test_the_library_and_so_every_command_has_the_same_lengths(gate, more):
    with pytest.raises(LimitError, match=r"at most|may have"):
        gate.context("refunds", **more)


def test_turns_have_a_session_of_its_length_and_a_question_for_a_person_is_cut(gate):
    with pytest.raises(LimitError, match="session has 201 characters"):
        gate.add_turns("s" * (SESSION_CHARS + 1), ["hello"])
    asked = gate.reviews.ask("why " * 25_000, collection="c" * 10_000, grades={}, reason="unsure")
    assert (len(asked.query), len(asked.collection)) == (FACT_CHARS, NAME_CHARS)
    again = gate.reviews.ask("why " * 25_000, collection="c" * 10_000, grades={}, reason="unsure")
    assert again.id == asked.id


# The folder of the caller


@pytest.fixture
def folder(tmp_path):
    """A folder in a project of this machine."""
    (tmp_path / "parcels" / ".git").mkdir(parents=True)
    (tmp_path / "parcels" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "parcels" / "src" / "deep"


def test_the_nearest_project_names_a_folder(folder):
    assert project_of(str(folder)) == "parcels"


@pytest.mark.slow
def test_a_long_path_is_looked_at_only_near_its_end():
    """Each folder above costs one look at the disk: all of 2 000 took five seconds, and those of 40 kB gigabytes."""
    calls = _calls_of_stat(lambda: project_of("/" + "a/" * 2_000))
    assert 0 < calls <= (MOST_PARENTS + 1) * len(MARKERS)
    assert project_of("/" + "a/" * 20_000 + "b") == "b"


def _calls_of_stat(work):
    """How often the work asks the disk."""
    calls = 0

    def profile(_, event, called):
        nonlocal calls
        calls += event == "c_call" and called.__name__ == "stat"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("path", ["/v1/context", "/v1/hooks/prompt"])
async def test_the_folder_of_a_caller_with_a_key_is_not_looked_for_on_this_disk(gate, folder, path):
    body = {"prompt" if "hooks" in path else "query": "how are refunds paid?", "cwd": str(folder)}
    app = create(gate)
    async with connected(app) as local:
        await local.post(path, json=body)
    key = gate.keys.create(["read"]).token
    async with connected(app, key=key) as remote:
        await remote.post(path, json=body)
    of_remote, of_local = (gate.trace(row.id).request.cwd for row in gate.traces())
    assert (of_local, of_remote) == (str(folder), "deep")


# What is stored


def test_a_secret_in_the_name_of_a_session_is_not_stored(tmp_path):
    for text in (True, False):
        store = tmp_path / f"kb-{text}"
        with Millgate.open(settings=Settings(store=str(store), trace={"text": text})) as gate:
            gate.context("refunds", session=SECRET)
            (row,) = gate.traces()
            assert SECRET not in row.session
            assert SECRET not in gate.trace(row.id).request.session
        kept = b"".join(file.read_bytes() for file in store.rglob("*") if file.is_file())
        assert SECRET.encode() not in kept


async def test_a_secret_in_the_name_of_a_session_is_not_logged(client, caplog):
    with caplog.at_level("INFO", logger="millgate.request"):
        await client.post("/v1/context", json={"query": "refunds", "session": SECRET})
    assert "session_id" in caplog.text
    assert SECRET not in caplog.text


LONG_ROWS = {
    "a fact": lambda store: store.save_fact("t", Fact("f", "x" * (CHUNK_CHARS + 1))),
    "a category": lambda store: store.save_fact("t", Fact("f", "x", "c" * (LABEL_CHARS + 1))),
    "a tag": lambda store: store.save_fact("t", Fact("f", "x", tags=("t" * (LABEL_CHARS + 1),))),
    "a question": lambda store: store.save_review("t", Review("r", "q" * (CHUNK_CHARS + 1))),
    "who says so": lambda store: store.link("t", [Edge("a", "is_a", "b", 1.0, "p" * (PROVENANCE_CHARS + 1))]),
    "the name of a key": lambda store: Keys(store, "t").create(["read"], name="n" * (LABEL_CHARS + 1)),
}  # fmt: skip


@pytest.mark.parametrize("row", LONG_ROWS)
def test_a_store_takes_no_row_of_which_a_part_is_too_long(tmp_path, row):
    """An import reaches it past every other check."""
    for store in (TemporaryStore(), SqliteStore(tmp_path / "kb")):
        with pytest.raises(LimitError, match="characters"):
            LONG_ROWS[row](store)
        assert store.facts("t") == store.reviews("t") == store.keys("t") == []
        store.close()


def test_a_row_of_a_list_is_short_whatever_a_trace_holds(gate):
    trace = gate.context("refunds").trace
    steps = (Step(Stage.MODEL, 0.0, facts={"model": "m" * 10**6}), *(Step(Stage.GATE, 0.0, degraded="d" * 10**6) for _ in range(100)))  # fmt: skip
    request = replace(trace.request, query="q" * 10**6, session="s" * 10**6, collection=tuple(f"{n}" * 1000 for n in range(1000)))  # fmt: skip
    gate.save_trace(replace(trace, id="huge", request=request, steps=steps))
    row = next(row for row in gate.traces() if row.id == "huge")
    assert len(repr(row)) < (MOST_REASONS + 10) * SUMMARY_CHARS
    kept = gate.trace("huge")
    assert len(kept.request.session) == SESSION_CHARS
    assert all(len(step.degraded) <= FACT_CHARS for step in kept.steps)
