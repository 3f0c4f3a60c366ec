"""The plugin for hermes-agent: the context engine, and `context_strategy` as a tool for every agent."""

from typing import Any

from millgate.integrations.hermes.engine import MillgateEngine, host_class, recall_for_question
from millgate.integrations.hermes.tools import TOOLS, choose_strategy


def register(context: Any) -> None:
    """Offer the engine, the tool, and the hook that recalls if hermes-agent does not let the engine select."""
    engine = host_class(MillgateEngine, "agent.context_engine", "ContextEngine")
    context.register_context_engine(engine())
    name = "context_strategy"
    context.register_tool(
        name=name, toolset="millgate", schema=dict(TOOLS[name]), handler=choose_strategy
    )
    if register_hook := getattr(context, "register_hook", None):
        register_hook("pre_llm_call", recall_for_question)
