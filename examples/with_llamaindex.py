"""LlamaIndex: a query engine over Millgate, and a memory that recalls what left the chat history."""

import asyncio

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from millgate import Millgate
from millgate.integrations.llamaindex import MillgateMemoryBlock, MillgateRetriever

with Millgate.open(":memory:") as gate:
    gate.add([{"id": "refunds", "text": "A refund takes five working days."}])
    engine = RetrieverQueryEngine.from_args(MillgateRetriever(gate, budget=500), llm=MockLLM())
    print("five working days" in str(engine.query("How long does a refund take?")))

    block = MillgateMemoryBlock(gate=gate)  # for Memory.from_defaults(memory_blocks=[block])
    asyncio.run(block.aput([ChatMessage("My sister Ann moved to Lisbon.")]))
    print("Lisbon" in asyncio.run(block.aget([ChatMessage("Where did Ann move?")])))
