"""The plugin for hermes-agent: the context engine, and `context_strategy` as a tool for every agent."""

from headgate.integrations.hermes.engine import HeadgateEngine
from headgate.integrations.hermes.host import host_class
from headgate.integrations.hermes.protocols import PluginContext
from headgate.integrations.hermes.tools import TOOLS, choose_strategy


def register(context: PluginContext) -> None:
    """Offer the engine and the tool."""
    engine = host_class(HeadgateEngine, "agent.context_engine", "ContextEngine")
    context.register_context_engine(engine())
    name = "context_strategy"
    context.register_tool(
        name=name, toolset="headgate", schema=dict(TOOLS[name]), handler=choose_strategy
    )
