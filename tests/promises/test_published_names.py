"""Every name that the four designs publish: its arguments in their order, its defaults, its keys and its numbers.

What we add to a published function is named by keyword and has a default or is a door that the design leaves open.
"""

import inspect
import json

import pytest

from millgate.published import context_strategy as strategy
from millgate.published import entropy_gating as gating
from millgate.published import self_reference as window
from millgate.published import stream_failsafe as failsafe

NONE = inspect.Parameter.empty
SIGNATURES = [
    (strategy.ContextBudget, {"context_length": 0, "used_tokens": 0, "threshold_tokens": 0, "compression_enabled": True}),
    (strategy.compute_prefetch_params, {"budget": NONE, "base_limit": 5, "base_min_trust": 0.3}),
    (strategy.should_prefetch, {"budget": NONE, "query": NONE}),
    (strategy.build_strategy_report, {"budget": NONE}),
    (strategy.MemoryManager.set_context_budget, {"self": NONE, "context_length": NONE, "used_tokens": NONE, "threshold_tokens": NONE, "compression_enabled": True}),
    (strategy.classify_task_type, {"query": NONE}),
    (strategy.estimate_content_tokens, {"content_size_hint": None, "file_paths": None, "char_count": None}),
    (strategy.compute_strategy, {"model_context_length": NONE, "used_tokens": NONE, "content_tokens": NONE, "task_type": NONE, "available_tools": None}),
    (gating.calculate_shannon_entropy, {"text": NONE}),
    (gating.calculate_token_entropy, {"text": NONE}),
    (gating.score_chunk, {"chunk": NONE}),
    (gating.annotate_chunks, {"chunks": NONE}),
    (gating.estimate_tokens, {"text": NONE}),
    (gating.prune_to_budget, {"chunks": NONE, "max_tokens": 4096, "min_entropy": 0.1}),
    (gating.eviction_report, {"chunks": NONE, "selected": NONE}),
    (failsafe.LocalAgentConfig, {"enable_lz_crf": True, "entropy_window_size": 64, "entropy_min_threshold": 1.5, "entropy_drop_threshold": 0.3, "divergence_token": "<system: branch_divergence_forced>", "max_rollbacks": 3}),
    (failsafe.EntropyCRFMiddleware, {"generate_fn": NONE, "window_size": 64, "min_entropy": 1.5, "drop_threshold": 0.3, "divergence_token": "<system: branch_divergence_forced>", "max_rollbacks": 3}),
    (failsafe.EntropyCRFMiddleware.generate, {"self": NONE, "history": NONE}),
    (window.build_window_fingerprint, {"request": NONE}),
    (window.build_rag_candidates, {"rag_results": NONE}),
    (window.build_gk_candidates, {"gk_result": NONE}),
    (window.penalize_candidates, {"candidates": NONE, "window_fp": NONE, "source": NONE}),
    (window.should_expand, {"rag_candidates": NONE, "k_rag": NONE}),
    (window.expand_adjacent_semantic_space, {"query": NONE, "project": NONE, "session_id": NONE, "gk_result": NONE, "window_fp": NONE, "target_k": NONE}),
    (window.fuse_candidate_pools, {"rag_candidates": NONE, "expanded_candidates": NONE}),
    (window.pack_budgeted_response, {"rag_candidates": NONE, "gk_candidates": NONE, "admissibility_token": NONE, "max_tokens": NONE, "include_graph": NONE}),
    (window.compose_response, {"request": NONE, "project": NONE, "gk_result": NONE, "rag_results": NONE}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "published"), SIGNATURES, ids=lambda given: getattr(given, "__qualname__", ""))  # fmt: skip
def test_a_function_takes_the_published_arguments_in_their_order(function, published):
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert {p.name: p.default for p in positional} == published
    assert [p.name for p in positional] == list(published)


