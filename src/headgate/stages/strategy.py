"""Strategy: how content of some size should reach the model for a task.

Loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID). tasks.py tells what kind of
task it is. Numbers are those of the published design (docs/origins.md) unless a comment says otherwise. `decide` builds
its plan on these rules, and agents get them as the tool `context_strategy`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import InputError
from headgate.stages.tasks import CRISIS, TaskClass, TaskPolicy, category_of, classify_task
from headgate.types import ContextBudget, Strategy
from headgate.types.check import check_type

__all__ = [
    "CONTEXT_STRATEGY_TOOL",
    "SIZE_HINTS",
    "StrategyChoice",
    "TaskClass",
    "TaskPolicy",
    "choose_strategy",
    "classify_task",
    "context_strategy",
    "estimate_content_tokens",
    "retrieval_budget",
]

SIZE_HINTS = {
    "tiny": 2_000, "small": 8_000, "medium": 32_000,
    "large": 100_000, "huge": 500_000, "massive": 2_000_000,
}  # fmt: skip
UNKNOWN_SIZE = 64_000

CHARS_PER_TOKEN = 4  # published, for content of which only the size is known


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """How to load the content, how sure we are, why, and what to do next."""

    strategy: Strategy
    confidence: float
    reasoning: str
    available_budget: int
    utilization_pct: float
    retrieval_budget_tokens: int
    steps: tuple[str, ...]


def estimate_content_tokens(
    char_count: int | None = None,
    files: Sequence[str | Path] | None = None,
    size_hint: str | None = None,
) -> int:
    """Tokens of the content by the first of the three that is given; 64 000 when none is."""
    if char_count is not None:
        check_type("char_count", char_count, int)
        if char_count < 0:
            raise InputError(f"char_count is {char_count}; it must be 0 or more")
        return char_count // CHARS_PER_TOKEN
    if files:
        return sum(_size(path) for path in files) // CHARS_PER_TOKEN
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
    policy: TaskPolicy | None = None,
) -> StrategyChoice:
    """How to load content of that size for that task into that window."""
    check_type("content_tokens", content_tokens, int)
    if content_tokens < 0:
        raise InputError(f"content_tokens is {content_tokens}; it must be 0 or more")
    window = ContextBudget(context_length, used_tokens)
    category = category_of(task, policy or TaskPolicy())
    available = max(0, context_length - window.used_tokens - int(context_length * 0.25))
    strategy, confidence, because = _rule(context_length, content_tokens, available, category)
    retrieval = retrieval_budget(strategy, available)
    reasoning = (
        f"{content_tokens:,} tokens of content, {available:,} of {context_length:,} available, "
        f"task {category}: {because}."
    )
    return StrategyChoice(
        strategy=strategy,
        confidence=confidence,
        reasoning=reasoning,
        available_budget=available,
        utilization_pct=round(100 * content_tokens / context_length, 1)
        if context_length
        else 100.0,
        retrieval_budget_tokens=retrieval,
        steps=_steps(strategy, retrieval, category, group=group, tools=frozenset(tools)),
    )


def retrieval_budget(strategy: Strategy, available: int) -> int:
    """Tokens that retrieval may take of what is available; 0 for STUFF, which does not retrieve."""
    if strategy is Strategy.STUFF:
        return 0
    share = 0.3 if strategy is Strategy.HYBRID else 0.7
    # the published floor of 4,000 could exceed what is available, which caps it
    return min(available, max(4000, int(available * share)))


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


def _steps(
    strategy: Strategy, retrieval: int, category: str, *, group: str, tools: frozenset[str]
) -> tuple[str, ...]:
    """The next steps, which name only tools that the caller has."""

    def step_if_has(tool: str, step: str) -> list[str]:
        return [step] if tool in tools else []

    cap = f"Keep what is retrieved under {retrieval:,} tokens."
    if not retrieval:
        cap = "The window has no tokens left: compress or drop some of it before anything is retrieved."
    steps = {
        Strategy.STUFF: [
            "Load all of the content directly; retrieval is not needed.",
            *step_if_has("read_file", "Read each file whole with read_file."),
        ],
        Strategy.HYBRID: [
            "Load the 3-5 most critical documents whole.",
            *step_if_has("read_file", "Use read_file for those documents."),
            *step_if_has("session_search", "Use session_search for what earlier sessions hold."),
            *step_if_has("web_search", "Use web_search for what is still missing."),
            *step_if_has("memory", "Use memory for facts that fill the gaps."),
            cap,
        ],
        Strategy.RAG: [
            "Load no whole documents; search for the passages that answer.",
            *step_if_has("session_search", "Use session_search first."),
            *step_if_has("web_search", "Use web_search and read at most 2-3 pages."),
            *step_if_has("web_extract", "Use web_extract on those pages only."),
            *step_if_has("memory", "Use memory for known facts."),
            "Rerank what is found and keep the best.",
            cap,
            "Where precision matters, confirm with a second source.",
        ],
        Strategy.RAG_GRAPH: [
            "Query the knowledge graph for the subgraph around the question's entities.",
            *step_if_has("memory", "Use memory for facts about those entities."),
            *step_if_has("web_search", "Use web_search for what is not indexed."),
            cap,
        ],
    }[strategy]
    if category == "rag_critical":
        steps.append("Verify every retrieved fact and cite sources.")
    if group == CRISIS:
        steps.append("Accuracy is paramount: ground every statement in verified sources.")
    return tuple(steps)


CONTEXT_STRATEGY_TOOL: Mapping[str, Any] = {
    "name": "context_strategy",
    "description": (
        "Decide how content should reach the model: loaded whole (STUFF), searched (RAG, RAG+GRAPH), or both (HYBRID). "
        "Call it before loading much content. It answers with the strategy, the token budget for retrieval, and next steps."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The task or the question, in full."},
            "content_size_hint": {
                "type": "string",
                "enum": list(SIZE_HINTS),
                "description": "Rough size of the content, from tiny (2,000 tokens) to massive (2,000,000).",
            },
            "file_paths": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Files of the content; their sizes are measured.",
            },
            "char_count": {
                "type": "integer",
                "minimum": 0,
                "description": "Size of the content in characters, if it is known.",
            },
            "model_context_length": {
                "type": "integer",
                "minimum": 0,
                "default": 128_000,
                "description": "Length of your window, in tokens.",
            },
            "used_tokens": {
                "type": "integer",
                "minimum": -1,
                "default": 0,
                "description": "Tokens of the window in use; -1 if unknown.",
            },
            "available_tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Names of the tools you have; the steps name only these.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
"""The agent tool `context_strategy` as a JSON schema; `headgate.integrations.function_tools` puts it in an API's form.
"""


def context_strategy(
    query: str,
    *,
    content_size_hint: str | None = None,
    file_paths: Sequence[str | Path] | None = None,
    char_count: int | None = None,
    model_context_length: int = 128_000,
    used_tokens: int = 0,
    available_tools: Sequence[str] = (),
    policy: TaskPolicy | None = None,
) -> dict[str, Any]:
    """The agent tool: the choice for a query, with the numbers it rests on."""
    policy = policy or TaskPolicy()
    task = classify_task(query, matching=policy.matching)
    content = estimate_content_tokens(char_count, file_paths, content_size_hint)
    choice = choose_strategy(
        context_length=model_context_length, used_tokens=used_tokens, content_tokens=content,
        task=task.task, tools=available_tools, group=task.group, policy=policy,
    )  # fmt: skip
    return {
        "strategy": choice.strategy.value,
        "confidence": choice.confidence,
        "reasoning": choice.reasoning,
        "available_budget": choice.available_budget,
        "utilization_pct": choice.utilization_pct,
        "retrieval_budget_tokens": choice.retrieval_budget_tokens,
        "steps": list(choice.steps),
        "content_tokens": content,
        "model_context_length": model_context_length,
        "used_tokens": max(0, used_tokens),
        "task_type": task.task,
        "group": task.group,
    }
