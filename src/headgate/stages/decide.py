"""Decide: is retrieval wanted, and how much?

Two views are joined into one Plan. The window's pressure (used / threshold, or / window) says how much room
memory may take: STUFF below 0.30, HYBRID below 0.70, SELECTIVE above, nothing at all above 0.95. The task and
the size of the content say how it should be loaded: whole (STUFF), searched (RAG), or both (HYBRID).
Every number here is published; what measurement changed is marked.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headgate.errors import InputError
from headgate.policy import Policy, PositiveCount, Tuning
from headgate.types import ContextBudget, Plan, Request, Strategy, Tier

__all__ = [
    "CONTEXT_STRATEGY_TOOL",
    "Classified",
    "ContextBudget",
    "DecidePolicy",
    "Prefetch",
    "Tier",
    "Verdict",
    "choose_strategy",
    "classify_task",
    "context_strategy",
    "decide",
    "estimate_content_tokens",
    "prefetch_params",
    "should_prefetch",
    "strategy_report",
]

SIGNALS = (
    "remember", "recall", "what did", "who is", "last time", "previously", "before", "fact_store",
    "memory", "told you", "mentioned", "said", "project", "config", "setup",
)  # fmt: skip

# group -> (task category, keywords); the first group that matches decides
GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "crisis": ("rag_critical", (
        "suicid", "kill myself", "end my life", "want to die", "self-harm", "crisis", "emergency",
        "988", "don't want to live", "better off dead",
    )),
    "factual": ("rag_critical", (
        "what is", "who is", "when did", "where is", "how many", "cite", "source", "reference",
        "according to", "evidence", "fact check", "verify", "accurate", "precise", "research",
        "paper", "study", "arxiv",
    )),
    "creative": ("stuff_friendly", (
        "write a", "draft", "story", "poem", "creative", "brainstorm", "idea", "imagine", "design",
        "translate", "rewrite", "summarize this", "review this code", "refactor",
    )),
    "analysis": ("hybrid", (
        "analyze", "compare", "evaluate", "assess", "plan", "strategy", "pros and cons",
        "trade-off", "explain", "describe", "how does", "why does",
    )),
}  # fmt: skip

NAMED_TASKS: Mapping[str, frozenset[str]] = {
    "stuff_friendly": frozenset({
        "summarization", "creative_writing", "brainstorming", "translation", "style_transfer",
        "code_generation", "code_review", "conversation",
    }),
    "rag_critical": frozenset({
        "factual_qa", "fact_verification", "research", "legal_analysis", "medical_lookup",
        "crisis_intervention", "data_extraction", "citation_generation", "debugging",
    }),
    "hybrid": frozenset({
        "analysis", "comparison", "planning", "report_writing", "code_explanation",
        "documentation", "tutorial_creation",
    }),
}  # fmt: skip

CATEGORIES = ("rag_critical", "stuff_friendly", "hybrid", "unknown")

SIZE_HINTS = {
    "tiny": 2_000, "small": 8_000, "medium": 32_000,
    "large": 100_000, "huge": 500_000, "massive": 2_000_000,
}  # fmt: skip
UNKNOWN_SIZE = 64_000

TOOLS = ("read_file", "web_extract", "session_search", "web_search", "memory")

Matching = Literal["word", "substring"]


class DecidePolicy(Policy):
    """How a request is read: keyword matching, and what callers add to the named tasks."""

    matching: Matching = "word"
    """'word': a keyword must begin at a word start; 'substring': anywhere, as published."""
    base_limit: Tuning[PositiveCount] = 5
    """Facts per memory provider before the tier's factor."""
    stuff_friendly: Tuning[frozenset[str]] = frozenset()
    """More task names that are stuff_friendly."""
    rag_critical: Tuning[frozenset[str]] = frozenset()
    """More task names that are rag_critical."""
    hybrid: Tuning[frozenset[str]] = frozenset()
    """More task names that are hybrid."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """How much each memory provider may give: facts, least trust, or nothing at all."""

    limit: int
    min_trust: float
    tier: Tier
    skip: bool


@dataclass(frozen=True, slots=True)
class Classified:
    """What kind of task a query is, and which group of keywords said so ('' for none)."""

    task: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How to load the content, how sure we are, why, and what to do next."""

    strategy: Strategy
    confidence: float
    reasoning: str
    available_budget: int
    utilization_pct: float
    retrieval_budget_tokens: int
    steps: tuple[str, ...]


