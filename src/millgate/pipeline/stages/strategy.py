"""Strategy: what kind of task a query is, and how content of some size should reach the model for it.

A task is told by its keywords, or by the name that the caller gives it: rag_critical wants precision, stuff_friendly
the whole content, hybrid both. A crisis has two levels. One of its keywords is enough to treat the query with care,
since a false alarm costs little there. A person is asked only if the query tells of someone in danger
(text/crisis.py). Content is loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID).
The keywords, rules and numbers stand in published/context_strategy.py; here the retrieval budget never exceeds what is
available. `decide` builds its plan on them, and agents get them as the tool `context_strategy`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from millgate.errors import InputError
from millgate.published.context_strategy import (
    CATEGORIES,
    CONTEXT_STRATEGY_TOOL,
    CRISIS,
    GROUPS,
    SIZE_HINTS,
    UNKNOWN,
    Matching,
    compute_retrieval_budget,
    compute_strategy,
    estimate_content_tokens,
    find_group,
)
from millgate.text.crisis import tells_of_danger
from millgate.types import ContextBudget, Strategy
from millgate.types.check import check_count
from millgate.types.policy import Policy

__all__ = [
    "CONTEXT_STRATEGY_TOOL",
    "SIZE_HINTS",
    "StrategyChoice",
    "TaskClass",
    "TaskPolicy",
    "category_of",
    "choose_strategy",
    "classify_task",
    "context_strategy",
    "retrieval_budget",
]


class TaskPolicy(Policy):
    """How a task is recognized: keyword matching, and what callers add to the named tasks."""

    matching: Matching = "word"
    """'word': a keyword must begin at a word start; 'substring': any keyword anywhere."""
    stuff_friendly: frozenset[str] = frozenset()
    """More task names that are stuff_friendly."""
    rag_critical: frozenset[str] = frozenset()
    """More task names that are rag_critical."""
    hybrid: frozenset[str] = frozenset()
    """More task names that are hybrid."""


@dataclass(frozen=True, slots=True)
class TaskClass:
    """What kind of task a query is, which group of keywords says so ('' for none), and whether someone is in danger."""

    task: str
    group: str = ""
    in_danger: bool = False


def classify_task(query: str, *, matching: Matching = "word") -> TaskClass:
    """The category of a query, by the first group with a keyword in it; who is in danger is in a crisis."""
    if tells_of_danger(query):
        return TaskClass(GROUPS[CRISIS][0], CRISIS, in_danger=True)
    return TaskClass(*find_group(query, matching))


def category_of(task: str, policy: TaskPolicy) -> str:
    """The category of a task that the caller names: a category itself, or a named task."""
    categories = (*CATEGORIES, UNKNOWN)
    if task in categories:
        return task
    for category, names in CATEGORIES.items():
        if task in names or task in getattr(policy, category):
            return category
    named = sorted(name for names in CATEGORIES.values() for name in names)
    raise InputError(f"task is {task!r}", hint=f"use one of: {', '.join((*categories, *named))}")


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


def _measure_content(
    char_count: int | None, files: Sequence[str | Path], size_hint: str | None
) -> tuple[int, list[str]]:
    """Tokens of the content by the first of the three that says a size, and each file that was skipped with the reason.

    A count of 0 says nothing if another is given; 64 000 if none says a size.
    """
    if char_count is not None:
        check_count("char_count", char_count)
    if size_hint is not None and size_hint not in SIZE_HINTS:
        raise InputError(f"size_hint is {size_hint!r}", hint=f"use one of: {', '.join(SIZE_HINTS)}")
    sizes, skipped = list[int](), list[str]()
    for path in () if char_count else files:
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
    chars = char_count or sum(sizes)
    if not chars and (sizes or (char_count == 0 and not files and size_hint is None)):
        return 0, skipped
    return estimate_content_tokens(size_hint, char_count=chars), skipped


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
    content, skipped = _measure_content(char_count, file_paths or (), content_size_hint)
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
