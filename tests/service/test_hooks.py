"""/v1/hooks/prompt: context for a prompt in the form of a hook, and nothing where nothing is to be added."""

import pytest


async def test_a_prompt_gets_the_context_as_a_hook_prints_it(client, gate):
    reply = await client.post("/v1/hooks/prompt", json={"prompt": " how are refunds paid? ", "session_id": "s", "other": 1})  # fmt: skip
    told = reply.json()["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "within 14 days" in told["additionalContext"]
    (trace,) = gate.traces()
    assert gate.trace(trace.id).request.session == "s"


@pytest.mark.parametrize("prompt", ["", "  \n", "/compact", " /help refunds", "go on", "refunds"])
async def test_a_blank_prompt_a_command_and_a_reply_get_nothing_and_leave_no_trace(
    client, gate, prompt
):
    reply = await client.post("/v1/hooks/prompt", json={"prompt": prompt})
    assert (reply.status_code, reply.content) == (204, b"")
    assert gate.traces() == []


async def test_a_prompt_that_nothing_answers_gets_nothing(client, gate):
    reply = await client.post("/v1/hooks/prompt", json={"prompt": "zyxw qqq"})
    assert (reply.status_code, reply.content) == (204, b"")
    assert len(gate.traces()) == 1