def prefetch_params(budget: ContextBudget, base_limit: int = 5) -> Prefetch:
    """Facts per provider and least trust by tier; skip above 0.95 pressure."""
    if base_limit < 0:
        raise InputError(f"base_limit is {base_limit}; it must be 0 or more")
    tier = budget.tier
    if budget.pressure > 0.95:
        return Prefetch(limit=0, min_trust=1.0, tier=tier, skip=True)
    factor, min_trust = {
        Tier.STUFF: (3.0, 0.2),
        Tier.HYBRID: (1.0, 0.3),
        Tier.SELECTIVE: (0.4, 0.5),
    }[tier]
    return Prefetch(max(1, int(base_limit * factor)), min_trust, tier, skip=False)


def should_prefetch(budget: ContextBudget, query: str, *, matching: Matching = "word") -> bool:
    """Below 0.50 always; below 0.80 with a memory signal; above, with a signal in a short query."""
    if budget.pressure < 0.50:
        return True
    signal = _first_match(query, SIGNALS, matching) is not None
    return signal and (budget.pressure < 0.80 or len(query) < 200)


def classify_task(query: str, *, matching: Matching = "word") -> Classified:
    """The category of a query, by the first group with a keyword in it."""
    for group, (task, keywords) in GROUPS.items():
        if _first_match(query, keywords, matching) is not None:
            return Classified(task, group)
    return Classified("unknown")


def _first_match(query: str, keywords: Sequence[str], matching: Matching) -> str | None:
    text = query.lower().replace("’", "'")
    if matching == "substring":
        return next((k for k in keywords if k in text), None)
    found = re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, keywords))})", text)
    return found[0] if found else None


def estimate_content_tokens(
    char_count: int | None = None,
    files: Sequence[str | Path] | None = None,
    size_hint: str | None = None,
) -> int:
    """Tokens of the content by the first of the three that is given; 64 000 when none is."""
    if char_count is not None:
        if char_count < 0:
            raise InputError(f"char_count is {char_count}; it must be 0 or more")
        return char_count // 4
    if files:
        return sum(_size(path) for path in files) // 4
    if size_hint is not None:
        if size_hint not in SIZE_HINTS:
            raise InputError(
                f"size_hint is {size_hint!r}", hint=f"use one of: {', '.join(SIZE_HINTS)}"
            )
        return SIZE_HINTS[size_hint]
    return UNKNOWN_SIZE


def _size(path: str | Path) -> int:
    try:
        if not Path(path).is_file():
            raise InputError(f"{path} is not a file", hint="name files, not folders")
        with Path(path).open("rb") as file:
            return file.seek(0, 2)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path}: {error}", hint="check its path and rights"
        ) from error


def choose_strategy(
    *,
    context_length: int,
    used_tokens: int,
    content_tokens: int,
    task: str,
    tools: Iterable[str] = (),
    group: str = "",
    policy: DecidePolicy | None = None,
) -> Verdict:
    """How to load content of that size for that task into that window; each rule as published."""
    if content_tokens < 0:
        raise InputError(f"content_tokens is {content_tokens}; it must be 0 or more")
    window = ContextBudget(context_length, used_tokens)
    category = _category(task, policy or DecidePolicy())
    available = max(0, context_length - window.used_tokens - int(context_length * 0.25))
    strategy, confidence, because = _rule(context_length, content_tokens, available, category)
    # measured: published floors of 4 000 could exceed the room there is, so room caps them
    share = {Strategy.STUFF: 0.0, Strategy.HYBRID: 0.3}.get(strategy, 0.7)
    retrieval = min(available, max(4000, int(available * share))) if share else 0
    reasoning = (
        f"{content_tokens:,} tokens of content, {available:,} of {context_length:,} available, "
        f"task {category}: {because}."
    )
    return Verdict(
        strategy=strategy,
        confidence=confidence,
        reasoning=reasoning,
        available_budget=available,
        utilization_pct=_utilization(content_tokens, context_length),
        retrieval_budget_tokens=retrieval,
        steps=_steps(strategy, retrieval, category, group=group, tools=frozenset(tools)),
    )


