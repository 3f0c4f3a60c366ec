"""Many agents at once through one gateway: each does its work, and none is cut for what another's model says."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from tests.agents.ask import texts_in
from tests.agents.known import chosen
from tests.agents.runs import Bed
from tests.agents.scenarios import SCENARIOS, TextLoop
from tests.agents.task import TASK

AGENTS_AT_ONCE = 16
NUMBER = re.compile(r"You are number (\d+)\.")


@dataclass(frozen=True)
class HalfLoop(TextLoop):
    """The models of the agents with odd numbers loop, each once; the others do their task."""

    tries: Counter = field(default_factory=Counter, compare=False)

    def answer(self, agent, ask, done, attempt):
        said = " ".join(texts_in(ask.conversation()))
        number = int(NUMBER.search(said)[1])
        attempt = self.tries[number, len(done)]
        self.tries[number, len(done)] += 1
        if number % 2 == 0:
            return SCENARIOS["healthy"].answer(agent, ask, done, attempt)
        return super().answer(agent, ask, done, attempt)


@pytest.mark.agents
@pytest.mark.parametrize("agent", chosen("codex", "pi"))
def test_sixteen_agents_do_their_work_through_one_gateway(bed, tmp_path, agent):
    healthy = bed.run(agent, SCENARIOS["healthy"], "direct").calls
    scenario = HalfLoop()

    def run(number):
        (tmp_path / str(number)).mkdir()
        own = Bed(tmp_path / str(number), bed.service)
        own.gateway = bed.gateway
        return own.run(agent, scenario, "serve", task=f"{TASK} You are number {number}.")

    with ThreadPoolExecutor(AGENTS_AT_ONCE) as pool:
        outcomes = [*pool.map(run, range(AGENTS_AT_ONCE))]
    assert [outcome.stderr for outcome in outcomes if not outcome.finished] == []
    rolled_back = AGENTS_AT_ONCE // 2
    assert sum(outcome.calls for outcome in outcomes) == AGENTS_AT_ONCE * healthy + rolled_back
