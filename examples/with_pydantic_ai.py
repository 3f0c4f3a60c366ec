"""A pydantic-ai agent that is given context with its question, and has tools to look up and remember."""

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from millgate import Millgate
from millgate.integrations.pydantic_ai import add_context, toolset


def answer(messages, info):
    print("context:", "five working days" in messages[0].parts[0].content)
    print("tools:", ", ".join(sorted(tool.name for tool in info.function_tools)))
    return ModelResponse(parts=[TextPart("Five working days.")])


with Millgate.open(":memory:") as gate:
    gate.add([{"id": "refunds", "text": "A refund takes five working days."}])
    context = ProcessHistory(add_context(gate, budget=500))
    agent = Agent(FunctionModel(answer), capabilities=[context], toolsets=[toolset(gate)])
    print(agent.run_sync("How long does a refund take?").output)
