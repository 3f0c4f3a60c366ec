"""Tasks: what kind of task a query is, by its keywords or by the name that the caller gives it.

rag_critical wants precision, stuff_friendly the whole content, hybrid both. The keywords and names stand in
published/context_strategy.py. A crisis has two levels. One of its keywords is enough to treat the query with care,
since a false alarm costs little there. A person is asked only if the query tells of someone in danger (text/crisis.py).
"""

from dataclasses import dataclass

from millgate.errors import InputError
from millgate.published.context_strategy import (
    CATEGORIES,
    CRISIS,
    GROUPS,
    UNKNOWN,
    Matching,
    find_group,
)
from millgate.text.crisis import tells_of_danger
from millgate.types.policy import Policy


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