FIELDS = {
    window.ContextGatewayRequest: "query cwd session_id max_tokens include_graph k_rag current_window_text current_window_blocks current_window_fingerprint enable_self_ref_penalty",
    window.SpanFingerprint: "span_id sha256 simhash64 minhash128 token_count",
    window.WindowFingerprintPayload: "global_sha256 global_simhash64 global_minhash128 spans",
    window.OverlapAssessment: "exact_match simhash_distance overlap_ratio penalty reason",
    window.ScoredCandidate: "source candidate_id text base_score adjusted_score overlap metadata",
    window.ContextGatewayResponse: "text chunks admissibility_token graph_context token_estimate sources latency_ms",
}  # fmt: skip


@pytest.mark.parametrize("model", FIELDS)
def test_a_model_has_the_published_fields(model):
    assert set(FIELDS[model].split()) <= set(model.model_fields)


def test_a_request_has_the_published_defaults():
    asked = window.ContextGatewayRequest(query="how?")
    assert (asked.max_tokens, asked.k_rag, asked.include_graph) == (500, 5, True)
    assert (asked.enable_self_ref_penalty, asked.current_window_blocks) == (True, [])
    assert window.build_window_fingerprint(asked) is None


def test_the_published_numbers_stand():
    assert strategy.STUFF_THRESHOLD == 32_000
    assert strategy.HYBRID_THRESHOLD == strategy.RAG_THRESHOLD == 128_000
    assert strategy.GRAPH_RAG_THRESHOLD == 1_000_000
    assert (strategy.CONTEXT_OVERHEAD_RATIO, strategy.MIN_RETRIEVAL_BUDGET) == (0.25, 4_000)
    assert (gating.CHARS_PER_TOKEN, gating.estimate_tokens("x" * 43)) == (4, 10)
    assert (window.SHINGLE, window.MINHASH_PERM, window.DUP_HAMMING) == (5, 128, 3)
    assert (window.TRIGGER_OVERLAP, window.MIN_NOVEL) == (0.60, 2)
    assert (window.WEIGHT, window.GRAPH_WEIGHT, window.EXPONENT) == (0.90, 0.60, 1.35)
    assert (window.NEAR_DUPLICATE, window.SELF_REFERENTIAL, window.NOVEL) == (0.85, 0.60, 0.30)


def test_the_sets_of_tasks_are_those_of_the_categories():
    assert strategy.CATEGORIES == {
        "stuff_friendly": strategy.STUFF_FRIENDLY_TASKS,
        "rag_critical": strategy.RAG_CRITICAL_TASKS,
        "hybrid": strategy.HYBRID_TASKS,
    }
    assert [len(names) for names in strategy.CATEGORIES.values()] == [8, 9, 7]
    assert {"depends_on", "conflicts_with", "extends", "resolves", "relates_to_project"} < window.HIGH_SIGNAL_PREDICATES  # fmt: skip


def test_the_answers_have_the_published_keys():
    found = json.loads(strategy.handle_context_strategy({"query": "what is the dose?"}))
    assert found.keys() == {
        "strategy", "confidence", "reasoning", "content_tokens", "available_budget", "model_context_length",
        "used_tokens", "utilization_pct", "task_type", "retrieval_budget_tokens", "steps",
    }  # fmt: skip
    assert (found["model_context_length"], found["content_tokens"]) == (128_000, 64_000)
    params = strategy.compute_prefetch_params(strategy.ContextBudget(100, 50))
    assert params.keys() == {"limit", "min_trust", "strategy", "skip"}
    assert gating.eviction_report([], []).keys() >= {
        "total_candidates", "kept", "evicted", "avg_entropy_kept", "avg_entropy_evicted", "evicted_ids",
    }  # fmt: skip
    assert gating.eviction_report([{"content": "a b"}], [])["evicted_ids"] == ["?"]


