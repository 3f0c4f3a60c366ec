"""The scripted service speaks as the real ones do, and the recordings hold nothing that is not ours to keep."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anthropic
import openai
import pytest
from tests.agents.ask import texts_in
from tests.agents.known import AGENTS, CHOSEN, KEY
from tests.agents.record import LONG
from tests.agents.scenarios import SCENARIOS
from tests.agents.service import Service
from tests.agents.task import COMMANDS, SAID, TASK

ROOT = Path(__file__).parents[2]
# the same program as Codex: what runs the one can run the other
LOGGED_IN = [AGENTS["codex-chatgpt"]] if {"codex", "codex-chatgpt"} & {*CHOSEN} else []
RECORDINGS = sorted(Path(__file__).with_name("recordings").glob("*-*.json"))
FUNCTION = {"name": "terminal", "description": "", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def service():
    service = Service()
    yield service
    service.close()


def ask_anthropic(service, messages, **more):
    client = anthropic.Anthropic(base_url=service.root, api_key=KEY, max_retries=0)
    tool = {"name": "Bash", "description": "", "input_schema": {"type": "object"}}
    with client.messages.stream(model="m", max_tokens=99, tools=[tool], messages=messages, **more) as stream:  # fmt: skip
        return stream.get_final_message()


def test_anthropics_package_reads_what_the_service_says(service):
    play = service.begin(SCENARIOS["healthy"], AGENTS["claude"])
    said, call = ask_anthropic(service, [{"role": "user", "content": TASK}]).content
    assert (said.text, call.input["command"]) == (SAID[0], COMMANDS[0])
    (request,) = play.sent
    assert json.loads(request.body)["messages"][0]["content"] == TASK


def test_openais_package_reads_what_the_service_says(service):
    service.begin(SCENARIOS["healthy"], AGENTS["hermes"])
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key=KEY, max_retries=0)
    asked = {"model": "m", "messages": [{"role": "user", "content": TASK}], "tools": [{"type": "function", "function": FUNCTION}]}  # fmt: skip
    message = client.chat.completions.create(**asked).choices[0].message
    assert json.loads(message.tool_calls[0].function.arguments) == {"command": COMMANDS[0]}
    parts = list(client.chat.completions.create(**asked, stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == SAID[0]
    assert parts[-1].choices[0].finish_reason == "tool_calls"


def test_openais_package_reads_what_the_service_says_in_responses(service):
    service.begin(SCENARIOS["healthy"], AGENTS["codex-gpt-5.5"])
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key=KEY, max_retries=0)
    with client.responses.stream(model="m", input=TASK, tools=[{"type": "function", **FUNCTION}]) as stream:  # fmt: skip
        message, call = stream.get_final_response().output
    assert message.content[0].text == SAID[0]
    assert json.loads(call.arguments) == {"cmd": COMMANDS[0]}


def test_a_thinking_block_without_its_signature_is_refused(service):
    service.begin(SCENARIOS["healthy"], AGENTS["claude"])
    thought = {"type": "thinking", "thinking": "The list is empty.", "signature": ""}
    messages = [
        {"role": "user", "content": TASK},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "So I begin."}]},
        {"role": "user", "content": "Go on."},
    ]
    with pytest.raises(anthropic.BadRequestError, match="signature"):
        ask_anthropic(service, messages)


def test_a_fault_comes_once(service):
    service.begin(SCENARIOS["429"], AGENTS["aider"])
    client = openai.OpenAI(base_url=f"{service.root}/v1", api_key=KEY, max_retries=0)
    asked = {"model": "m", "messages": [{"role": "user", "content": TASK}]}
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(**asked)
    assert "result.txt" in client.chat.completions.create(**asked).choices[0].message.content


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_has_no_long_text_of_an_agents_own(path):
    recording = json.loads(path.read_text())
    assert all(len(text) <= LONG for text in texts_in(recording))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hermes", "hermes cannot be installed: "),
        ("nobody", "there is no agent 'nobody'; there are claude, "),
    ],
)
def test_an_agent_that_cannot_be_installed_is_named_and_leaves_nothing(tmp_path, name, said):
    nothing_listens = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0", "UV_NO_CONFIG": "1"}  # fmt: skip
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AGENTS_FOLDER": str(tmp_path / "agents"), **nothing_listens}  # fmt: skip
    line = [sys.executable, "-m", "tests.agents.install", name]
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.glob("agents/*") if path.is_dir()]


@pytest.mark.agents
@pytest.mark.parametrize("agent", LOGGED_IN)
def test_requests_that_codex_packs_reach_the_service_plain_through_a_gateway(bed, agent):
    direct, served = (bed.run(agent, SCENARIOS["healthy"], way) for way in ("direct", "serve"))
    assert {call.sent.header("content-encoding") for call in direct.play.main} == {"zstd"}
    assert {call.sent.header("content-encoding") for call in served.play.main} == {""}
    assert served.finished
