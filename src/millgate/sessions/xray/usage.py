"""Usage: what a provider counted for one call, in the spelling of any API or agent that records it.

Anthropic    {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation": {…}}
OpenAI       {"prompt_tokens" or "input_tokens", "…_tokens_details": {"cached_tokens"}}
Codex        {"input_tokens", "cached_input_tokens"}
Gemini       {"promptTokenCount", "cachedContentTokenCount"}; its own sessions {"input", "cached"}
OpenCode     {"input", "output", "cache": {"read", "write"}}
pi           {"input", "output", "cacheRead", "cacheWrite"}
What was read stands within the input at OpenAI, Codex and Gemini, and beside it elsewhere.
"""

from dataclasses import dataclass

from millgate.sessions.prompt_cache.judgment import CacheCounts

_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "input")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "output")
_WITHIN = ("cached_input_tokens", "cachedContentTokenCount", "cached", "cached_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What one call took in and gave out, by the provider's count."""

    counts: CacheCounts
    output: int = 0
    model: str = ""
    is_long: bool = False
    """Whether it wrote to a cache that lives for an hour."""
    id: str = ""
    """By what the same call is known if several lines report it."""


def read_usage(usage: object, *, model: object = "", id: str = "") -> CallUsage | None:
    """The usage of one call; None if nothing was counted, as of an answer that the agent made up itself."""
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    cache, written = usage.get("cache"), usage.get("cache_creation")
    within = _first(usage, _WITHIN) or max((_first(usage.get(d), _WITHIN) for d in _DETAILS), default=0)  # fmt: skip
    read = (
        count_of(usage, "cache_read_input_tokens")
        + count_of(cache, "read")
        + count_of(usage, "cacheRead")
    )
    wrote = (
        count_of(usage, "cache_creation_input_tokens")
        + count_of(cache, "write")
        + count_of(usage, "cacheWrite")
    )
    fresh = max(0, _first(usage, _INPUT) - within)
    is_automatic = not (usage.keys() & {"cache_creation_input_tokens", "cache", "cacheWrite"})
    counts = CacheCounts(within + read, wrote, fresh, is_automatic)
    if not counts.total:
        return None
    is_long = count_of(written, "ephemeral_1h_input_tokens") > count_of(written, "ephemeral_5m_input_tokens")  # fmt: skip
    name = model if isinstance(model, str) else ""
    return CallUsage(counts, _first(usage, _OUTPUT), name[:200], is_long, id)


def count_of(values: object, name: str) -> int:
    """A count among some values; 0 if it is missing, or no count at all."""
    value = values.get(name) if isinstance(values, dict) else 0
    return value if isinstance(value, int) and 0 < value < 1 << 40 else 0


def _first(values: object, names: tuple[str, ...]) -> int:
    return next((found for name in names if (found := count_of(values, name))), 0)
