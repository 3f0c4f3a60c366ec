"""hermes-agent: Headgate as its memory provider and its context engine.

    memory:  {provider: headgate}        # in config.yaml, after `headgate hermes install`
    context: {engine: headgate}          # with the plugin on: hermes plugins enable headgate

`register` is what hermes-agent calls for the provider, plugin.py what it calls for the engine and the tool.
hermes-agent is not a dependency: its interfaces are restated in protocols.py.
"""

from headgate.integrations.hermes.engine import HeadgateEngine
from headgate.integrations.hermes.host import host_class
from headgate.integrations.hermes.manager import MemoryManager
from headgate.integrations.hermes.protocols import ContextEngine, MemoryProvider, PluginContext
from headgate.integrations.hermes.provider import HeadgateMemory

__all__ = [
    "ContextEngine",
    "HeadgateEngine",
    "HeadgateMemory",
    "MemoryManager",
    "MemoryProvider",
    "PluginContext",
    "register",
]


def register(context: PluginContext) -> None:
    """Offer the memory provider."""
    provider = host_class(HeadgateMemory, "agent.memory_provider", "MemoryProvider")
    context.register_memory_provider(provider())
