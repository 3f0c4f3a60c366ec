"""Context strategy and pressure-aware memory, as published in "Long Context vs RAG Decision Framework".

Pressure is used / threshold (used / window without a threshold). It says how much memory may give: STUFF below 0.30,
HYBRID below 0.70, SELECTIVE above, nothing at all above 0.95. The task and the size of the content say how it should
reach the model: loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID).

The pipeline's `decide` joins both into one plan (stages/decide.py), and agents get the strategy as the tool
`context_strategy` (stages/strategy.py). Both match keywords at a word start and keep the retrieval budget within what
is available; the functions here do neither unless they are asked to. docs/origins.md says why.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from millgate.errors import InputError
from millgate.text.table import clip

__all__ = [
    "CONTEXT_STRATEGY_TOOL",
    "ContextBudget",
    "PressureAware",
    "Strategy",
    "Tier",
    "build_strategy_report",
    "classify_task_type",
    "compute_prefetch_params",
    "compute_retrieval_budget",
    "compute_strategy",
    "estimate_content_tokens",
    "measure_content",
    "should_prefetch",
]

# -- pressure ------------------------------------------------------------------------------------

STUFF_BELOW = 0.30
HYBRID_BELOW = 0.70
SKIP_ABOVE = 0.95

ALWAYS_BELOW = 0.50  # prefetch without being asked for
SIGNAL_BELOW = 0.80  # above it, only short queries may prefetch
SHORT_QUERY = 200  # characters

MAX_INT = 2**63 - 1  # what a column of a database and a JSON reader of any language hold


class Tier(StrEnum):
    """How full the window is: mostly free, half full, or nearly full."""

    STUFF = "stuff"
    HYBRID = "hybrid"
    SELECTIVE = "selective"


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The model's window: its length, what is used, and where compression would begin (0: unknown).

    If the agent does not compress (`compression_enabled` false), the threshold means nothing: only the window ends.
    """

    context_length: int = 0
    """Length of the model's window, in tokens; 0 if unknown."""
    used_tokens: int = 0
    """Tokens of the window in use; negative if unknown."""
    threshold_tokens: int = 0
    """Where the agent begins to compress, in tokens; 0 if unknown."""
    compression_enabled: bool = True
    """Whether the agent compresses at all."""

    def __post_init__(self) -> None:
        for name in ("context_length", "used_tokens", "threshold_tokens"):
            check_number(name, getattr(self, name), at_least=None)
        for name in ("context_length", "threshold_tokens"):
            check_number(name, getattr(self, name))
        if self.used_tokens < 0:  # some agents say -1 for "unknown"
            object.__setattr__(self, "used_tokens", 0)

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window if there is none); may exceed 1."""
        if self.context_length <= 0:
            return 0.0
        threshold = self.threshold_tokens if self.compression_enabled else 0
        return self.used_tokens / (threshold or self.context_length)

    @property
    def tier(self) -> Tier:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        if self.pressure < STUFF_BELOW:
            return Tier.STUFF
        return Tier.HYBRID if self.pressure < HYBRID_BELOW else Tier.SELECTIVE


class PressureAware:
    """What a memory manager or provider needs to heed the window: `set_context_budget`, which its host calls."""

    _window: ContextBudget | None = None

    def set_context_budget(
        self,
        context_length: int | ContextBudget | None = None,
        used_tokens: int = 0,
        threshold_tokens: int = 0,
        compression_enabled: bool = True,  # noqa: FBT001, FBT002  the published signature
    ) -> None:
        """Say how full the window is, by its numbers or as one value; nothing at all if it is not known.

        For example: `memory.set_context_budget(context_length=200_000, used_tokens=50_000, threshold_tokens=150_000)`.
        """
        if isinstance(context_length, ContextBudget) or context_length is None:
            self._window = context_length
        else:
            self._window = ContextBudget(
                context_length, used_tokens, threshold_tokens, compression_enabled
            )


def compute_prefetch_params(budget: ContextBudget, base_limit: int = 5) -> dict[str, Any]:
    """How much each memory provider may give: `limit` facts, `min_trust`, the `tier`, and whether to `skip` it all."""
    if base_limit < 0:
        raise InputError(f"base_limit is {base_limit}; it must be 0 or more")
    tier = budget.tier
    if budget.pressure > SKIP_ABOVE:
        return {"limit": 0, "min_trust": 1.0, "tier": tier, "skip": True}
    factor, min_trust = {
        Tier.STUFF: (3.0, 0.2),
        Tier.HYBRID: (1.0, 0.3),
        Tier.SELECTIVE: (0.4, 0.5),
    }[tier]
    limit = max(1, int(base_limit * factor))
    return {"limit": limit, "min_trust": min_trust, "tier": tier, "skip": False}


SIGNALS = (
    "remember", "recall", "what did", "who is", "last time", "previously", "before", "fact_store",
    "memory", "told you", "mentioned", "said", "project", "config", "setup",
)  # fmt: skip
"""What in a query asks for memory."""

Matching = Literal["word", "substring"]
"""Where a keyword counts: at the start of a word, or anywhere in the lower-cased query, as published."""


def should_prefetch(budget: ContextBudget, query: str, *, matching: Matching = "substring") -> bool:
    """Below 0.50 always; below 0.80 with a memory signal; above, with a signal in a short query."""
    if budget.pressure < ALWAYS_BELOW:
        return True
    signal = has_keyword(query, SIGNALS, matching)
    return signal and (budget.pressure < SIGNAL_BELOW or len(query) < SHORT_QUERY)


def build_strategy_report(budget: ContextBudget) -> str:
    """The window's state in a few lines for a person."""
    params = compute_prefetch_params(budget)
    advice = {
        Tier.STUFF: "The window is mostly free: it prefetches generously.",
        Tier.HYBRID: "The window is half full: it prefetches what is likely to matter.",
        Tier.SELECTIVE: "The window is nearly full: it prefetches only what is trusted and asked for.",
    }[params["tier"]]
    threshold = f"{budget.threshold_tokens:,}" if budget.threshold_tokens else "none"
    return "\n".join((
        f"Tier:      {params['tier'].name}",
        f"Pressure:  {budget.pressure:.1%}",
        f"Used:      {budget.used_tokens:,} of {budget.context_length:,} tokens",
        f"Threshold: {threshold}",
        f"Limit:     {params['limit']} facts per provider",
        f"Min trust: {params['min_trust']}",
        f"Skip:      {'yes' if params['skip'] else 'no'}",
        "The window is full: nothing is prefetched." if params["skip"] else advice,
    ))  # fmt: skip


