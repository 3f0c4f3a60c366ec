"""How Millgate's parts live inside hermes-agent: as subclasses of its own, over a store in its home folder."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from millgate.gateway import Millgate
from millgate.pipeline.stages.decide import DecidePolicy, decide
from millgate.types import ContextBudget, Plan, Request

T = TypeVar("T")
Message = dict[str, Any]


def as_sent(message: Message) -> Message:
    """A message as the model gets it: with what was injected, which hermes-agent keeps beside it."""
    return {**message, "content": message.get("api_content") or message.get("content")}


def host_class(own: type[T], module: str, name: str) -> type[T]:
    """The class as a subclass of hermes-agent's too, with its optional hooks; itself if that is missing."""
    try:
        base = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return own
    return type(own.__name__, (own, base), {})


def read_window(engine: Any, *, compression_enabled: bool) -> ContextBudget | None:
    """How full the window is that a context engine looks after, of hermes-agent's own or of ours; None if unknown."""
    length = getattr(engine, "context_length", 0)
    if not isinstance(length, int) or length <= 0:
        return None
    used = getattr(engine, "last_prompt_tokens", 0)
    if used < 0:  # the conversation was just compressed: what hermes-agent then estimates
        used = getattr(engine, "last_compression_rough_tokens", 0)
    threshold = getattr(engine, "threshold_tokens", 0)
    return ContextBudget(
        length, int(used), max(0, int(threshold)), compression_enabled=compression_enabled
    )


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


def plan_recall(query: str, window: ContextBudget | None) -> Plan | None:
    """What a window has room for; None if nothing is known of it. Without `prefetch` nothing is recalled at all."""
    if window is None:
        return None
    plan = decide(Request(query, context_budget=window), DecidePolicy())
    return replace(plan, prefetch=plan.prefetch and not plan.skip)


def agent_behind(details: Mapping[str, Any]) -> Any:
    """The agent that starts a memory: on the command line its callbacks are among the details; else None."""
    callback = details.get("status_callback") or details.get("warning_callback")
    return getattr(callback, "__self__", None)


def is_compression_enabled() -> bool:
    """Whether hermes-agent compresses by itself, by its configuration; true if that cannot be read."""
    try:
        config = import_module("hermes_cli.config").load_config()
        enabled = config["compression"]["enabled"]
    except (ImportError, AttributeError, KeyError, TypeError, OSError, ValueError):
        return True
    return str(enabled).lower() in ("true", "1", "yes")


class Store:
    """A gate that was given, or one that is opened with the first session and closed at the end."""

    def __init__(self, gate: Millgate | None = None, path: str | Path | None = None) -> None:
        self._given, self._path = gate, path
        self._opened: Millgate | None = None
        self.gate: Millgate | None = gate

    def copy(self) -> "Store":
        """The same place, opened on its own."""
        return Store(self._given, self._path)

    def open(self, *, hermes_home: str = "", tenant: str = "") -> Millgate:
        """The gate of a tenant; without a path the store is the folder `millgate` in hermes-agent's home."""
        root = self._given or self._opened
        if root is None:
            home = Path(hermes_home, "millgate") if hermes_home else None
            root = self._opened = Millgate.open(self._path or home)
        self.gate = root.for_tenant(tenant) if tenant and tenant != root.tenant else root
        return self.gate

    def close(self) -> None:
        """Close what was opened here."""
        opened, self._opened = self._opened, None
        self.gate = self._given
        if opened is not None:
            opened.close()
