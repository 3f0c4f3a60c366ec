"""Upstream: the model services behind the proxy, as settings.

    [proxy.upstreams.local]
    url = "http://127.0.0.1:8080/v1"
    models = ["llama-*"]

A request goes to the upstream with the pattern that fits its model best (the longest, then the first named).
Without a key of its own an upstream gets the client's; one that is held here never leaves but to it.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from headgate.errors import ConfigError, NotFound
from headgate.policy import Policy, Positive, PositiveCount, Tuning


class UpstreamPolicy(Policy):
    """One model service."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")]
    """Its base address, with the version: everything that a client would write before /chat/completions."""
    models: tuple[str, ...] = ("*",)
    """Names of its models; * and ? stand for any characters and one."""
    key: SecretStr | None = None
    """A key held here; None: the client's own is passed on."""
    auth: Literal["bearer", "x-api-key"] = "bearer"
    """How the held key is sent."""
    headers: Mapping[str, str] = {}
    """More headers for each request."""
    http2: bool = False
    """HTTP/2 with many streams on one connection; without TLS the server must speak nothing else."""
    connect_s: Positive = 10.0
    """Longest wait for a connection."""
    answer_s: Positive = 600.0
    """Longest wait for the beginning of an answer; a long prompt takes its time."""
    idle_s: Positive = 300.0
    """Longest silence within an answer."""

    @field_validator("url")
    @classmethod
    def _bare(cls, url: str) -> str:
        return url.rstrip("/")


class ProxyPolicy(Policy):
    """The door that speaks like OpenAI and Anthropic."""

    upstreams: Mapping[str, UpstreamPolicy] = {}
    """Model services by name."""
    context: bool = False
    """Inject context into every request that does not say otherwise; off: only where a header asks for it."""
    collection: str = "main"
    """Where injected context comes from when no header says so."""
    budget: PositiveCount = 1000
    """Tokens of injected context when no header says so."""
    max_body_bytes: PositiveCount = 33_554_432
    """Largest request."""
    max_answer_bytes: Tuning[PositiveCount] = 67_108_864
    """Largest answer that is not streamed."""
    max_event_bytes: Tuning[PositiveCount] = 16_777_216
    """Largest event of a stream."""
    max_held_bytes: Tuning[PositiveCount] = 33_554_432
    """Most bytes of a stream that wait for a verdict, as whole tool calls do."""
    max_stream_bytes: Tuning[PositiveCount] = 1_073_741_824
    """Longest stream."""


def choose(policy: ProxyPolicy, model: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a model: its name and its settings."""
    if not policy.upstreams:
        raise ConfigError(
            "no upstream is set up",
            hint="set HEADGATE_PROXY__UPSTREAMS__MAIN__URL to the base address of a model service",
        )
    fits = [
        (len(pattern.strip("*")), name)
        for name, upstream in policy.upstreams.items()
        for pattern in upstream.models
        if fnmatchcase(model, pattern)
    ]
    if not fits:
        raise NotFound(
            f"no upstream has a model {model!r}",
            hint=f"upstreams: {', '.join(sorted(policy.upstreams))}",
        )
    best = max(size for size, _ in fits)
    name = next(name for size, name in fits if size == best)
    return name, policy.upstreams[name]
