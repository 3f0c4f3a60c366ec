"""The body of /v1/context has the fields of a Request, takes their published names, and refuses all else by name."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from millgate.published.self_reference import REQUEST_FIELDS
from millgate.service.app import create
from millgate.service.routes.context import ContextIn
from millgate.settings.schema import field_docs
from millgate.types import ContextBudget, Request, Window

SENT_OTHERWISE = {"tenant", "asker", "window", "context_budget"}


def test_every_field_of_a_request_is_a_field_of_the_body():
    names = {f.name for noun in (Request, ContextBudget) for f in fields(noun)} - SENT_OTHERWISE
    windows = {
        "window",
        "current_window_fingerprint",
        "current_window_blocks",
        "current_window_text",
    }
    assert set(ContextIn.model_fields) == names | windows | {"follow", "debug", "include_report"}


def test_the_defaults_are_those_of_the_library():
    assert ContextIn(query="refunds").to_request("acme") == Request("refunds", tenant="acme")


def test_names_are_those_of_the_library_and_the_published_ones_are_accepted():
    for name, published in REQUEST_FIELDS.items():
        value = {"budget": 70, "k": 3, "session": "s"}.get(name, False)
        ours, theirs = (ContextIn(query="x", **{n: value}) for n in (name, published))
        assert (
            ours.to_request("t") == theirs.to_request("t") != ContextIn(query="x").to_request("t")
        )


async def test_both_names_of_one_field_at_once_are_refused(client):
    answer = await client.post("/v1/context", json={"query": "x", "budget": 5, "max_tokens": 6})
    assert answer.status_code == 422


def test_the_window_may_be_a_text_messages_or_a_fingerprint():
    for value in ("seen", ["seen", {"role": "user", "content": "too"}], {"version": 1}):
        body = ContextIn(query="x", window=value, current_window_text="less")
        assert body.to_request("t").window == Window.of(value)


def test_published_names_reach_the_fields_they_stand_for():
    body = ContextIn(
        query="refunds",
        max_tokens=70,
        k_rag=None,
        session_id="s1",
        enable_self_ref_penalty=False,
        include_graph=False,
        context_length=1000,
        used_tokens=10,
        threshold_tokens=800,
    )
    assert body.to_request("acme") == Request(
        "refunds",
        budget=70,
        k=None,
        session="s1",
        penalize=False,
        graph=False,
        tenant="acme",
        context_budget=ContextBudget(1000, 10, 800),
    )


@given(
    st.none() | st.just({"version": 1}),
    st.none() | st.lists(st.text(min_size=1), max_size=2),
    st.none() | st.text(),
)
def test_a_fingerprint_goes_before_blocks_and_blocks_before_text(fingerprint, blocks, text):
    body = ContextIn(
        query="x",
        current_window_fingerprint=fingerprint,
        current_window_blocks=blocks,
        current_window_text=text,
    )
    expected = fingerprint if fingerprint is not None else blocks or text
    assert body.to_request("t").window == Window.of(expected)


def test_every_field_is_described(gate):
    schema = create(gate).openapi()["components"]["schemas"]["ContextIn"]
    assert all(field["description"].endswith(".") for field in schema["properties"].values())
    assert schema["properties"]["cwd"]["description"] == field_docs(Request)["cwd"]
    assert schema["required"] == ["query"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"query": "x", "nonsense": 1}, "body.nonsense"),
        ({"query": "x", "budget": "100"}, "body.budget"),
        ({"query": "x", "max_tokens": "10"}, "body.max_tokens"),
        ({"query": "x", "k_rag": -1}, "body.k_rag"),
        ({"query": "x", "detail": "brief"}, "body.detail"),
        ({"query": "x", "current_window_text": 5}, "body.current_window_text"),
        ({"query": "x", "include_graph": 1}, "body.include_graph"),
        ({"query": "x", "tenant": "other"}, "body.tenant"),
    ],
)
async def test_what_cannot_be_used_is_named(client, body, where):
    answer = await client.post("/v1/context", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(where + ":")


@pytest.mark.parametrize("wrong", [1, [], None])
def test_a_list_is_refused_at_its_first_wrong_item(wrong):
    with pytest.raises(ValidationError) as refused:
        ContextIn.model_validate({"query": "refunds", "current_window_blocks": [wrong] * 5_000})
    assert refused.value.error_count() <= 2


def test_of_very_many_unknown_fields_not_each_is_described():
    with pytest.raises(ValidationError) as refused:
        ContextIn.model_validate({"query": "refunds"} | {f"k{n}": n for n in range(5_000)})
    assert refused.value.error_count() == 1
