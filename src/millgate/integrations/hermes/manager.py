"""MemoryManager: several memories of hermes-agent's form, asked at once and bounded by the window.

It has the methods that hermes-agent calls on its own manager, and one more: `set_context_budget` says how full the
window is. Then the fuller it is, the fewer facts each provider may give and the more they must be trusted; a window
that is nearly full asks none of them. Providers run as all memory providers of Millgate do: each under its deadline,
none can block another (docs/memory.md). Older ones that take no limit are asked without one.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from millgate.integrations.blocks import LOGGER
from millgate.integrations.hermes.engine import Message, PressureAware
from millgate.knowledge.providers import ProviderPool, RecallPolicy, prefetch_all_sync
from millgate.pipeline.stages.decide import DecidePolicy, decide
from millgate.published.context_strategy import pick_accepted
from millgate.types import Request


class MemoryManager(PressureAware):
    """Providers by name, told of each session, and closed at the end."""

    def __init__(
        self,
        providers: Sequence[Any] = (),
        *,
        tenant: str = "default",
        policy: RecallPolicy | None = None,
    ) -> None:
        self._tenant, self._policy = tenant, policy
        self.providers: list[Any] = []
        """In the order they are asked."""
        self._pool = ProviderPool((), policy)
        self._secret = secrets.token_bytes(16)
        self.degraded: tuple[str, ...] = ()
        """Who was left out of the last prefetch, and why."""
        for provider in providers:
            self.add_provider(provider)

    def add_provider(self, provider: Any) -> None:
        """Ask this one too."""
        self._pool = ProviderPool([*self.providers, provider], self._policy)
        self.providers.append(provider)

    def set_context_budget(self, *budget: Any, **parts: Any) -> None:
        """How full the window is (see PressureAware); the providers are told too."""
        super().set_context_budget(*budget, **parts)
        self._call_hook("set_context_budget", self._window)

    def initialize_all(self, session_id: str, **details: Any) -> None:
        """A session begins: those that are available are told of it, and of the tenant."""
        given = {"tenant": self._tenant, **details}
        for provider in self.providers:
            if provider.is_available():
                self._attempt(provider, provider.initialize, session_id=session_id, **given)

    def prefetch_all(self, query: str, *, session_id: str = "") -> str:
        """What all of them know about a question, each under its name, inside one fence."""
        request = Request(query, tenant=self._tenant, context_budget=self._window)
        plan = decide(request, DecidePolicy()) if self._window else None
        recalled = prefetch_all_sync(
            query, self._pool, plan, tenant=self._tenant, session_id=session_id
        )
        self.degraded = recalled.degraded
        return recalled.fence(self._secret)

    def sync_all(
        self, user_content: str, assistant_content: str, *, session_id: str = "", **_told: Any
    ) -> None:
        """A turn is over."""
        self._call_hook("sync_turn", user_content, assistant_content, session_id=session_id)

    def on_session_switch(self, new_session_id: str, **details: Any) -> None:
        """The agent goes on in another session."""
        self._call_hook("on_session_switch", new_session_id, **details)

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """What the providers want in the summary of messages that are about to go."""
        parts = self._call_hook("on_pre_compress", messages)
        return "\n\n".join(part for part in parts if part)

    def get_all_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools of all; of two with one name the first counts."""
        found: dict[str, dict[str, Any]] = {}
        for provider in self.providers:
            for schema in provider.get_tool_schemas():
                found.setdefault(schema["name"], schema)
        return list(found.values())

    def has_tool(self, tool_name: str) -> bool:
        """Whether one of them has this tool."""
        return self._owner(tool_name) is not None

    def handle_tool_call(self, tool_name: str, args: Mapping[str, Any], **details: Any) -> str:
        """The result of a call, as JSON."""
        owner = self._owner(tool_name)
        if owner is None:
            return orjson.dumps({"error": f"no memory has the tool {tool_name!r}"}).decode()
        return str(owner.handle_tool_call(tool_name, dict(args), **details))

    def shutdown_all(self) -> None:
        """The agent ends: all are closed, the last one first."""
        for provider in reversed(self.providers):
            self._attempt(provider, provider.shutdown)
        self._pool.close()

    def _owner(self, tool_name: str) -> Any:
        named = (
            p for p in self.providers if any(s["name"] == tool_name for s in p.get_tool_schemas())
        )
        return next(named, None)

    def _call_hook(self, hook: str, *given: Any, **details: Any) -> list[Any]:
        """Call a hook of every provider that has it."""
        methods = [(p, getattr(p, hook, None)) for p in self.providers]
        return [
            self._attempt(provider, method, *given, **details)
            for provider, method in methods
            if method is not None
        ]

    def _attempt(
        self, provider: Any, method: Callable[..., Any], *given: Any, **details: Any
    ) -> Any:
        """One that fails is named in the log and does not keep the others from their turn."""
        try:
            return method(*given, **pick_accepted(method, details))
        except Exception as error:  # noqa: BLE001  # a plugin's code may raise anything
            LOGGER.warning("memory provider %s failed: %s", provider.name, error)
            return None
