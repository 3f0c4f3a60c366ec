"""Upstreams: which model service has a model, the connections to all of them, and what they refused lately.

An upstream refuses a whole request for one field that it does not know, so `ExpiringSet` remembers what upstreams
refused and took. To ask again each time would cost a call. To believe a refusal until the restart would cost more: one
bad answer, or an older version of the upstream, would decide for ever.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase

from millgate.errors import ConfigError, InputError, NotFound, UpstreamError
from millgate.service.proxy.http_client import HttpClient, HttpResponse
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

# How long the end of a response is waited for after its last event, so that its connection can be used again. Chosen,
# not measured: the end should follow at once, and the client has its answer already.
DRAIN_S = 0.25
FORGET_S = 600.0  # one refused call in ten minutes is little beside the calls that it saves
MOST_FACTS = 1_000  # facts about upstreams: clients choose the names of models


class ExpiringSet:
    """Facts about upstreams and models, each kept for ten minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, ...], float] = {}

    def add(self, *what: str) -> None:
        """Remember a fact."""
        if len(self._until) >= MOST_FACTS:
            self._until.clear()
        self._until[what] = self._clock() + FORGET_S

    def __contains__(self, what: tuple[str, ...]) -> bool:
        return self._until.get(what, 0.0) > self._clock()


class Upstreams:
    """The model services, and the connections to them."""

    def __init__(self, policy: ProxyPolicy, transport: HttpClient | None = None) -> None:
        self.policy = policy
        self.facts = ExpiringSet()
        """What upstreams refused or took lately, with which model."""
        self.transport: HttpClient = transport or HttpClient()
        self._draining: set[asyncio.Future[None]] = set()

    def find(self, model: str, named: str = "") -> tuple[str, UpstreamPolicy]:
        """The upstream that a header names, or the one for the model: the longest pattern that fits, then the first."""
        known = self.policy.upstreams
        hint = f"upstreams: {', '.join(sorted(known)) or 'none'}"
        if named:
            if named not in known:
                raise InputError(f"x-millgate-upstream: there is no upstream {named!r}", hint=hint)
            return named, known[named]
        if not known:
            raise ConfigError(
                "no upstream is set up",
                hint="set MILLGATE_PROXY__UPSTREAMS__MAIN__URL to the base address of a model service",
            )
        fits = [
            (len(pattern.strip("*")), name)
            for name, upstream in known.items()
            for pattern in upstream.models
            if fnmatchcase(model, pattern)
        ]
        if not fits:
            raise NotFound(f"no upstream has a model {model!r}", hint=hint)
        name = max(fits, key=lambda fit: fit[0])[1]  # of equals the first
        return name, known[name]

    async def release(self, response: HttpResponse) -> None:
        """Done with a response whose last event has come: its end is awaited aside, to keep its connection."""
        if response.is_complete:
            await response.close()
            return
        task = asyncio.ensure_future(_drain(response))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*self._draining)
        await self.transport.close()


async def _drain(response: HttpResponse) -> None:
    with suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(DRAIN_S):
            while await response.read():
                pass
    await response.close()
