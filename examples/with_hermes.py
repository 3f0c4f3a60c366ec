"""Millgate as the memory of hermes-agent, called as hermes-agent calls it."""

import json

from millgate import Millgate
from millgate.integrations.hermes import MemoryManager, MillgateMemory

with Millgate.open(":memory:") as gate:
    gate.add([{"id": "refunds", "text": "A refund takes five working days."}])
    memory = MemoryManager([MillgateMemory(gate)], tenant=gate.tenant)
    memory.initialize_all("monday", platform="cli")
    fact = {"action": "add", "content": "Ann signs all refunds"}
    print(json.loads(memory.handle_tool_call("fact_store", fact))["status"])

    memory.set_context_budget(context_length=100_000, used_tokens=20_000)
    print("Ann signs" in memory.prefetch_all("Who signs a refund?", session_id="monday"))
    memory.set_context_budget(context_length=100_000, used_tokens=99_000)
    print(repr(memory.prefetch_all("Who signs a refund?", session_id="monday")))
    memory.shutdown_all()
