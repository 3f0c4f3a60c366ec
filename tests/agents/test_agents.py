"""Real agents with Millgate are as good as without it, or better, whatever the model and its service do."""

import os

import pytest
from tests.agents.compare import worse_than
from tests.agents.known import AGENTS, CHOSEN
from tests.agents.runs import WAYS
from tests.agents.scenarios import SCENARIOS, Fault

NOT_STREAMED = (
    "the agent does not stream, so each of three tries to get out of its loop is generated whole"
)

# Cells that are worse than direct for a known fault: by agent, scenario and way, "" for any. The first that fits holds.
KNOWN_FAULTS = {
    ("mini-swe-agent", "always loops", ""): NOT_STREAMED,
    ("openhands", "always loops", ""): NOT_STREAMED,
}

# `make test-agents QUICK=1` serves in these alone: nothing happens, an answer is cut, a request is changed, a
# connection breaks. In all others the gateway under `wrap` does the same, and more stands around it.
SERVED_IF_QUICK = ("healthy", "loop in text", "circle", "cut in mid-stream")


def ways(scenario):
    is_quick = bool(os.environ.get("QUICK"))
    return [way for way in WAYS if way != "serve" or not is_quick or scenario in SERVED_IF_QUICK]


def cells():
    for agent in CHOSEN:
        for scenario, played in SCENARIOS.items():
            for way in ways(scenario) if played.needs in AGENTS[agent].can | {""} else ():
                yield pytest.param(
                    agent,
                    scenario,
                    way,
                    id=f"{agent}-{scenario}-{way}",
                    marks=[*known_faults(agent, scenario, way), pytest.mark.xdist_group(f"{agent}-{scenario}")],
                )  # fmt: skip


def known_faults(*cell):
    for key, reason in KNOWN_FAULTS.items():
        anyway = key[2] == "" and cell[2] == "direct"  # without us there is no fault of ours
        if not anyway and all(part in ("", given) for part, given in zip(key, cell, strict=True)):
            yield pytest.mark.xfail(reason=reason, strict=True)
            return


@pytest.fixture(scope="session")
def direct_runs():
    """Runs without us, which the other two are compared with."""
    return {}


def run_direct(bed, runs, agent, scenario):
    if (agent, scenario) not in runs:
        runs[agent, scenario] = bed.run(AGENTS[agent], SCENARIOS[scenario], "direct")
    return runs[agent, scenario]


@pytest.mark.agents
@pytest.mark.parametrize(("agent", "scenario", "way"), [*cells()])
def test_an_agent_does_as_well_with_us_as_without(bed, direct_runs, record_property, agent, scenario, way):  # fmt: skip
    direct = run_direct(bed, direct_runs, agent, scenario)
    if way == "direct":
        record_property("cell", cell(agent, scenario, direct, " "))
        played = SCENARIOS[scenario]
        assert direct.finished or played.loops or isinstance(played, Fault), direct.stderr
        return
    other = bed.run(AGENTS[agent], SCENARIOS[scenario], way)
    worse = worse_than(direct, other, SCENARIOS[scenario])
    record_property("cell", cell(agent, scenario, other, "!" if worse else "*"))
    if worse:
        record_property("worse", ((agent, scenario, way), worse[0]))
    assert not worse, "\n".join(worse)


def cell(agent, scenario, outcome, sign):
    done = "done" if outcome.finished else "undone"
    shown = f"{sign}{done} {outcome.calls} {outcome.input_tokens:,}+{outcome.output_tokens:,}"
    return (agent, scenario, outcome.way), shown