# -- the task ------------------------------------------------------------------------------------

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
"""Tasks that a caller may name, by their category."""

CATEGORIES = ("rag_critical", "stuff_friendly", "hybrid", "unknown")


def classify_task_type(query: str) -> str:
    """The category of a query, by the first group with a keyword anywhere in it; "unknown" if there is none."""
    for task, keywords in GROUPS.values():
        if has_keyword(query, keywords, "substring"):
            return task
    return "unknown"


def has_keyword(query: str, keywords: Sequence[str], matching: Matching) -> bool:
    """Whether the query holds one of the keywords."""
    text = query.lower()
    if matching == "substring":
        return any(keyword in text for keyword in keywords)
    return bool(_pattern(tuple(keywords)).search(text.replace("’", "'")))


@lru_cache(maxsize=16)
def _pattern(keywords: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, keywords))})")


# -- the size of the content ---------------------------------------------------------------------

SIZE_HINTS = {
    "tiny": 2_000, "small": 8_000, "medium": 32_000,
    "large": 100_000, "huge": 500_000, "massive": 2_000_000,
}  # fmt: skip
UNKNOWN_SIZE = 64_000
CHARS_PER_TOKEN = 4


def estimate_content_tokens(
    char_count: int | None = None,
    files: Sequence[str | Path] | None = None,
    size_hint: str | None = None,
) -> int:
    """Tokens of the content by the first of the three that says a size; 64 000 if none does.

    A count of 0 says nothing if another is given. A file that cannot be measured is skipped; `measure_content` names
    it.
    """
    return measure_content(char_count, files, size_hint)[0]


def measure_content(
    char_count: int | None = None,
    files: Sequence[str | Path] | None = None,
    size_hint: str | None = None,
) -> tuple[int, list[str]]:
    """Tokens of the content, and for each file that was skipped its path and the reason."""
    if char_count is not None:
        check_number("char_count", char_count)
    if size_hint is not None and size_hint not in SIZE_HINTS:
        raise InputError(f"size_hint is {size_hint!r}", hint=f"use one of: {', '.join(SIZE_HINTS)}")
    if char_count or (char_count == 0 and not files and size_hint is None):
        return char_count // CHARS_PER_TOKEN, []
    sizes, skipped = _measure_files(files or ())
    if sizes:
        return sum(sizes) // CHARS_PER_TOKEN, skipped
    return (UNKNOWN_SIZE if size_hint is None else SIZE_HINTS[size_hint]), skipped


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


# -- the strategy --------------------------------------------------------------------------------

OVERHEAD = 0.25  # share of the window that is kept free
SMALL_CONTENT = 32_000
LARGE_CONTENT = 128_000
HUGE_CONTENT = 1_000_000
SMALL_WINDOW = 16_000
RETRIEVAL_FLOOR = 4_000
HYBRID_SHARE = 0.3
RAG_SHARE = 0.7


class Strategy(StrEnum):
    """How content should reach the model."""

    STUFF = "STUFF"
    HYBRID = "HYBRID"
    RAG = "RAG"
    RAG_GRAPH = "RAG+GRAPH"


