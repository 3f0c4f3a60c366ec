"""Strategy: every published number of task, content size and strategy is a row here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.pipeline.stages.strategy import (
    CONTEXT_STRATEGY_TOOL,
    TaskClass,
    TaskPolicy,
    choose_strategy,
    classify_task,
    context_strategy,
)
from millgate.published.context_strategy import CATEGORIES, GROUPS


def estimate_content_tokens(char_count=None, files=None, size_hint=None):
    """The tokens of the content, as the agent tool answers."""
    return context_strategy("x", char_count=char_count, file_paths=files, content_size_hint=size_hint)["content_tokens"]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "keyword"), [(g, k) for g, (_, words) in GROUPS.items() for k in words]
)
def test_each_keyword_reaches_its_category(group, keyword):
    earlier = [k for g in list(GROUPS)[: list(GROUPS).index(group)] for k in GROUPS[g][1]]
    found = classify_task(f"({keyword.upper()} ...")
    assert found.task == GROUPS[group][0]
    if not any(k in keyword for k in earlier):
        assert found.group == group


@pytest.mark.parametrize(
    ("query", "task", "group"),
    [
        ("is there evidence of suicidal thoughts", "rag_critical", "crisis"),
        ("I don’t want to live", "rag_critical", "crisis"),
        ("where is the emergency exit?", "rag_critical", "crisis"),
        ("suicide squad", "rag_critical", "crisis"),
        ("client disclosed suicidal ideation", "rag_critical", "crisis"),
        ("an idea against homicide", "stuff_friendly", "creative"),
        ("the anticrisis fund of 1988", "unknown", ""),
        ("write a story about what is true", "rag_critical", "factual"),
        ("write a plan", "stuff_friendly", "creative"),
        ("explain the configuration", "hybrid", "analysis"),
        ("hello", "unknown", ""),
        ("", "unknown", ""),
        ("an airplane overhead", "unknown", ""),
    ],
)
def test_the_first_group_that_matches_decides(query, task, group):
    found = classify_task(query)
    assert (found.task, found.group) == (task, group)


def test_one_word_makes_a_crisis_and_puts_nobody_in_danger():
    assert classify_task("where is the emergency exit?") == TaskClass("rag_critical", "crisis")
    assert classify_task("the anticrisis fund", matching="substring").group == "crisis"
    assert classify_task("I want to die").in_danger
    assert classify_task("life is not worth living") == TaskClass(
        "rag_critical", "crisis", in_danger=True
    )


@pytest.mark.parametrize(
    ("used", "said"),
    [(6_000, "Only 2,000 tokens are left"), (7_998, "Only 2 tokens are left"), (8_000, "no tokens left"), (9_000, "no tokens left")],
)  # fmt: skip
def test_a_full_window_is_told_to_free_tokens_and_never_to_stay_under_0_tokens(used, said):
    for content in (1_000, 100_000, 2_000_000):
        choice = choose_strategy(
            context_length=8_000, used_tokens=used, content_tokens=content, task="unknown"
        )
        assert not any("under 0 tokens" in step for step in choice.steps)
        assert any(said in step for step in choice.steps)


def test_published_matching_takes_a_keyword_anywhere():
    assert classify_task("an airplane", matching="substring").task == "hybrid"


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({"char_count": 4000}, 1000),
        ({"char_count": 0, "size_hint": "huge"}, 500_000),
        ({"char_count": 0}, 0),
        ({"size_hint": "tiny"}, 2_000),
        ({"size_hint": "small"}, 8_000),
        ({"size_hint": "medium"}, 32_000),
        ({"size_hint": "large"}, 100_000),
        ({"size_hint": "huge"}, 500_000),
        ({"size_hint": "massive"}, 2_000_000),
        ({}, 64_000),
    ],
)
def test_content_size(given, tokens):
    assert estimate_content_tokens(**given) == tokens


def test_files_count_by_their_size(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 400)
    (tmp_path / "b").write_bytes(b"x" * 800)
    files = [tmp_path / "a", str(tmp_path / "b")]
    assert estimate_content_tokens(files=files, size_hint="huge") == 300


@pytest.mark.parametrize("name", ["missing.txt", ".", "nul\0byte"])
def test_a_file_that_cannot_be_measured_is_skipped_and_named(tmp_path, name):
    (tmp_path / "notes.txt").write_bytes(b"x" * 400)
    paths = [f"{tmp_path}/{name}", f"{tmp_path}/notes.txt"]
    answer = context_strategy("summarize this", file_paths=paths)
    assert answer["content_tokens"] == 100
    [skipped] = answer["skipped_files"]
    assert skipped.startswith(f"{paths[0]}: ")


def test_a_path_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").write_bytes(b"x" * 400)
    answer = context_strategy("summarize this", file_paths=["~/notes.txt", "~nobody-here/x"])
    assert answer["content_tokens"] == 100
    assert len(answer["skipped_files"]) == 1


def test_without_any_file_that_can_be_measured_the_hint_counts():
    assert estimate_content_tokens(files=["/missing"], size_hint="tiny") == 2_000
    assert estimate_content_tokens(files=["/missing"]) == 64_000


@pytest.mark.parametrize(
    ("given", "named"), [({"char_count": -1}, "char_count is -1"), ({"size_hint": "vast"}, "vast")]
)
def test_a_bad_size_is_refused(given, named):
    with pytest.raises(InputError, match=named):
        estimate_content_tokens(**given)


K = 1000


@pytest.mark.parametrize(
    ("length", "used", "content", "task", "strategy", "confidence"),
    [
        (128 * K, 0, 10 * K, "rag_critical", "HYBRID", 0.85),
        (128 * K, 0, 96 * K, "factual_qa", "HYBRID", 0.85),
        (128 * K, 0, 32 * K, "unknown", "STUFF", 0.95),
        (128 * K, 0, 32 * K, "hybrid", "STUFF", 0.95),
        (128 * K, 0, 90 * K, "stuff_friendly", "STUFF", 0.85),
        (1000 * K, 0, 500 * K, "summarization", "STUFF", 0.85),
        (128 * K, 0, 33 * K, "hybrid", "HYBRID", 0.75),
        (128 * K, 0, 100 * K, "stuff_friendly", "HYBRID", 0.75),
        (15_999, 0, 20 * K, "hybrid", "RAG", 0.80),
        (16_000, 0, 20 * K, "hybrid", "HYBRID", 0.75),
        (128 * K, 0, 128 * K, "comparison", "HYBRID", 0.75),
        (128 * K, 0, 128_001, "hybrid", "RAG", 0.80),
        (128 * K, 0, 100 * K, "rag_critical", "RAG", 0.80),
        (8 * K, 0, 10 * K, "unknown", "RAG", 0.80),
        (128 * K, 0, 1000 * K, "unknown", "RAG", 0.80),
        (128 * K, 0, 1_000_001, "unknown", "RAG+GRAPH", 0.70),
        (2000 * K, 0, 1_200_000, "unknown", "RAG+GRAPH", 0.70),
        (128 * K, 0, 64 * K, "unknown", "HYBRID", 0.60),
        (0, 0, 10, "unknown", "RAG", 0.80),
        (0, 0, 0, "unknown", "STUFF", 0.95),
    ],
)
def test_the_strategy_rules(length, used, content, task, strategy, confidence):
    verdict = choose_strategy(
        context_length=length, used_tokens=used, content_tokens=content, task=task
    )
    assert (verdict.strategy, verdict.confidence) == (strategy, confidence)
    assert f"{content:,}" in verdict.reasoning
    assert verdict.reasoning.count(". ") == 0


@pytest.mark.parametrize(
    ("length", "used", "content", "task", "available", "utilization", "retrieval"),
    [
        (128 * K, 0, 10 * K, "unknown", 96 * K, 7.8, 0),
        (128 * K, 0, 10 * K, "rag_critical", 96 * K, 7.8, 28_800),
        (20 * K, 5 * K, 5 * K, "rag_critical", 10 * K, 25.0, 4_000),
        (128 * K, 28 * K, 500 * K, "unknown", 68 * K, 390.6, 47_600),
        (8 * K, 5 * K, 50 * K, "unknown", 1 * K, 625.0, 1 * K),
        (8 * K, 9 * K, 50 * K, "unknown", 0, 625.0, 0),
        (0, 0, 10, "unknown", 0, 100.0, 0),
        (128 * K, -1, 2_000_000, "unknown", 96 * K, 1562.5, 67_200),
    ],
)
def test_the_strategy_numbers(length, used, content, task, available, utilization, retrieval):
    verdict = choose_strategy(
        context_length=length, used_tokens=used, content_tokens=content, task=task
    )
    assert verdict.available_budget == available
    assert verdict.utilization_pct == utilization
    assert verdict.retrieval_budget_tokens == retrieval


@pytest.mark.parametrize(
    ("category", "name"), [(c, n) for c, names in CATEGORIES.items() for n in sorted(names)]
)
def test_a_named_task_is_its_category(category, name):
    def ask(task):
        return choose_strategy(
            context_length=128_000, used_tokens=0, content_tokens=50_000, task=task
        )

    assert ask(name) == ask(category)


def test_settings_add_named_tasks():
    policy = TaskPolicy(rag_critical=frozenset({"tax_advice"}))
    verdict = choose_strategy(
        context_length=128_000, used_tokens=0, content_tokens=10, task="tax_advice", policy=policy
    )
    assert verdict.confidence == 0.85


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"task": "cooking"}, "task is 'cooking'"),
        ({"content_tokens": -1}, "content_tokens is -1"),
        ({"context_length": -1}, "context_length is -1"),
    ],
)
def test_absurd_input_is_refused_by_name(given, named):
    usual = {"context_length": 1, "used_tokens": 0, "content_tokens": 1, "task": "unknown"}
    with pytest.raises(InputError, match=named):
        choose_strategy(**(usual | given))


ALL_TOOLS = ("read_file", "web_extract", "session_search", "web_search", "memory")


@given(
    st.integers(0, 3_000_000),
    st.integers(-1, 300_000),
    st.integers(0, 3_000_000),
    st.sampled_from(["rag_critical", "stuff_friendly", "hybrid", "unknown"]),
    st.sets(st.sampled_from(ALL_TOOLS)),
)
def test_advice_fits_the_tokens_left_and_names_only_tools_the_caller_has(
    length, used, content, task, has
):
    verdict = choose_strategy(
        context_length=length, used_tokens=used, content_tokens=content, task=task, tools=has
    )
    said = " ".join(verdict.steps)
    assert {tool for tool in ALL_TOOLS if tool in said.replace("web_search", "") or
            (tool == "web_search" and tool in said)} <= has  # fmt: skip
    assert verdict.retrieval_budget_tokens <= verdict.available_budget
    assert verdict.steps


@pytest.mark.parametrize(
    ("strategy", "content", "phrases"),
    [
        ("STUFF", 10, ["retrieval is not needed", "read_file"]),
        ("HYBRID", 50_000, ["3-5 most critical", "session_search", "web_search", "memory", "28,800"]),
        ("RAG", 500_000, ["no whole documents", "2-3 pages", "Rerank", "67,200", "second source"]),
        ("RAG+GRAPH", 2_000_000, ["subgraph", "not indexed"]),
    ],
)  # fmt: skip
def test_each_strategy_says_what_to_do(strategy, content, phrases):
    verdict = choose_strategy(
        context_length=128_000, used_tokens=0, content_tokens=content, task="unknown", tools=ALL_TOOLS
    )  # fmt: skip
    assert verdict.strategy == strategy
    assert all(phrase in " ".join(verdict.steps) for phrase in phrases)


def test_precision_asks_for_citations_and_a_crisis_for_more():
    factual = context_strategy("what is the dose?")
    crisis = context_strategy("I want to die", char_count=10)
    assert "cite sources" in factual["steps"][-1]
    assert "Accuracy is paramount" in crisis["steps"][-1]
    assert (factual["task_type"], crisis["group"]) == ("rag_critical", "crisis")
    assert "paramount" not in " ".join(factual["steps"])


def test_the_agent_tool_takes_and_gives_what_its_schema_says():
    schema = CONTEXT_STRATEGY_TOOL["parameters"]
    assert schema["required"] == ["query"]
    assert set(schema["properties"]) == {
        "query", "content_size_hint", "file_paths", "char_count", "model_context_length",
        "used_tokens", "available_tools",
    }  # fmt: skip
    assert schema["properties"]["model_context_length"]["default"] == 128_000
    answer = context_strategy("hello", content_size_hint="small", used_tokens=-1)
    assert {
        k: answer[k] for k in ("content_tokens", "model_context_length", "used_tokens", "task_type")
    } == {
        "content_tokens": 8_000,
        "model_context_length": 128_000,
        "used_tokens": 0,
        "task_type": "unknown",
    }
