"""Context strategy and pressure-aware memory, as published in "Long Context vs RAG Decision Framework".

Pressure is used / threshold (used / window without a threshold). It says how much memory may give: STUFF below 0.30,
HYBRID below 0.70, SELECTIVE above, nothing at all above 0.95. The task and the size of the content say how it should
reach the model: loaded whole (STUFF), searched (RAG, for the largest along the graph), or both (HYBRID).
The whole of it is a `MemoryManager`, which heeds the window, and the tool `handle_context_strategy`.

Arguments that are not published are named by keyword, and without them the published rule holds. The pipeline
(stages/decide.py, stages/strategy.py) calls these functions with keywords that count at a word start and with a
retrieval budget that is never more than what is available. docs/origins.md says why.
"""

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

__all__ = [
    "CONTEXT_OVERHEAD_RATIO",
    "CONTEXT_STRATEGY_TOOL",
    "GRAPH_RAG_THRESHOLD",
    "HYBRID_TASKS",
    "HYBRID_THRESHOLD",
    "MIN_RETRIEVAL_BUDGET",
    "RAG_CRITICAL_TASKS",
    "RAG_THRESHOLD",
    "STUFF_FRIENDLY_TASKS",
    "STUFF_THRESHOLD",
    "ContextBudget",
    "ContextStrategy",
    "MemoryManager",
    "Strategy",
    "build_strategy_report",
    "classify_task_type",
    "compute_prefetch_params",
    "compute_retrieval_budget",
    "compute_strategy",
    "estimate_content_tokens",
    "handle_context_strategy",
    "should_prefetch",
]

# -- pressure ------------------------------------------------------------------------------------

STUFF_BELOW = 0.30
HYBRID_BELOW = 0.70
SKIP_ABOVE = 0.95

ALWAYS_BELOW = 0.50  # prefetch without being asked for
SIGNAL_BELOW = 0.80  # above it, only short queries may prefetch
SHORT_QUERY = 200  # characters


class ContextStrategy(StrEnum):
    """How full the window is: mostly free, half full, or nearly full."""

    STUFF = "stuff"
    HYBRID = "hybrid"
    SELECTIVE = "selective"


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The model's window: its length, what is used, and where compression would begin (0: unknown)."""

    context_length: int = 0
    """Length of the model's window, in tokens; 0 if unknown."""
    used_tokens: int = 0
    """Tokens of the window in use; negative if unknown."""
    threshold_tokens: int = 0
    """Where the agent begins to compress, in tokens; 0 if unknown."""
    compression_enabled: bool = True
    """Whether the agent compresses at all."""

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window if there is none); may exceed 1."""
        if self.context_length <= 0:
            return 0.0
        full = self.threshold_tokens if self.threshold_tokens > 0 else self.context_length
        return self.used_tokens / full

    @property
    def strategy(self) -> ContextStrategy:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        if self.pressure < STUFF_BELOW:
            return ContextStrategy.STUFF
        return ContextStrategy.HYBRID if self.pressure < HYBRID_BELOW else ContextStrategy.SELECTIVE

    @property
    def label(self) -> str:
        """The strategy as a word for a log."""
        return self.strategy.value


FACTORS = {
    ContextStrategy.STUFF: 3.0,
    ContextStrategy.HYBRID: 1.0,
    ContextStrategy.SELECTIVE: 0.4,
}
MIN_TRUST = {
    ContextStrategy.STUFF: 0.2,
    ContextStrategy.HYBRID: 0.3,
    ContextStrategy.SELECTIVE: 0.5,
}


def compute_prefetch_params(
    budget: ContextBudget, base_limit: int = 5, base_min_trust: float = 0.3
) -> dict[str, Any]:
    """How much each memory provider may give: `limit` facts, `min_trust`, the `strategy`, and whether to `skip` it all.

    `base_min_trust` is for a strategy without a trust of its own; all three have one.
    """
    strategy = budget.strategy
    if budget.pressure > SKIP_ABOVE:
        return {"limit": 0, "min_trust": 1.0, "strategy": strategy, "skip": True}
    return {
        "limit": max(1, int(base_limit * FACTORS[strategy])),
        "min_trust": MIN_TRUST.get(strategy, base_min_trust),
        "strategy": strategy,
        "skip": False,
    }


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
    signal = has_keyword(query or "", SIGNALS, matching)
    return signal and (budget.pressure < SIGNAL_BELOW or len(query) < SHORT_QUERY)


def build_strategy_report(budget: ContextBudget) -> str:
    """The window's state in a few lines for a person."""
    params = compute_prefetch_params(budget)
    advice = {
        ContextStrategy.STUFF: "The window is mostly free: it prefetches generously.",
        ContextStrategy.HYBRID: "The window is half full: it prefetches what is likely to matter.",
        ContextStrategy.SELECTIVE: "The window is nearly full: it prefetches only what is trusted and asked for.",
    }[budget.strategy]
    return "\n".join((
        f"Context Strategy: {budget.strategy.name}",
        f"  Pressure: {budget.pressure:.1%}",
        f"  Used: {budget.used_tokens:,} / {budget.context_length:,} tokens",
        f"  Threshold: {budget.threshold_tokens:,} tokens",
        f"  Prefetch limit: {params['limit']} facts",
        f"  Min trust: {params['min_trust']:.1f}",
        f"  Skip prefetch: {params['skip']}",
        f"  → {'The window is full: nothing is prefetched.' if params['skip'] else advice}",
    ))  # fmt: skip


