"""hermes-agent: Millgate as its memory provider and its context engine.

    memory:  {provider: millgate}        # in config.yaml, after `millgate hermes install`
    context: {engine: millgate}          # with the plugin on: hermes plugins enable millgate

`register` is what hermes-agent calls for the provider, plugin.py what it calls for the engine and the tool.
hermes-agent is not a dependency. It calls `initialize` when an agent starts, `prefetch` before each turn, `sync_turn`
after it, and `shutdown` at the end; `select_context` before each request of the model, `compress` when the window is
nearly full.
"""

from typing import Any

from millgate.integrations.hermes.engine import MillgateEngine, MillgateMemory, host_class
from millgate.integrations.hermes.manager import MemoryManager

__all__ = [
    "MemoryManager",
    "MillgateEngine",
    "MillgateMemory",
    "register",
]


def register(context: Any) -> None:
    """Offer the memory provider."""
    provider = host_class(MillgateMemory, "agent.memory_provider", "MemoryProvider")
    context.register_memory_provider(provider())
