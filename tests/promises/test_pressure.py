"""Inside hermes-agent a window that says no gets nothing: no fact, and no passage.

`should_prefetch` of the published design is asked with the window that hermes-agent itself reports. The cells are run
through our memory with hermes-agent's own signatures; inside the real hermes-agent, which has a Python of its own
(`make test-all`), tests/integrations/test_hermes_agent.py does the same.
"""

import pytest

from millgate import Millgate
from millgate.integrations.hermes import MillgateEngine, MillgateMemory
from millgate.integrations.hermes.engine import recall_for_question
from millgate.pipeline.stages.decide import should_prefetch
from millgate.types import ContextBudget

LENGTH, THRESHOLD = 100_000, 75_000
LONG = " Please go through all of it, board by board and wheel by wheel." * 4
QUESTIONS = [
    "How many geese and keepers has the mill?",
    "Write down the wheels of the mill." + LONG,
    "How do the keepers of the mill feed the geese?" + LONG,
    "What do you remember of the mill, its keepers and geese?" + LONG,
    "What did I say about the keepers of the mill?" + LONG,
]
USED = [38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 59, *range(60, 72)]
CELLS = [(question, percent) for question in QUESTIONS for percent in USED]


def budget(percent):
    return ContextBudget(LENGTH, percent * LENGTH // 100, THRESHOLD)


REFUSED = [(q, p) for q, p in CELLS if not should_prefetch(budget(p), q)]


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add({"id": f"p{n}", "text": f"Page {n}. The mill of number {n} has geese, keepers and wheels."} for n in range(20))  # fmt: skip
        for n in range(6):
            opened.remember(f"Keeper {n} of the mill feeds the geese at {n} o'clock")
        yield opened


def remember(gate, question, window):
    """What the memory gives, told of the window as hermes-agent's manager tells it."""
    memory = MillgateMemory(gate)
    memory.initialize("monday", hermes_home="", platform="cli", agent_context="primary")
    memory.set_context_budget(
        window.context_length, window.used_tokens, window.threshold_tokens, True
    )
    return memory.prefetch(question, session_id="monday")


def recall(gate, question, window):
    """What the engine gives without a memory, by hermes-agent's hook before a turn."""
    engine = MillgateEngine(gate, collection="main")
    engine.on_session_start("tuesday", platform="cli")
    engine.update_model("scripted", LENGTH)
    engine.update_from_response({"prompt_tokens": window.used_tokens})
    given = recall_for_question(session_id="tuesday", user_message=question)
    return given["context"] if given else ""


def select(gate, question, window):
    """What the engine puts in front of a question where hermes-agent lets it select."""
    engine = MillgateEngine(gate, collection="main")
    engine.on_session_start("wednesday", platform="cli")
    engine.update_model("scripted", LENGTH)
    engine.update_from_response({"prompt_tokens": window.used_tokens})
    asked = [{"role": "user", "content": question}]
    selected = engine.select_context(asked) or asked
    return "".join(message["content"] for message in selected[:-1])


@pytest.mark.parametrize("way", [remember, recall, select])
def test_no_text_comes_where_should_prefetch_says_no(gate, way):
    given = {cell: way(gate, cell[0], budget(cell[1])) for cell in REFUSED}
    assert len(given) >= 80
    assert [cell for cell, text in given.items() if text] == []


@pytest.mark.parametrize("way", [remember, recall, select])
def test_text_comes_where_it_says_yes(gate, way):
    question = "What do you remember of the mill, its keepers and geese?"
    assert all(way(gate, question, budget(percent)) for percent in (5, 36, 50, 65))
