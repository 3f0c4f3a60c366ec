"""A memory of your own beside ours: it answers in text, and may be slow or down without harm."""

import asyncio

from millgate import Millgate


class TeamDiary:
    name = "diary"

    def is_available(self):
        return True

    async def prefetch(self, query, *, session_id="", limit=None, min_trust=None):
        await asyncio.sleep(0)  # where yours waits for the network
        return "- deploys go out on Fridays\n- the harbor master is called Ines"


with Millgate.open(":memory:", providers=[TeamDiary()]) as gate:
    context = gate.context("when do deploys go out?", budget=100)
    print("Fridays" in context.text, context.degraded)