class MemoryProvider(Protocol):
    """A memory: `prefetch(query, *, session_id, limit, min_trust)`; older ones accept less and are given less."""

    prefetch: Callable[..., str | None]


class MemoryManager:
    """Several memories asked as one, each for as many and as trusted facts as the window allows."""

    def __init__(self) -> None:
        self._providers: list[MemoryProvider] = []
        self._context_budget: ContextBudget | None = None

    def add_provider(self, provider: MemoryProvider) -> None:
        """Ask this one too, after the others."""
        self._providers.append(provider)

    def set_context_budget(
        self,
        context_length: int,
        used_tokens: int,
        threshold_tokens: int,
        compression_enabled: bool = True,  # noqa: FBT001, FBT002  the published signature
    ) -> None:
        """Say how full the window is; until it is said, providers use their own limits."""
        self._context_budget = ContextBudget(
            context_length, used_tokens, threshold_tokens, compression_enabled
        )

    def prefetch_all(self, query: str, *, session_id: str = "") -> str:
        """What all of them recall, a blank line between two; "" if the window has no place for it."""
        given: dict[str, Any] = {"session_id": session_id}
        if self._context_budget is not None:
            params = compute_prefetch_params(self._context_budget)
            if params["skip"] or not should_prefetch(self._context_budget, query):
                return ""
            given |= {"limit": params["limit"], "min_trust": params["min_trust"]}
        recalled = (self._ask(provider, query, given) for provider in self._providers)
        return "\n\n".join(text for text in recalled if text.strip())

    def _ask(self, provider: MemoryProvider, query: str, given: Mapping[str, Any]) -> str:
        try:
            return provider.prefetch(query, **pick_accepted(provider.prefetch, given)) or ""
        except Exception as error:  # noqa: BLE001  # a plugin's code may raise anything
            logging.getLogger(__name__).warning("memory provider %r failed: %s", provider, error)
            return ""


def pick_accepted(method: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a method accepts, by its signature; older providers accept fewer."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # written in C, it has no signature to read: give it all
        return dict(given)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(given)
    taken = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    return {name: value for name, value in given.items() if name in taken}


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

STUFF_FRIENDLY_TASKS = frozenset({
    "summarization", "creative_writing", "brainstorming", "translation", "style_transfer",
    "code_generation", "code_review", "conversation",
})  # fmt: skip
RAG_CRITICAL_TASKS = frozenset({
    "factual_qa", "fact_verification", "research", "legal_analysis", "medical_lookup",
    "crisis_intervention", "data_extraction", "citation_generation", "debugging",
})  # fmt: skip
HYBRID_TASKS = frozenset({
    "analysis", "comparison", "planning", "report_writing", "code_explanation", "documentation",
    "tutorial_creation",
})  # fmt: skip
CATEGORIES: Mapping[str, frozenset[str]] = {
    "stuff_friendly": STUFF_FRIENDLY_TASKS,
    "rag_critical": RAG_CRITICAL_TASKS,
    "hybrid": HYBRID_TASKS,
}
"""Tasks that a caller may name, by their category."""
UNKNOWN = "unknown"  # a task of no category


def classify_task_type(query: str) -> str:
    """The category of a query, by the first group with a keyword anywhere in it; "unknown" if there is none."""
    return find_group(query, "substring")[0]


def find_group(query: str, matching: Matching) -> tuple[str, str]:
    """The category of a query, and the group of the keyword that tells it; "unknown" and "" if there is none."""
    for group, (task, keywords) in GROUPS.items():
        if has_keyword(query, keywords, matching):
            return task, group
    return UNKNOWN, ""


def has_keyword(query: str, keywords: Sequence[str], matching: Matching) -> bool:
    """Whether the query holds one of the keywords."""
    text = query.lower()
    if matching == "substring":
        return any(keyword in text for keyword in keywords)
    return bool(_pattern(tuple(keywords)).search(text.replace("’", "'")))


@lru_cache(maxsize=16)
def _pattern(keywords: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, keywords))})")


# -- the strategy --------------------------------------------------------------------------------

CONTEXT_OVERHEAD_RATIO = 0.25  # share of the window that is kept free
STUFF_THRESHOLD = 32_000
HYBRID_THRESHOLD = RAG_THRESHOLD = 128_000
GRAPH_RAG_THRESHOLD = 1_000_000
SMALL_WINDOW = 16_000
MIN_RETRIEVAL_BUDGET = 4_000
HYBRID_SHARE = 0.3
RAG_SHARE = 0.7

