"""Tasks: what kind of task a query is, by its keywords or by the name that the caller gives it.

rag_critical wants precision, stuff_friendly the whole content, hybrid both. The keywords and names are those of the
published design (docs/origins.md).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from headgate.errors import InputError
from headgate.policy import Policy
from headgate.text.crisis import is_crisis

CRISIS = "crisis"

# group -> (task category, keywords); the first group that matches decides
GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    CRISIS: ("rag_critical", (
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

Matching = Literal["word", "substring"]


class TaskPolicy(Policy):
    """How a task is recognized: keyword matching, and what callers add to the named tasks."""

    matching: Matching = "word"
    """'word': a keyword must begin at a word start, and a crisis must tell of a person in danger; 'substring': any
    keyword anywhere.
    """
    stuff_friendly: frozenset[str] = frozenset()
    """More task names that are stuff_friendly."""
    rag_critical: frozenset[str] = frozenset()
    """More task names that are rag_critical."""
    hybrid: frozenset[str] = frozenset()
    """More task names that are hybrid."""


@dataclass(frozen=True, slots=True)
class TaskClass:
    """What kind of task a query is, and which group of keywords says so ('' for none)."""

    task: str
    group: str = ""


def classify_task(query: str, *, matching: Matching = "word") -> TaskClass:
    """The category of a query, by the first group with a keyword in it.

    Matching "word", a keyword alone makes no crisis: the query must tell of a person in danger (text/crisis.py).
    """
    for group, (task, keywords) in GROUPS.items():
        if group == CRISIS and matching == "word":
            found = is_crisis(query)
        else:
            found = has_keyword(query, keywords, matching)
        if found:
            return TaskClass(task, group)
    return TaskClass("unknown")


def has_keyword(query: str, keywords: Sequence[str], matching: Matching) -> bool:
    """Whether the query holds one of the keywords."""
    text = query.lower().replace("’", "'")
    if matching == "substring":
        return any(keyword in text for keyword in keywords)
    return bool(_pattern(tuple(keywords)).search(text))


@lru_cache(maxsize=16)
def _pattern(keywords: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, keywords))})")


def category_of(task: str, policy: TaskPolicy) -> str:
    """The category of a task that the caller names: a category itself, or a named task."""
    if task in CATEGORIES:
        return task
    for category, names in NAMED_TASKS.items():
        if task in names or task in getattr(policy, category):
            return category
    named = sorted(name for names in NAMED_TASKS.values() for name in names)
    raise InputError(f"task is {task!r}", hint=f"use one of: {', '.join((*CATEGORIES, *named))}")
