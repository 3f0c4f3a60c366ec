"""The OpenAI Agents SDK: context in front of each question.

With a model: RunConfig(call_model_input_filter=add_context(gate)), and Agent("helper", model=GuardedModel(model)).
"""

import asyncio

from agents.run import CallModelData, ModelInputData

from millgate import Millgate
from millgate.integrations.openai_agents import add_context


async def main():
    async with Millgate.open(":memory:") as gate:
        await gate.aadd([{"id": "refunds", "text": "A refund takes five working days."}])
        asked = ModelInputData([{"role": "user", "content": "How long does a refund take?"}], None)
        sent = await add_context(gate, budget=500)(CallModelData(asked, None, None))
        print(len(sent.input), "five working days" in sent.input[0]["content"])


asyncio.run(main())