CHARS_PER_TOKEN = 4
SIZE_HINTS = {
    "tiny": 2_000, "small": 8_000, "medium": 32_000,
    "large": 100_000, "huge": 500_000, "massive": 2_000_000,
}  # fmt: skip


def estimate_content_tokens(
    content_size_hint: str | None = None,
    file_paths: Sequence[str | Path] | None = None,
    char_count: int | None = None,
) -> int:
    """Tokens of the content: by its characters, else by its readable files, else by the hint, else 64 000."""
    chars = char_count or 0
    for path in file_paths or () if chars <= 0 else ():
        try:
            chars += Path(path).expanduser().stat().st_size
        except (OSError, ValueError, RuntimeError):  # RuntimeError: ~ of an unknown user
            continue
    if chars > 0:
        return chars // CHARS_PER_TOKEN
    return SIZE_HINTS.get((content_size_hint or "").lower().strip(), HYBRID_THRESHOLD // 2)


class Strategy(StrEnum):
    """How content should reach the model."""

    STUFF = "STUFF"
    HYBRID = "HYBRID"
    RAG = "RAG"
    RAG_GRAPH = "RAG+GRAPH"


def compute_strategy(
    model_context_length: int,
    used_tokens: int,
    content_tokens: int,
    task_type: str,
    available_tools: Iterable[str] | None = None,
    *,
    group: str = "",
    within_available: bool = False,
) -> dict[str, Any]:
    """How to load content of that size for a category of task into that window.

    `group` is the group of keywords that told the category: a crisis has a step of its own. The floor of 4 000 tokens
    for retrieval may exceed what is available; with `within_available` it does not.
    """
    overhead = int(model_context_length * CONTEXT_OVERHEAD_RATIO)
    available = max(0, model_context_length - used_tokens - overhead)
    strategy, confidence, because = _rule(
        model_context_length, content_tokens, available, task_type
    )
    retrieval = compute_retrieval_budget(strategy, available)
    if within_available:
        retrieval = min(available, retrieval)
    utilization = 100 * content_tokens / model_context_length if model_context_length > 0 else 100.0
    return {
        "strategy": strategy,
        "confidence": confidence,
        "reasoning": (
            f"{content_tokens:,} tokens of content, {available:,} of {model_context_length:,} available, "
            f"task {task_type}: {because}."
        ),
        "content_tokens": content_tokens,
        "available_budget": available,
        "model_context_length": model_context_length,
        "used_tokens": used_tokens,
        "utilization_pct": round(utilization, 1),
        "task_type": task_type,
        "retrieval_budget_tokens": retrieval,
        "steps": _steps(
            strategy,
            retrieval,
            task_type,
            free=max(0, model_context_length - used_tokens),
            group=group,
            tools=frozenset(available_tools or ()),
        ),
    }


def handle_context_strategy(args: Mapping[str, Any]) -> str:
    """The tool's answer as JSON: the task is classified, the content measured, the strategy computed."""
    found = compute_strategy(
        model_context_length=args.get("model_context_length", 128_000),
        used_tokens=args.get("used_tokens", 0),
        content_tokens=estimate_content_tokens(
            args.get("content_size_hint"), args.get("file_paths"), args.get("char_count")
        ),
        task_type=classify_task_type(args.get("query", "")),
        available_tools=args.get("available_tools"),
    )
    return json.dumps(found, indent=2)


def compute_retrieval_budget(strategy: Strategy, available: int) -> int:
    """Tokens for retrieval: 0 for STUFF, else a share of what is available, and at least 4 000."""
    if strategy is Strategy.STUFF:
        return 0
    share = HYBRID_SHARE if strategy is Strategy.HYBRID else RAG_SHARE
    return max(MIN_RETRIEVAL_BUDGET, int(available * share))


def _rule(
    context_length: int, content: int, available: int, category: str
) -> tuple[Strategy, float, str]:
    fits = content <= available
    if category == "rag_critical" and fits:
        return Strategy.HYBRID, 0.85, "it fits, but precision matters, so load and verify"
    if content <= STUFF_THRESHOLD and fits:
        return Strategy.STUFF, 0.95, "small enough to load whole"
    if fits and category == "stuff_friendly":
        return Strategy.STUFF, 0.85, "it fits and the task wants the whole of it"
    if content <= HYBRID_THRESHOLD and category in ("hybrid", "stuff_friendly"):
        if context_length < SMALL_WINDOW:
            return Strategy.RAG, 0.80, "the window is too small to hold it, so search"
        return Strategy.HYBRID, 0.75, "load the critical part and search for the rest"
    if content > RAG_THRESHOLD or not fits:
        if content > GRAPH_RAG_THRESHOLD:
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
    if group == CRISIS or category == "crisis_intervention":
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
