"""Function tools: a tool of ours in the form that a model API wants.

    client.chat.completions.create(..., tools=[for_chat(CONTEXT_STRATEGY_TOOL)])
    client.responses.create(..., tools=[for_responses(CONTEXT_STRATEGY_TOOL)])
    client.messages.create(..., tools=[for_messages(CONTEXT_STRATEGY_TOOL)])

A tool is a mapping of name, description and parameters (a JSON schema), such as `CONTEXT_STRATEGY_TOOL`.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from millgate.pipeline.stages.strategy import CONTEXT_STRATEGY_TOOL

__all__ = ["CONTEXT_STRATEGY_TOOL", "for_chat", "for_messages", "for_responses"]


def for_chat(tool: Mapping[str, Any]) -> dict[str, Any]:
    """For OpenAI's chat completions, and all that speak it."""
    return {"type": "function", "function": deepcopy(dict(tool))}


def for_responses(tool: Mapping[str, Any]) -> dict[str, Any]:
    """For OpenAI's responses. Not strict: strict schemas have no optional fields."""
    return {"type": "function", "strict": False, **deepcopy(dict(tool))}


def for_messages(tool: Mapping[str, Any]) -> dict[str, Any]:
    """For Anthropic's messages."""
    named = {"name": tool["name"], "description": tool["description"]}
    return {**named, "input_schema": deepcopy(dict(tool["parameters"]))}
