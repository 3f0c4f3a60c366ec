"""GuardPolicy: how a stream is watched, and where that is set.

It is apart from the code that it steers: every command reads the settings, and few of them guard anything.
Arguments beat what is set for the model, which beats the environment. The guard also stands alone, without a file
of settings, so it reads the MILLGATE_GUARD__* variables itself, with the meaning that the settings give them.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, ValidationError, field_validator

from millgate.errors import ConfigError
from millgate.published.stream_failsafe import DROP_THRESHOLD, MIN_ENTROPY, WARM_UP, WINDOW_SIZE, K
from millgate.types.policy import TUNING, Count, Policy, Positive, PositiveCount, Tuning

PREFIX = "MILLGATE_GUARD__"

Resume = Literal["auto", "prefill", "continuation", "restart"]

# By attempt, in the names of the OpenAI API; the last step stands for all further ones. A model in its loop is so
# sure of the next token that a nucleus (top_p, or one that the target sets itself) leaves nothing else, whatever the
# temperature: only penalties reach it there. A frequency penalty grows with every use and would drive common words
# out of a long answer, so it is small at first, and larger if the turn asks for a short end.
SAMPLING: tuple[Mapping[str, float], ...] = (
    {"temperature": 0.8, "presence_penalty": 0.4, "frequency_penalty": 0.2},
    {"temperature": 0.9, "presence_penalty": 0.8, "frequency_penalty": 0.4, "top_p": 1.0},
    {"temperature": 1.0, "presence_penalty": 1.2, "frequency_penalty": 0.8, "top_p": 1.0},
)


@dataclass(frozen=True, slots=True)
class EntropyRule:
    """The entropy rule: over a window of characters, too few bits, or too many fewer than `span` characters before."""

    window: Annotated[int, Field(ge=2)] = WINDOW_SIZE
    min_bits: Annotated[float, Field(ge=0)] = MIN_ENTROPY
    max_drop: Positive = DROP_THRESHOLD
    span: Annotated[int, Field(ge=1)] = K
    warm_up: Annotated[int, Field(ge=1)] = WARM_UP


class GuardPolicy(Policy):
    """How a stream is watched, held back and resumed."""

    enabled: bool = True
    """Off: the stream passes untouched."""
    detector: Literal["repeat", "entropy", "both"] = "repeat"
    """What finds a loop: exact repetition, the entropy rule, or whichever is first."""
    entropy: EntropyRule = EntropyRule()
    """The entropy rule: `window` in characters, both thresholds, `min_bits` and `max_drop`, the `span` of characters
    over which the drop is measured, and `warm_up`, the characters before the first verdict."""
    divergence_token: str = ""
    """What is injected after a cut; empty: a turn in plain words instead."""
    models: Mapping[str, Mapping[str, Any]] = {}
    """Settings of this group by model; * and ? stand for any characters and one. The first name that fits counts."""
    max_rollbacks: Count = 3
    """Rollbacks of one stream; one more stall raises LoopError."""
    max_wasted_tokens: Tuning[PositiveCount] = 100_000
    """Tokens that may be cut from one stream before it is given up."""
    max_history_chars: Tuning[PositiveCount] = 4_000_000
    """Longest answer that can still be resumed; a longer one is watched, but a stall ends it."""
    hold_back: bool = True
    """Keep the tail back while a repetition is suspected."""
    max_hold_chars: Tuning[PositiveCount] = 16_384
    """Most characters held back; more are let through. Two copies of the longest unit fit."""
    max_hold_s: Tuning[Positive] = 60.0
    """Longest time anything is held back."""
    keep_alive_s: Tuning[Positive] = 10.0
    """How often the keep-alive hook is called while text is held back."""
    idle_s: Tuning[Positive] = 300.0
    """Longest silence of the model before the stream is given up; in the proxy the upstream has its own."""
    hopeless_chars: Tuning[PositiveCount] = 16_384
    """Length from which a repetition is cut in tool calls, structured output and fenced code, and a repetition of
    symbols or data that the model wrote again when asked. Four copies of the longest unit that is looked for."""
    boundary_chars: Tuning[Count] = 80
    """How far the cut may move on to end at a line, a sentence or a word."""
    resume: Tuning[Resume] = "auto"
    """prefill, continuation or restart; auto: continuation for plain words, prefill for a token."""
    sampling: Tuning[tuple[Mapping[str, float], ...]] = SAMPLING
    """Changed sampling by attempt; empty: never changed."""
    rescue_upstream: str = ""
    """In the proxy: the upstream that makes the last try, with the first model it names in full; empty: none."""
    reasoning: Tuning[bool] = True
    """Watch the reasoning channel too."""
    tool_calls: Literal["stream", "whole"] = "stream"
    """Tool calls and structured output reach the client as they come, or whole, so that one that loops can be asked
    for again unseen."""
    counting: Literal["warn", "cut", "off"] = "warn"
    """What to do about counting loops: note them in the report, cut them like others, or do not look."""

    @field_validator("models")
    @classmethod
    def _check_models(cls, models: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        for name, changes in models.items():
            if "models" in changes:
                raise ValueError(f"{name} cannot hold models of its own")
            try:
                cls.model_validate(changes)
            except ValidationError as invalid:
                first = invalid.errors()[0]
                where = ".".join(map(str, (name, *first["loc"])))
                raise ValueError(f"{where}: {first['msg'].lower()}") from invalid
        return models

    def for_model(self, model: str) -> "GuardPolicy":
        """The policy for one model: with what `models` sets for the first name that fits."""
        for name, changes in self.models.items():
            if fnmatchcase(model, name):
                return self.replace(changes)
        return self

    def replace(self, changes: Mapping[str, Any]) -> "GuardPolicy":
        """The policy with some knobs set; an unknown or impossible one is a ConfigError."""
        if not changes:
            return self
        rule = changes.get("entropy")
        if isinstance(rule, Mapping):
            changes = {**changes, "entropy": {**asdict(self.entropy), **rule}}
        try:
            return GuardPolicy(**{**dict(self), **changes})
        except ConfigError as invalid:
            raise ConfigError(
                f"the guard cannot be set up so: {invalid.message}", hint=invalid.hint
            ) from invalid

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "GuardPolicy":
        """The defaults as the MILLGATE_GUARD__* variables change them."""
        given: dict[str, Any] = {}
        for variable, value in sorted((os.environ if environ is None else environ).items()):
            if not variable.startswith(PREFIX):
                continue
            name, _, part = variable.removeprefix(PREFIX).lower().partition("__")
            field = cls.model_fields.get(name)
            if field is None or TUNING in field.metadata:
                raise ConfigError(
                    f"the environment variable {variable} is not a setting",
                    hint="see: millgate config show",
                )
            if part:
                given[name] = {**given.get(name, {}), part: value}
            else:
                given[name] = orjson.loads(value) if value[:1] == "{" else value
        return cls().replace(given)
