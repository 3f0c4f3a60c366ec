"""hermes-agent: Millgate as its memory provider and its context engine.

    memory:  {provider: millgate}        # in config.yaml, after `millgate hermes install`
    context: {engine: millgate}          # with the plugin on: hermes plugins enable millgate

`register` is what hermes-agent calls for the provider, plugin.py what it calls for the engine and the tool.
hermes-agent is not a dependency: its interfaces are restated in protocols.py.
"""

from millgate.integrations.hermes.engine import MillgateEngine
from millgate.integrations.hermes.host import host_class
from millgate.integrations.hermes.manager import MemoryManager
from millgate.integrations.hermes.protocols import ContextEngine, MemoryProvider, PluginContext
from millgate.integrations.hermes.provider import MillgateMemory

__all__ = [
    "ContextEngine",
    "MemoryManager",
    "MemoryProvider",
    "MillgateEngine",
    "MillgateMemory",
    "PluginContext",
    "register",
]


def register(context: PluginContext) -> None:
    """Offer the memory provider."""
    provider = host_class(MillgateMemory, "agent.memory_provider", "MemoryProvider")
    context.register_memory_provider(provider())
