"""Usage over the calls of one answer: that of the last call for the client, the sums and the share of each beside it.

Agents read from the usage how full their window is, which the last call alone tells. A call that was severed reported
no usage in most APIs, so its share is estimated and marked so.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from millgate.guard.dialects.dialect import Dialect, Event, Fields, Usage
from millgate.text.tokens import estimate_tokens

INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount")
CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")  # counted beside the input
DETAILS = ("prompt_tokens_details", "input_tokens_details")
OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "thoughtsTokenCount")
CACHED_WITHIN = ("cachedContentTokenCount",)  # Gemini's: within the input, beside the other counts


# A count above it is a fault of the upstream: a million answers of a million tokens. Sums over many calls still fit
# into the 64 bits that logs, stores and JSON have for a number.
MOST_TOKENS = 10**12
FILE_CHARS = 1_000  # a text of at least this length that is all base64 is a file
# of a file: what a picture of a megapixel costs at most at Anthropic; 765 at OpenAI
FILE_TOKENS = 1_600
_null_usage = re.compile(rb',\s*"usage"\s*:\s*null|"usage"\s*:\s*null\s*,\s*')
_file = re.compile(rb"(?:data:[\w.+/;=-]*,)?[A-Za-z0-9+/_-]++=*+")


class CachedInput(NamedTuple):
    """Tokens read from a provider's cache: within its count of input (OpenAI), or read and written beside it
    (Anthropic).
    """

    within: int = 0
    read: int = 0
    written: int = 0
    hour: int = 0
    """Of what was written, what lives for an hour."""


class UsageSum:
    """Usage of the current call, and of those before it."""

    def __init__(self) -> None:
        self._severed: list[Usage] = []
        self._under_way = True
        self.current: Usage = {}
        """What the current call said last; later numbers replace earlier ones."""
        self.cache_diagnosis = ""
        """Why the service says that it could not read more of the request from its cache: `system changed`."""

    def __bool__(self) -> bool:
        return bool(self._severed)

    def begin(self) -> None:
        """A further call has begun to answer."""
        self._under_way = True

    def note(self, usage: Usage | None) -> None:
        """The current call reports its usage."""
        if usage:
            self.current = {**self.current, **usage}

    def note_diagnosis(self, found: Event) -> None:
        """An event or a whole answer may say what the service found when it looked into its cache."""
        if not self.cache_diagnosis:
            self.cache_diagnosis = _read_diagnosis(found)

    def sever(self, estimate: Usage) -> None:
        """The current call was severed: what it reported, and estimates for the rest."""
        lacks_input, lacks_output = self.gaps()
        reported = {
            name: value
            for name, value in self.current.items()
            if value or (name in INPUT and not lacks_input)
        }
        is_estimate = lacks_input or lacks_output
        self._severed.append({**estimate, **reported, "estimated": is_estimate})
        self.current, self._under_way = {}, False

    def gaps(self) -> tuple[bool, bool]:
        """Whether a call is under way that has reported no input, and one that has reported no output."""
        if not self._under_way:
            return False, False
        return not _sum([self.current], (*INPUT, *CACHED)), not _sum([self.current], OUTPUT)

    @property
    def has_estimates(self) -> bool:
        """Whether a share of a severed call is an estimate."""
        return any(call["estimated"] for call in self._severed)

    def total(self, usage: Usage, figures: Mapping[str, Any]) -> Usage:
        """The usage of the last call; in `millgate` the sums over all calls, the figures, and the share of each call.

        `usage` is what the event says that is to tell it: it counts if the last call was not severed.
        """
        calls = [*self._severed, {**self.current, **usage}] if self._under_way else self._severed
        last = calls[-1]
        sums = {
            name: sum(_int(call.get(name)) for call in calls)
            for name, value in last.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        told = {n: v for n, v in last.items() if n in usage or n != "estimated"}
        return {**usage, **told, "millgate": {**figures, **sums, "calls": calls}}

    def cached_input(self) -> "CachedInput":
        """Input of all calls so far that the provider's cache has to do with."""
        return _cached_input([*self._severed, self.current])

    def first_input(self) -> tuple[int, "CachedInput"]:
        """Input of the first call, which is the client's request; further calls are longer."""
        first = [*self._severed, self.current][:1]
        return _sum(first, INPUT), _cached_input(first)

    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of all calls so far, whatever their API calls them."""
        calls = [*self._severed, self.current]
        return _sum(calls, INPUT), _sum(calls, OUTPUT)


def _read_diagnosis(found: Event) -> str:
    """Anthropic's `diagnostics.cache_miss_reason`, or `prompt_cache_diagnostics` of OpenAI's responses."""
    inner = found.get("message") or found.get("response")
    answer = inner if isinstance(inner, dict) else found
    told, miss = answer.get("diagnostics"), answer.get("prompt_cache_diagnostics")
    if isinstance(told, dict) and isinstance(reason := told.get("cache_miss_reason"), dict):
        reason = reason.get("type")
    else:
        reason = miss.get("reason") if isinstance(miss, dict) else None
    return reason[:64].replace("_", " ") if isinstance(reason, str) else ""


def estimate_prompt(fields: Fields) -> int:
    """About how many tokens the model reads of a request: all of its fields, and each file at a flat price."""
    body = orjson.dumps(fields).replace(b'\\"', b"'").replace(b"\\n", b"\n")
    texts, files = [], 0
    for text in body.split(b'"'):
        if len(text) >= FILE_CHARS and _file.fullmatch(text):
            files += 1
        else:
            texts.append(text)
    return estimate_tokens(b'"'.join(texts).decode()) + FILE_TOKENS * files


def hide_usage(event: bytes, parsed: Event, dialect: Dialect) -> bytes:
    """The bytes of an event as they would be if usage had not been asked for; b"" if there would be no event.

    A usage beside other things stays: servers that send such an event send it unasked.
    """
    if dialect.is_usage_event(parsed):
        return b""
    if parsed.get("usage", event) is not None:
        return event
    del parsed["usage"]
    return _null_usage.sub(b"", event, count=1)  # in no text: a quote there is escaped


def _cached_input(calls: Sequence[Usage]) -> CachedInput:
    details = [call.get(name) for call in calls for name in (*DETAILS, "cache_creation")]
    inner = [found for found in details if isinstance(found, dict)]
    written = _sum(calls, CACHED[1:])
    return CachedInput(
        within=_sum(inner, ("cached_tokens",)) + _sum(calls, CACHED_WITHIN),
        read=_sum(calls, CACHED[:1]),
        written=written,
        hour=min(written, _sum(inner, ("ephemeral_1h_input_tokens",))),
    )


def _sum(calls: Sequence[Usage], names: Sequence[str]) -> int:
    return sum(_int(call.get(name)) for call in calls for name in names)


def _int(value: object) -> int:
    """A count that an upstream reports: 0 if it is no number or below 0, and never more than MOST_TOKENS."""
    if not isinstance(value, int | float) or not value > 0:  # neither is what is not a number
        return 0
    return int(min(value, MOST_TOKENS))
