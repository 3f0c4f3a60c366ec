"""The engine from request to context: what it promises whatever the parts do."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate import ContextBudget, Millgate
from millgate.errors import InputError, LimitError, NotReady
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FailingStore
from millgate.text.tokens import counter, estimate_tokens
from millgate.types import Request, Window

ROWS = [
    {"id": "policy", "text": "Refunds are paid within 14 days to the card that was charged."},
    {"id": "steps", "text": "To get a refund the customer sends the order number."},
    {"id": "gifts", "text": "Gift cards are never refunded in money."},
    {"id": "shipping", "text": "Parcels leave the warehouse every weekday at noon."},
]


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        gate.add(ROWS)
        yield gate


def ids(context):
    return [chunk.id for chunk in context.chunks]


def test_every_candidate_is_in_the_trace_with_its_last_word(gate):
    context = gate.context("how do refunds work?", budget=60)
    assert {c.chunk.id for c in context.trace.candidates} >= {"policy", "steps"}
    assert all(c.notes for c in context.trace.candidates)
    assert context.report.total_candidates == len(context.trace.candidates)
    assert set(context.report.reasons) == set(context.report.evicted_ids)
    assert context.token_estimate == estimate_tokens(context.text) <= 60


def test_what_the_window_holds_is_left_out_with_its_reason(gate):
    window = ["user: hi", "tool: Refunds are paid within 14 days to the card that was charged."]
    context = gate.context("how do refunds work?", window=window)
    assert "policy" not in ids(context)
    assert context.why("policy")[-1].reason == "already in the window"
    assert "policy" in ids(gate.context("how do refunds work?", window=window, penalize=False))


def test_a_full_window_skips_everything(gate):
    context = gate.context("how do refunds work?", context_budget=ContextBudget(1000, 990))
    assert (context.text, context.chunks, context.token_estimate) == ("", (), 0)
    assert context.trace.plan.skip


def test_a_small_collection_is_loaded_whole_in_reading_order(gate):
    context = gate.context("summarize this", context_budget=ContextBudget(128_000, 0))
    assert context.strategy == "STUFF"
    assert ids(context) == [row["id"] for row in ROWS]


@pytest.mark.parametrize("budget", [0, 1, 10_000_000])
def test_any_budget_is_kept(gate, budget):
    assert gate.context("how do refunds work?", budget=budget).token_estimate <= budget


def test_k_bounds_the_chunks(gate):
    assert len(gate.context("refunds", k=1).chunks) == 1
    assert len(gate.context("refunds", k=1).chunks) == 1


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"query": "  "}, InputError, "query is empty"),
        ({"query": "x" * 100_001}, LimitError, "query_chars is 100,001"),
        ({"query": "x", "budget": -1}, LimitError, "budget is -1; it must be 0 to 10,000,000"),
        ({"query": "x", "budget": 10**9}, LimitError, "limits.budget"),
        ({"query": "x", "k": -1}, InputError, "k is -1"),
        ({"query": "x", "k": 10**9}, LimitError, "limits.k"),
        ({"query": "x", "window": ["y" * 20_000_001]}, LimitError, "limits.window_chars"),
        ({"query": "x", "window": ["y"] * 100_001}, LimitError, "limits.window_blocks"),
        ({"query": "x", "task": "cooking"}, InputError, "task is 'cooking'"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(gate, asked, error, said):
    with pytest.raises(error, match=said):
        gate.context(**asked)


def test_an_unknown_collection_is_empty(gate):
    assert gate.context("refunds", collection="nowhere").chunks == ()


def test_equal_input_gives_equal_bytes(gate):
    first, second = (gate.context("how do refunds work?").text for _ in range(2))
    assert first == second != ""


def test_the_async_form_gives_the_same(gate):
    async def ask():
        return await gate.acontext("how do refunds work?")

    assert asyncio.run(ask()).text == gate.context("how do refunds work?").text


def test_the_sync_form_works_inside_a_running_loop(gate):
    async def ask():
        return gate.context("how do refunds work?")

    assert "policy" in ids(asyncio.run(ask()))


def test_a_store_that_fails_leaves_an_empty_context_that_says_so():
    with Millgate.open(store=FailingStore(TemporaryStore())) as hurt:
        context = hurt.context("how do refunds work?")
    assert context.chunks == ()
    assert context.degraded


texts = st.text("abc. \n#[]<>/é漢😀0", max_size=120)


@given(
    rows=st.lists(texts.filter(str.strip), min_size=1, max_size=8),
    budget=st.integers(0, 200),
    counting=st.sampled_from(["estimate", "o200k_base", "cl100k_base"]),
)
def test_the_budget_is_never_exceeded_under_any_counter(rows, budget, counting):
    with Millgate.open(":memory:", tokens=counting, grade={"enabled": False}) as gate:
        gate.add([{"id": str(n), "text": f"abc {text}"} for n, text in enumerate(rows)])
        context = gate.context("abc", budget=budget, window=["b. b"])
    assert context.token_estimate <= budget
    assert counter(counting)(context.text) <= budget


def test_a_window_that_cannot_be_read_degrades_and_does_not_fail(gate):
    request = Request("how do refunds work?", window=Window(fingerprint={"version": 99}))
    context = asyncio.run(gate.acontext_for(request))
    assert context.chunks
    assert any(line.startswith("penalize:") for line in context.degraded)


def test_a_remembered_fact_is_given_though_no_document_knows(gate):
    rows = [
        {"id": f"n{n}", "text": f"Note {n} about the key of harbor {n} and bridge {n % 7}."}
        for n in range(400)
    ]
    gate.add(rows, collection="notes")
    gate.remember("The deploy key of Falcon lies in vault seven.")
    context = gate.context("where is the deploy key of Falcon?", collection="notes")
    assert [chunk.source for chunk in context.chunks] == ["memory"]
    assert gate.context("where does Melanie run marathons?", collection="notes").chunks == ()


@pytest.mark.parametrize("method", ["head", "chunks", "secret"])
def test_a_store_that_cannot_be_reached_is_not_one_that_knows_nothing(method):
    """Whenever it fails: an empty context would tell the agent that there is nothing to know."""
    store = TemporaryStore()
    away = NotReady("a server of the store cannot be reached", retry_after=1.0)
    failing = FailingStore(store, methods={method}, error=away)
    with Millgate.open(store=store) as whole, Millgate.open(store=failing) as gate:
        whole.add([{"id": "refunds", "text": "Refunds take 14 days."}])
        with pytest.raises(NotReady, match="cannot be reached"):
            gate.context("how long do refunds take?")
        assert failing.failed