def _rule(
    context_length: int, content: int, available: int, category: str
) -> tuple[Strategy, float, str]:
    fits = content <= available
    if category == "rag_critical" and fits:
        return Strategy.HYBRID, 0.85, "it fits, but precision matters, so load and verify"
    if content <= 32_000 and fits:
        return Strategy.STUFF, 0.95, "small enough to load whole"
    if fits and category == "stuff_friendly":
        return Strategy.STUFF, 0.85, "it fits and the task wants the whole of it"
    if content <= 128_000 and category in ("hybrid", "stuff_friendly"):
        if context_length < 16_000:
            return Strategy.RAG, 0.80, "the window is too small to hold it, so search"
        return Strategy.HYBRID, 0.75, "load the critical part and search for the rest"
    if content > 128_000 or not fits:
        if content > 1_000_000:
            return Strategy.RAG_GRAPH, 0.70, "far too large to load, so search along its graph"
        return Strategy.RAG, 0.80, "too large to load, so search"
    return Strategy.HYBRID, 0.60, "no rule is decisive, so do both"


def _utilization(content_tokens: int, context_length: int) -> float:
    return round(100 * content_tokens / context_length, 1) if context_length else 100.0


def _category(task: str, policy: DecidePolicy) -> str:
    if task in CATEGORIES:
        return task
    for category, names in NAMED_TASKS.items():
        if task in names or task in getattr(policy, category):
            return category
    named = sorted(name for names in NAMED_TASKS.values() for name in names)
    raise InputError(f"task is {task!r}", hint=f"use one of: {', '.join((*CATEGORIES, *named))}")


def _steps(
    strategy: Strategy, retrieval: int, category: str, *, group: str, tools: frozenset[str]
) -> tuple[str, ...]:
    """Next steps, naming only tools the caller has."""

    def having(tool: str, step: str) -> list[str]:
        return [step] if tool in tools else []

    cap = f"Keep what is retrieved under {retrieval:,} tokens."
    steps = {
        Strategy.STUFF: [
            "Load all of the content directly; retrieval is not needed.",
            *having("read_file", "Read each file whole with read_file."),
        ],
        Strategy.HYBRID: [
            "Load the 3-5 most critical documents whole.",
            *having("read_file", "Use read_file for those documents."),
            *having("session_search", "Use session_search for what earlier sessions hold."),
            *having("web_search", "Use web_search for what is still missing."),
            *having("memory", "Use memory for facts that fill the gaps."),
            cap,
        ],
        Strategy.RAG: [
            "Load no whole documents; search for the passages that answer.",
            *having("session_search", "Use session_search first."),
            *having("web_search", "Use web_search and read at most 2-3 pages."),
            *having("web_extract", "Use web_extract on those pages only."),
            *having("memory", "Use memory for known facts."),
            "Rerank what is found and keep the best.",
            cap,
            "Where precision matters, confirm with a second source.",
        ],
        Strategy.RAG_GRAPH: [
            "Query the knowledge graph for the subgraph around the question's entities.",
            *having("memory", "Use memory for facts about those entities."),
            *having("web_search", "Use web_search for what is not indexed."),
            cap,
        ],
    }[strategy]
    if category == "rag_critical":
        steps.append("Verify every retrieved fact and cite sources.")
    if group == "crisis":
        steps.append("Accuracy is paramount: ground every statement in verified sources.")
    return tuple(steps)


def strategy_report(budget: ContextBudget) -> str:
    """The window's state in a few lines for a person."""
    params = prefetch_params(budget)
    advice = {
        Tier.STUFF: "Plenty of room: it prefetches generously.",
        Tier.HYBRID: "Some room: it prefetches what is likely to matter.",
        Tier.SELECTIVE: "Hardly any room: it prefetches only what is trusted and asked for.",
    }[params.tier]
    threshold = f"{budget.threshold_tokens:,}" if budget.threshold_tokens else "none"
    return "\n".join((
        f"Tier:      {params.tier.name}",
        f"Pressure:  {budget.pressure:.1%}",
        f"Used:      {budget.used_tokens:,} of {budget.context_length:,} tokens",
        f"Threshold: {threshold}",
        f"Limit:     {params.limit} facts per provider",
        f"Min trust: {params.min_trust}",
        f"Skip:      {'yes' if params.skip else 'no'}",
        "Too little room is left: nothing is prefetched." if params.skip else advice,
    ))  # fmt: skip