def test_rows_become_candidates_by_their_similarity_or_score():
    rows = [{"id": 1, "content": "a", "similarity": 0.7}, {"id": 2, "text": "b", "score": 0.4}]
    assert [(c.candidate_id, c.text, c.base_score) for c in window.build_rag_candidates(rows)] == [
        ("1", "a", 0.7), ("2", "b", 0.4),
    ]  # fmt: skip
    path = [{"source": "api", "predicate": "depends_on", "target": "cache"}]
    [candidate] = window.build_gk_candidates({"paths": [path]})
    assert (candidate.source, candidate.base_score) == ("gk", 0.6)
    assert "api" in candidate.text
    assert "cache" in candidate.text


REFUNDS = "Refunds are paid within fourteen days to the card that was charged by the shop."
RAIL = "Parcels of the northern depot leave by rail on every second Monday of the month."


async def test_what_the_window_holds_makes_room_for_what_is_new_and_the_token_stays():
    asked = window.ContextGatewayRequest(
        query="refunds", current_window_blocks=[REFUNDS, "Hello."], k_rag=2
    )
    calls = []

    async def search(query, *, session_id, match_count):
        calls.append((query, match_count))
        return [{"id": "r", "content": REFUNDS, "score": 0.9}, {"id": "n", "content": RAIL, "score": 0.5}]  # fmt: skip

    path = [{"source": "shop", "predicate": "depends_on", "target": "bank"}]
    kernel = {"paths": [path], "admissibility_token": "signed"}
    given = await window.compose_response(asked, "till", kernel, [{"id": "r", "content": REFUNDS, "score": 0.9}], search=search)  # fmt: skip
    assert given.sources == ["n"]
    assert given.admissibility_token == "signed"
    assert "depends_on" in given.graph_context
    assert 2 <= len(calls) <= 4
    assert calls[0] == ("refunds", 12)
    assert any("bank" in query or "till" in query for query, _ in calls)


async def test_a_second_pass_that_fails_leaves_the_first():
    asked = window.ContextGatewayRequest(query="refunds", current_window_text=REFUNDS)

    async def search(query, **_):
        raise OSError("the search is down")

    rows = [{"id": "n", "content": RAIL, "score": 0.5}]
    given = await window.compose_response(asked, None, {}, rows, search=search)
    assert given.sources == ["n"]


async def test_without_a_window_scores_stay_as_they_were():
    rows = [{"id": "r", "content": REFUNDS, "score": 0.9}]
    asked = window.ContextGatewayRequest(query="refunds")
    [chunk] = (await window.compose_response(asked, None, {}, rows)).chunks
    assert chunk.adjusted_score == chunk.base_score == 0.9


def test_the_gating_pipeline_fuses_fires_prunes_and_reports():
    rows = [
        {"id": "seed", "content": "The harbor gate opens at noon."},
        {"id": "wired", "content": "Boats wait outside for the tide to turn."},
        {"id": "far", "content": "Nothing leads here from anywhere at all."},
        {"id": "dull", "content": "aaaa aaaa aaaa"},
    ]
    edges = {0: [(1, 0.9), (3, 0.9)]}
    chosen, report = gating.gate_by_entropy(rows, [[0]], lambda n: edges.get(n, ()), seeds=1)
    assert {row["id"] for row in chosen} == {"seed", "wired"}
    assert (report["total_candidates"], report["evicted_ids"]) == (3, ["dull"])


@pytest.mark.parametrize(
    ("relevant", "action"),
    [({"own", "web"}, "inject"), ({"web"}, "web_search"), (set(), "hitl_sessions")],
)
def test_grades_lead_to_one_of_three_actions(relevant, action):
    asked = []
    taken, rows = gating.correct(
        "q", [{"id": "own", "content": "x"}],
        is_relevant=lambda _, row: row["id"] in relevant,
        search=lambda _: [{"id": "web", "content": "y"}],
        review=lambda *case: asked.append(case),
    )  # fmt: skip
    assert taken == action
    assert len(asked) == (action == "hitl_sessions")
    assert len(rows) == (action != "hitl_sessions")