def compute_strategy(
    content_tokens: int,
    task_type: str,
    model_context_length: int = 128_000,
    used_tokens: int = 0,
    available_tools: Iterable[str] = (),
    *,
    group: str = "",
    within_available: bool = False,
) -> dict[str, Any]:
    """How to load content of that size for a category of task into that window.

    `group` is the group of keywords that told the category: a crisis has a step of its own. The floor of 4 000 tokens
    for retrieval may exceed what is available; with `within_available` it does not.
    """
    check_number("content_tokens", content_tokens)
    window = ContextBudget(model_context_length, used_tokens)
    overhead = int(model_context_length * OVERHEAD)
    available = max(0, model_context_length - window.used_tokens - overhead)
    strategy, confidence, because = _rule(
        model_context_length, content_tokens, available, task_type
    )
    retrieval = compute_retrieval_budget(strategy, available)
    if within_available:
        retrieval = min(available, retrieval)
    reasoning = (
        f"{content_tokens:,} tokens of content, {available:,} of {model_context_length:,} available, "
        f"task {task_type}: {because}."
    )
    utilization = 100 * content_tokens / model_context_length if model_context_length else 100.0
    return {
        "strategy": strategy,
        "confidence": confidence,
        "reasoning": reasoning,
        "available_budget": available,
        "utilization_pct": round(utilization, 1),
        "retrieval_budget_tokens": retrieval,
        "steps": _steps(
            strategy,
            retrieval,
            task_type,
            free=max(0, model_context_length - window.used_tokens),
            group=group,
            tools=frozenset(available_tools),
        ),
    }


def compute_retrieval_budget(strategy: Strategy, available: int) -> int:
    """Tokens for retrieval: 0 for STUFF, else a share of what is available, and at least 4 000."""
    if strategy is Strategy.STUFF:
        return 0
    share = HYBRID_SHARE if strategy is Strategy.HYBRID else RAG_SHARE
    return max(RETRIEVAL_FLOOR, int(available * share))


def _rule(
    context_length: int, content: int, available: int, category: str
) -> tuple[Strategy, float, str]:
    fits = content <= available
    if category == "rag_critical" and fits:
        return Strategy.HYBRID, 0.85, "it fits, but precision matters, so load and verify"
    if content <= SMALL_CONTENT and fits:
        return Strategy.STUFF, 0.95, "small enough to load whole"
    if fits and category == "stuff_friendly":
        return Strategy.STUFF, 0.85, "it fits and the task wants the whole of it"
    if content <= LARGE_CONTENT and category in ("hybrid", "stuff_friendly"):
        if context_length < SMALL_WINDOW:
            return Strategy.RAG, 0.80, "the window is too small to hold it, so search"
        return Strategy.HYBRID, 0.75, "load the critical part and search for the rest"
    if content > LARGE_CONTENT or not fits:
        if content > HUGE_CONTENT:
            return Strategy.RAG_GRAPH, 0.70, "far too large to load, so search along its graph"
        return Strategy.RAG, 0.80, "too large to load, so search"
    return Strategy.HYBRID, 0.60, "no rule is decisive, so do both"


def _steps(
    strategy: Strategy,
    retrieval: int,
    category: str,
    *,
    free: int,
    group: str,
    tools: frozenset[str],
) -> list[str]:
    """The next steps, which name only tools that the caller has."""

    def step_if_has(tool: str, step: str) -> list[str]:
        return [step] if tool in tools else []

    cap = f"Keep what is retrieved under {retrieval:,} tokens."
    if not retrieval and free:
        cap = f"Only {free:,} tokens are left, and the answer needs them: retrieve a few passages at most, or compress first."
    elif not retrieval:
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
    return steps


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
                "description": "Files of the content, to be measured.",
            },
            "char_count": {
                "type": "integer",
                "minimum": 0,
                "description": "Its size in characters, if known.",
            },
            "model_context_length": {
                "type": "integer",
                "minimum": 0,
                "default": 128_000,
                "description": "Tokens your window holds.",
            },
            "used_tokens": {
                "type": "integer",
                "minimum": -1,
                "default": 0,
                "description": "Tokens of it in use; -1 if unknown.",
            },
            "available_tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Tools you have; the steps name only these.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
"""The agent tool `context_strategy` as a JSON schema; `millgate.integrations.function_tools` puts it in an API's form.
"""


def check_number(name: str, value: object, *, at_least: int | None = 0) -> None:
    """Refuse what is not a whole number of at most 63 bits, or is less than `at_least`."""
    if isinstance(value, int) and abs(value) > MAX_INT:
        raise InputError(f"{name} is too large; it must be {MAX_INT} at most")
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be a whole number")
    if at_least is not None and value < at_least:
        raise InputError(f"{name} is {value}; it must be {at_least} or more")
