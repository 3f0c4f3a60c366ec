"""The strategy tool in the forms of the model APIs, as their SDKs type them, and answered by our function."""

import pytest
from pydantic import TypeAdapter

from millgate.integrations.function_tools import (
    CONTEXT_STRATEGY_TOOL,
    for_chat,
    for_messages,
    for_responses,
)
from millgate.pipeline.stages.strategy import context_strategy


def test_each_form_is_what_its_sdk_takes():
    anthropic = pytest.importorskip("anthropic.types")
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    for form, kind in [
        (for_chat, chat.ChatCompletionFunctionToolParam),
        (for_responses, responses.FunctionToolParam),
        (for_messages, anthropic.ToolParam),
    ]:
        made = form(CONTEXT_STRATEGY_TOOL)
        assert TypeAdapter(kind).validate_python(made) == made


def test_every_argument_is_described_in_every_form():
    schemas = [
        for_chat(CONTEXT_STRATEGY_TOOL)["function"]["parameters"],
        for_responses(CONTEXT_STRATEGY_TOOL)["parameters"],
        for_messages(CONTEXT_STRATEGY_TOOL)["input_schema"],
    ]
    for schema in schemas:
        assert schema["required"] == ["query"]
        assert all(field["description"] for field in schema["properties"].values())


def test_a_form_can_be_changed_without_changing_the_tool():
    for_messages(CONTEXT_STRATEGY_TOOL)["input_schema"]["properties"].clear()
    assert CONTEXT_STRATEGY_TOOL["parameters"]["properties"]


def test_a_call_with_every_argument_is_answered():
    answer = context_strategy(
        query="compare the two contracts",
        content_size_hint="huge",
        file_paths=[__file__],
        char_count=400_000,
        model_context_length=32_000,
        used_tokens=-1,
        available_tools=["memory"],
    )
    assert answer["content_tokens"] == 100_000
    assert answer["steps"]
