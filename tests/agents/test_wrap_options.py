"""What `millgate wrap` does when it is asked for more: real agents with --fold and --remember."""

import json

import pytest
from tests.agents.ask import texts_in
from tests.agents.compare import steady
from tests.agents.known import chosen
from tests.agents.runs import PATIENCE
from tests.agents.scenarios import REREAD, SCENARIOS, Reread
from tests.agents.task import TASK

from millgate import expand

POINTER = "Nothing was deleted; read them there."
BROKE = "because the prompt cache broke"
RULE = "Never delete the folder notes, and always write words in lower case."
LONG_TASK = f"{TASK} {RULE} " + "The list belongs to a longer story about counting. " * 100


@pytest.mark.agents
@pytest.mark.parametrize("agent", chosen("claude", "codex", "codex-gpt-5.5"))
def test_what_an_agent_reads_twice_is_folded_and_its_work_is_the_same(bed, agent):
    plain = bed.run(agent, Reread(), "wrap")
    folded = bed.run(agent, Reread(), "wrap", options=(*PATIENCE, "--fold"))
    assert plain.finished, plain.stderr
    assert (folded.files, folded.code, folded.stdout) == (plain.files, plain.code, plain.stdout)
    assert folded.calls == plain.calls
    assert folded.input_tokens < plain.input_tokens
    assert "tokens folded" in folded.stderr
    assert BROKE not in folded.stderr
    for one, two in zip(plain.play.main, folded.play.main, strict=True):
        told, alone = expand(two.ask.conversation()), one.ask.conversation()
        assert steady(json.dumps(told)) == steady(json.dumps(alone)), "all can be read there"
    pointers = [[text for text in texts_in(call.ask.conversation()) if POINTER in text] for call in folded.play.main]  # fmt: skip
    before, after = pointers[: len(REREAD)], pointers[len(REREAD) :]
    assert not any(before)
    assert len(after[0]) == 1
    assert all(found == after[0] for found in after), "the provider's cache holds the first"


@pytest.mark.agents
@pytest.mark.parametrize("agent", chosen("claude", "codex"))
def test_a_rule_of_the_user_stands_once_in_every_request_after_a_compaction(bed, agent):
    """Alone Claude Code forgets it, since its summary does not say it. Codex keeps the user's words by itself."""
    alone = {"claude": 0, "codex": 1}[agent.name]
    for options, times in ((PATIENCE, alone), ((*PATIENCE, "--remember"), 1)):
        outcome = bed.run(agent, SCENARIOS["compaction"], "wrap", task=LONG_TASK, options=options)
        assert outcome.finished, outcome.stderr
        said = [json.dumps(call.ask.conversation()) for call in outcome.play.calls]
        at = next(n for n, call in enumerate(outcome.play.calls) if call.ask.is_compaction())
        assert all(RULE in text for text in said[:at])
        assert {text.count(RULE) for text in said[at + 1 :]} == {times}