def decide(request: Request, policy: DecidePolicy, *, content_tokens: int | None = None) -> Plan:
    """Join pressure and task into one plan. `content_tokens` is what the collection holds."""
    seen = classify_task(request.query, matching=policy.matching)
    task = _category(request.task, policy) if request.task else seen.task
    if request.task == "crisis_intervention":
        seen = Classified(task, "crisis")
    window = request.context_budget
    if window is None:
        return Plan(
            skip=False, tier=Tier.HYBRID, strategy=Strategy.HYBRID, budget=request.budget,
            confidence=0.60, task=task, group=seen.group, prefetch=True,
            reasoning="Nothing is known of the window, so retrieve within the budget.",
        )  # fmt: skip
    memory = prefetch_params(window, policy.base_limit)
    verdict = choose_strategy(
        context_length=window.context_length, used_tokens=window.used_tokens,
        content_tokens=UNKNOWN_SIZE if content_tokens is None else content_tokens,
        task=task, policy=policy,
    )  # fmt: skip
    strategy, reasoning = verdict.strategy, verdict.reasoning
    if strategy is Strategy.STUFF and (content_tokens is None or content_tokens > request.budget):
        strategy = Strategy.HYBRID
        reasoning += f" The collection does not fit the request's {request.budget:,} tokens."
    return Plan(
        skip=memory.skip, tier=memory.tier, strategy=strategy,
        budget=0 if memory.skip else min(request.budget, _room(window, request.budget)),
        limit=memory.limit, min_trust=memory.min_trust, confidence=verdict.confidence,
        task=task, group=seen.group, pressure=window.pressure,
        prefetch=should_prefetch(window, request.query, matching=policy.matching),
        reasoning=_skipped(window) if memory.skip else reasoning,
    )  # fmt: skip


def _room(window: ContextBudget, wanted: int) -> int:
    """What is left of the window; a window of unknown length leaves what is wanted."""
    if window.context_length == 0:
        return wanted
    return max(0, window.context_length - window.used_tokens)


def _skipped(window: ContextBudget) -> str:
    return f"Pressure is {window.pressure:.1%}, above 95%: nothing is retrieved."


CONTEXT_STRATEGY_TOOL: Mapping[str, Any] = {
    "name": "context_strategy",
    "description": "Decide how content should reach the model: loaded whole, searched, or both.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What is to be done or answered."},
            "content_size_hint": {"type": "string", "enum": list(SIZE_HINTS)},
            "file_paths": {"type": "array", "items": {"type": "string"}},
            "char_count": {"type": "integer", "minimum": 0},
            "model_context_length": {"type": "integer", "minimum": 0, "default": 128_000},
            "used_tokens": {"type": "integer", "default": 0},
            "available_tools": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}


def context_strategy(
    query: str,
    *,
    content_size_hint: str | None = None,
    file_paths: Sequence[str | Path] | None = None,
    char_count: int | None = None,
    model_context_length: int = 128_000,
    used_tokens: int = 0,
    available_tools: Sequence[str] = (),
    policy: DecidePolicy | None = None,
) -> dict[str, Any]:
    """The agent tool: the verdict for a query, with the numbers it rests on."""
    policy = policy or DecidePolicy()
    seen = classify_task(query, matching=policy.matching)
    content = estimate_content_tokens(char_count, file_paths, content_size_hint)
    verdict = choose_strategy(
        context_length=model_context_length, used_tokens=used_tokens, content_tokens=content,
        task=seen.task, tools=available_tools, group=seen.group, policy=policy,
    )  # fmt: skip
    return {
        "strategy": verdict.strategy.value,
        "confidence": verdict.confidence,
        "reasoning": verdict.reasoning,
        "available_budget": verdict.available_budget,
        "utilization_pct": verdict.utilization_pct,
        "retrieval_budget_tokens": verdict.retrieval_budget_tokens,
        "steps": list(verdict.steps),
        "content_tokens": content,
        "model_context_length": model_context_length,
        "used_tokens": max(0, used_tokens),
        "task_type": seen.task,
        "group": seen.group,
    }
