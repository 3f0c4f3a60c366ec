"""ProviderSlot: one memory provider, and how to call it without being blocked by it.

What is plain runs in a daemon thread of its own, what is async on an event loop of its own, so that neither a blocked
call nor a blocked loop reaches the others, and neither keeps the process from ending. A provider may have `initialize`
and `close` (or `shutdown`), plain or async. Options go to those who take them: `tenant` and `session_id` to initialize;
these, `limit` and `min_trust` to prefetch.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any

from millgate.own_parts import start_thread
from millgate.protocols import MemoryProvider
from millgate.sync_async import serve_loop

OPTIONS = frozenset({"tenant", "session_id", "limit", "min_trust"})


class ProviderUnavailable(Exception):
    """The provider said that it is not available."""


class ProviderSlot:
    """A provider and the threads or the loop it runs on."""

    def __init__(self, provider: MemoryProvider) -> None:
        self.provider = provider
        self.accepts = accepted_options(provider.prefetch)
        self._initialize: Callable[[], Future[object]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.RLock()
        self._ready: Future[object] | None = None

    def start(self, tenant: str) -> "Future[object] | None":
        """Begin to initialize the provider; None if it has nothing to initialize."""
        initialize = getattr(self.provider, "initialize", None)
        if initialize is None:
            return None
        options = {"tenant": tenant, "session_id": ""}
        accepts = accepted_options(initialize)
        given = {name: value for name, value in options.items() if name in accepts}
        self._initialize = lambda: self._submit(initialize, **given)
        return self._begin_initialization()

    def call(self, query: str, options: Mapping[str, object]) -> "Future[object]":
        """Begin to ask the provider, once it is initialized."""
        given = {name: value for name, value in options.items() if name in self.accepts}
        if inspect.iscoroutinefunction(self.provider.prefetch):
            return self._submit(self._call_async, query, given)
        return self._submit(self._call_plain, query, given)

    def shut_down(self) -> "Future[object] | None":
        """Begin to close the provider; None if it has nothing to close."""
        end = getattr(self.provider, "close", None) or getattr(self.provider, "shutdown", None)
        return self._submit(end) if end is not None else None

    def stop_loop(self) -> None:
        """Stop the event loop of an async provider."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _begin_initialization(self) -> "Future[object] | None":
        """The initialization that is done or under way; a failed one is begun anew."""
        if self._initialize is None:
            return None
        with self._lock:
            ready = self._ready
            if ready is None or (ready.done() and ready.exception() is not None):
                self._ready = ready = self._initialize()
            return ready

    def _call_plain(self, query: str, given: Mapping[str, Any]) -> object:
        ready = self._begin_initialization()
        if ready is not None:
            ready.result()
        self._check_available()
        return self.provider.prefetch(query, **given)

    async def _call_async(self, query: str, given: Mapping[str, Any]) -> object:
        ready = self._begin_initialization()
        if ready is not None:
            # a question that is late is cancelled, and what others wait for must go on
            await asyncio.shield(asyncio.wrap_future(ready))
        self._check_available()
        answer: Coroutine[Any, Any, object] = self.provider.prefetch(query, **given)  # type: ignore[assignment]
        return await answer

    def _check_available(self) -> None:
        available = getattr(self.provider, "is_available", None)
        if available is not None and not available():
            raise ProviderUnavailable

    def _submit(
        self, work: Callable[..., object], *args: object, **given: object
    ) -> "Future[object]":
        """Run the provider's code where it can block nothing else: on a loop or in a thread of its own."""
        if inspect.iscoroutinefunction(work):
            return asyncio.run_coroutine_threadsafe(work(*args, **given), self._event_loop())
        return start_thread(name_of(self.provider), work, *args, **given)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=serve_loop, args=(self._loop,), daemon=True).start()
            return self._loop


def name_of(provider: MemoryProvider) -> str:
    """The provider's name on one line, or that of its class if it has none."""
    name = getattr(provider, "name", None)
    shown = name if isinstance(name, str) and name.strip() else type(provider).__name__
    return " ".join(shown.split())[:64]


def accepted_options(method: Callable[..., object]) -> frozenset[str]:
    """Which of the options a provider's method takes, by its signature."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):  # written in C, it has no signature to read: give it all
        return OPTIONS
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return OPTIONS
    taken = (p.name for p in parameters.values() if p.kind is not p.POSITIONAL_ONLY)
    return OPTIONS.intersection(taken)
