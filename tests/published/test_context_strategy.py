"""Context strategy: the design's own examples, and a plain re-implementation beside ours on random inputs."""

import random
from fractions import Fraction

from tests.published.cases import random_cases

from millgate.pipeline.stages.decide import prefetch_params
from millgate.pipeline.stages.strategy import choose_strategy, retrieval_budget
from millgate.published.context_strategy import (
    GROUPS,
    SIGNALS,
    SIZE_HINTS,
    ContextBudget,
    Strategy,
    classify_task_type,
    compute_prefetch_params,
    compute_strategy,
    estimate_content_tokens,
    should_prefetch,
)

K = 1000


def random_budget(rng):
    length = rng.choice([0, 1000, 1000, 128_000])
    used = rng.randrange(length + length // 3 + 2)
    threshold = rng.choice([0, 0, length // 2, length * 3 // 4])
    return ContextBudget(length, used, threshold)


def plain_pressure(budget):
    over = budget.threshold_tokens or budget.context_length
    return Fraction(budget.used_tokens, over) if budget.context_length else Fraction(0)


def plain_prefetch(budget, base):
    full = plain_pressure(budget)
    tier = (
        "stuff"
        if full < Fraction(30, 100)
        else "hybrid"
        if full < Fraction(70, 100)
        else "selective"
    )
    if full > Fraction(95, 100):
        return {"limit": 0, "min_trust": 1.0, "strategy": tier, "skip": True}
    times = {"stuff": Fraction(3), "hybrid": Fraction(1), "selective": Fraction(2, 5)}[tier]
    trust = {"stuff": 0.2, "hybrid": 0.3, "selective": 0.5}[tier]
    return {"limit": max(1, int(base * times)), "min_trust": trust, "strategy": tier, "skip": False}


@random_cases
def test_prefetch_parameters_are_those_of_exact_fractions(cases):
    rng = random.Random(1)
    for _ in range(cases):
        budget, base = random_budget(rng), rng.randrange(12)
        plain = plain_prefetch(budget, base)
        assert compute_prefetch_params(budget, base) == plain
        assert (budget.strategy, prefetch_params(budget, base).limit) == (
            plain["strategy"],
            plain["limit"],
        )


def random_query(rng):
    words = [*SIGNALS, "unsaid", "beforehand", "the", "file", "x" * 150]
    return " ".join(rng.choices(words, k=rng.randrange(5)))


@random_cases
def test_prefetching_is_wanted_as_the_plain_rule_says(cases):
    rng = random.Random(2)
    for _ in range(cases):
        budget, query = random_budget(rng), random_query(rng)
        full, signal = plain_pressure(budget), any(word in query for word in SIGNALS)
        if full < Fraction(1, 2):
            plain = True
        elif full < Fraction(4, 5):
            plain = signal
        else:
            plain = signal and len(query) < 200
        assert should_prefetch(budget, query) is plain


@random_cases
def test_a_task_is_of_the_first_group_with_a_keyword(cases):
    rng = random.Random(3)
    keywords = [word for _, words in GROUPS.values() for word in words]
    for _ in range(cases):
        chosen = rng.choices([*keywords, "the", "a thing", "Fixture"], k=rng.randrange(4))
        query = rng.choice([" ", "", "\n"]).join(chosen)
        query = query.upper() if rng.random() < 0.2 else query
        plain = "unknown"
        for task, words in reversed(GROUPS.values()):
            if any(query.lower().count(word) for word in words):
                plain = task
        assert classify_task_type(query) == plain


@random_cases
def test_the_size_is_that_of_the_first_that_says_one(tmp_path, cases):
    rng = random.Random(4)
    sizes = [0, 3, 4, 1001]
    for size in sizes:
        (tmp_path / str(size)).write_bytes(b"x" * size)
    for _ in range(cases):
        count = rng.choice([None, 0, rng.randrange(10_000_000)])
        files = rng.choice([None, [], rng.choices([*sizes, 77], k=2)])
        hint = rng.choice([None, *SIZE_HINTS])
        paths = None if files is None else [str(tmp_path / str(size)) for size in files]
        present = [size for size in files or () if size != 77]  # there is no file 77
        if count:
            plain = count // 4
        elif sum(present):
            plain = sum(present) // 4
        elif hint:
            plain = SIZE_HINTS[hint]
        else:
            plain = 64_000
        assert estimate_content_tokens(hint, paths, count) == plain


def plain_strategy(length, used, content, task):
    free = max(0, length - used - length // 4)
    fits, middling = content <= free, task in ("hybrid", "stuff_friendly")
    table = (
        (task == "rag_critical" and fits, "HYBRID", 0.85),
        (fits and content <= 32_000, "STUFF", 0.95),
        (fits and task == "stuff_friendly", "STUFF", 0.85),
        (content <= 128_000 and middling and length < 16_000, "RAG", 0.80),
        (content <= 128_000 and middling, "HYBRID", 0.75),
        (content > 1_000_000, "RAG+GRAPH", 0.70),
        (content > 128_000 or not fits, "RAG", 0.80),
        (True, "HYBRID", 0.60),
    )
    strategy, confidence = next((name, sure) for holds, name, sure in table if holds)
    share = {"STUFF": None, "HYBRID": 30}.get(strategy, 70)
    return strategy, confidence, free, 0 if share is None else max(4000, free * share // 100)


@random_cases
def test_the_strategy_is_that_of_a_plain_table(cases):
    rng = random.Random(5)
    tasks = ["rag_critical", "stuff_friendly", "hybrid", "unknown"]
    edges = [32_000, 128_000, 1_000_000]
    for _ in range(cases):
        length = rng.choice([0, 8000, 15_999, 16_000, 128_000, 2_000_000])
        used = rng.randrange(length + 10)
        content = rng.choice([rng.randrange(2_500_000), rng.randrange(200_000), *edges])
        content += rng.randrange(-1, 2) if content else 0
        task, tools = rng.choice(tasks), rng.sample(["read_file", "memory", "web_search"], 1)
        made = compute_strategy(length, used, content, task, tools)
        strategy, confidence, free, retrieval = plain_strategy(length, used, content, task)
        assert (made["strategy"], made["confidence"]) == (strategy, confidence)
        assert made["available_budget"] == free
        assert abs(made["retrieval_budget_tokens"] - retrieval) <= 1  # 30 % as a float
        named = {word for step in made["steps"] for word in step.split() if "_" in word}
        assert {word.strip(".,") for word in named} <= set(tools)
        ours = choose_strategy(
            context_length=length, used_tokens=used, content_tokens=content, task=task
        )
        assert (ours.strategy, ours.confidence) == (strategy, confidence)
        assert ours.retrieval_budget_tokens == min(free, made["retrieval_budget_tokens"])
        assert retrieval_budget(Strategy(strategy), free) == ours.retrieval_budget_tokens
