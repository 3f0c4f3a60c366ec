"""Strategy: how content of some size should reach the model for a task.

Loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID). tasks.py tells what kind of
task it is. The rules and their numbers stand in published/context_strategy.py; here the retrieval budget never exceeds
what is available. `decide` builds its plan on them, and agents get them as the tool `context_strategy`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millgate.published.context_strategy import (
    CONTEXT_STRATEGY_TOOL,
    SIZE_HINTS,
    compute_retrieval_budget,
    compute_strategy,
    estimate_content_tokens,
    measure_content,
)
from millgate.stages.tasks import TaskClass, TaskPolicy, category_of, classify_task
from millgate.types import Strategy

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
    chosen = compute_strategy(
        content_tokens, category_of(task, policy or TaskPolicy()), context_length, used_tokens,
        tools, group=group, within_available=True,
    )  # fmt: skip
    return StrategyChoice(**{**chosen, "steps": tuple(chosen["steps"])})


def retrieval_budget(strategy: Strategy, available: int) -> int:
    """Tokens that retrieval may take of what is available; 0 for STUFF, which does not retrieve."""
    return min(available, compute_retrieval_budget(strategy, available))


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
    content, skipped = measure_content(char_count, file_paths, content_size_hint)
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
        "skipped_files": skipped,
    }
