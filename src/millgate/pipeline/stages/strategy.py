"""Strategy: how content of some size should reach the model for a task.

Loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID). tasks.py tells what kind of
task it is. The rules and their numbers stand in published/context_strategy.py; here the retrieval budget never exceeds
what is available. `decide` builds its plan on them, and agents get them as the tool `context_strategy`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from millgate.errors import InputError
from millgate.pipeline.stages.tasks import TaskClass, TaskPolicy, category_of, classify_task
from millgate.published import context_strategy as published
from millgate.published.context_strategy import (
    CONTEXT_STRATEGY_TOOL,
    SIZE_HINTS,
    compute_retrieval_budget,
    compute_strategy,
)
from millgate.types import ContextBudget, Strategy
from millgate.types.check import check_count

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
    window = ContextBudget(context_length, used_tokens)
    check_count("content_tokens", content_tokens)
    chosen = compute_strategy(
        context_length, window.used_tokens, content_tokens, category_of(task, policy or TaskPolicy()),
        tools, group=group, within_available=True,
    )  # fmt: skip
    chosen["steps"] = tuple(chosen["steps"])
    return StrategyChoice(**{field.name: chosen[field.name] for field in fields(StrategyChoice)})


def retrieval_budget(strategy: Strategy, available: int) -> int:
    """Tokens that retrieval may take of what is available; 0 for STUFF, which does not retrieve."""
    return min(available, compute_retrieval_budget(strategy, available))


def estimate_content_tokens(
    char_count: int | None = None,
    files: Sequence[str | Path] | None = None,
    size_hint: str | None = None,
) -> int:
    """Tokens of the content by the first of the three that says a size; 64 000 if none does.

    A count of 0 says nothing if another is given. A file that cannot be measured is skipped; `context_strategy` names
    it.
    """
    return _measure_content(char_count, files, size_hint)[0]


def _measure_content(
    char_count: int | None, files: Sequence[str | Path] | None, size_hint: str | None
) -> tuple[int, list[str]]:
    """Tokens of the content, and for each file that was skipped its path and the reason."""
    if char_count is not None:
        check_count("char_count", char_count)
    if size_hint is not None and size_hint not in SIZE_HINTS:
        raise InputError(f"size_hint is {size_hint!r}", hint=f"use one of: {', '.join(SIZE_HINTS)}")
    sizes, skipped = ([], []) if char_count else _measure_files(files or ())
    is_empty = bool(sizes) or (char_count == 0 and not files and size_hint is None)
    chars = char_count or sum(sizes)
    if not chars and is_empty:
        return 0, skipped
    return published.estimate_content_tokens(size_hint, char_count=chars), skipped


def _measure_files(files: Sequence[str | Path]) -> tuple[list[int], list[str]]:
    """The sizes of the files that can be read, and why each of the others was skipped."""
    sizes, skipped = list[int](), list[str]()
    for path in files:
        try:
            found = Path(path).expanduser()
            if found.exists() and not found.is_file():
                skipped.append(f"{path}: not a file")
                continue
            with found.open("rb") as file:
                sizes.append(file.seek(0, 2))
        except FileNotFoundError:
            skipped.append(f"{path}: no such file")
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
            skipped.append(f"{path}: {getattr(error, 'strerror', None) or error}")
    return sizes, skipped


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
    content, skipped = _measure_content(char_count, file_paths, content_size_hint)
    choice = choose_strategy(
        context_length=model_context_length, used_tokens=used_tokens, content_tokens=content,
        task=task.task, tools=available_tools, group=task.group, policy=policy,
    )  # fmt: skip
    return asdict(choice) | {
        "steps": list(choice.steps),
        "content_tokens": content,
        "model_context_length": model_context_length,
        "used_tokens": max(0, used_tokens),
        "task_type": task.task,
        "group": task.group,
        "skipped_files": skipped,
    }
