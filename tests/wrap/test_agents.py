"""What each agent is told, and where its calls go on to."""

import json
import tomllib

import pytest

from headgate.errors import InputError
from headgate.guard.dialects import DIALECTS
from headgate.service.wrap.agents import find_command, plan_launch
from headgate.service.wrap.supervisor import GUARDED

ROOT = "http://127.0.0.1:5000/secret"


def launch(*command, upstreams=None, **environ):
    return plan_launch(command, root=ROOT, environ=environ, upstreams=upstreams or {})


def test_every_api_that_the_guard_reads_is_guarded():
    assert {kind.path for kind in DIALECTS} == GUARDED


def test_claude_gets_its_address_and_nothing_else():
    found = launch("claude", "-p", "hello", HOME="/nowhere", TERM="xterm")
    assert found.arguments == ("claude", "-p", "hello")
    assert found.environment == {
        "HOME": "/nowhere",
        "TERM": "xterm",
        "ANTHROPIC_BASE_URL": f"{ROOT}/anthropic",
    }
    assert found.upstreams == {"anthropic": "https://api.anthropic.com"}


def test_an_agent_is_known_by_the_name_of_its_file():
    assert "ANTHROPIC_BASE_URL" in launch("/opt/bin/claude").environment
    assert "OPENAI_BASE_URL" not in launch("/opt/bin/claude").environment


def test_an_address_that_the_user_has_set_is_where_calls_go_on_to():
    found = launch("claude", ANTHROPIC_BASE_URL="http://gateway.example/anthropic/")
    assert found.upstreams == {"anthropic": "http://gateway.example/anthropic"}
    assert found.environment["ANTHROPIC_BASE_URL"] == f"{ROOT}/anthropic"


def test_an_option_beats_the_environment():
    given = {"openai": "http://127.0.0.1:11434/v1"}
    found = launch("aider", upstreams=given, OPENAI_BASE_URL="http://gateway.example/v1")
    assert found.upstreams["openai"] == "http://127.0.0.1:11434/v1"


def test_codex_is_told_by_arguments(tmp_path):
    found = launch("codex", "exec", "hello", CODEX_HOME=str(tmp_path))
    assert found.arguments[-2:] == ("exec", "hello")
    told = tomllib.loads("\n".join(found.arguments[2:-2:2]))
    assert told["openai_base_url"] == f"{ROOT}/openai/v1"
    assert told["features"] == {"enable_request_compression": False}
    assert found.environment == {"CODEX_HOME": str(tmp_path)}
    assert found.upstreams == {"openai": "https://api.openai.com/v1"}


def test_codex_with_a_provider_of_its_own_goes_on_to_that(tmp_path):
    (tmp_path / "config.toml").write_text(
        'model_provider = "mine"\n[model_providers.mine]\nbase_url = "http://models.example/v1"\n'
    )
    found = launch("codex", CODEX_HOME=str(tmp_path))
    told = tomllib.loads("\n".join(found.arguments[2::2]))
    assert told["model_providers"] == {"mine": {"base_url": f"{ROOT}/openai/v1"}}
    assert found.upstreams == {"openai": "http://models.example/v1"}


def test_a_configuration_of_codex_that_cannot_be_read_is_left_alone(tmp_path):
    (tmp_path / "config.toml").write_text("not = = toml")
    assert launch("codex", CODEX_HOME=str(tmp_path)).upstreams["openai"].startswith("https://")


def test_opencode_gets_a_configuration_over_its_own():
    own = {
        "theme": "dark",
        "provider": {"anthropic": {"options": {"baseURL": "http://a.example/v1"}}},
    }
    found = launch("opencode", OPENCODE_CONFIG_CONTENT=json.dumps(own))
    told = json.loads(found.environment["OPENCODE_CONFIG_CONTENT"])
    assert told["theme"] == "dark"
    assert told["provider"]["anthropic"]["options"]["baseURL"] == f"{ROOT}/anthropic/v1"
    assert told["provider"]["openai"]["options"]["baseURL"] == f"{ROOT}/openai/v1"
    assert found.upstreams == {
        "anthropic": "http://a.example",
        "openai": "https://api.openai.com/v1",
    }


def test_a_configuration_of_opencode_that_is_none_is_refused():
    with pytest.raises(InputError, match="OPENCODE_CONFIG_CONTENT"):
        launch("opencode", OPENCODE_CONFIG_CONTENT="[1]")


def test_gemini_is_not_told_of_other_services():
    found = launch("gemini")
    assert found.environment == {"GOOGLE_GEMINI_BASE_URL": f"{ROOT}/gemini"}


def test_any_other_command_gets_every_variable():
    told = launch("python", "agent.py").environment
    assert told["OPENAI_BASE_URL"] == told["OPENAI_API_BASE"] == f"{ROOT}/openai/v1"
    assert told["ANTHROPIC_BASE_URL"] == f"{ROOT}/anthropic"
    assert told["GOOGLE_GEMINI_BASE_URL"] == f"{ROOT}/gemini"


def test_calls_to_this_machine_do_not_go_through_a_proxy():
    told = launch("claude", HTTPS_PROXY="http://proxy.example:3128", NO_PROXY="corp").environment
    assert told["NO_PROXY"] == told["no_proxy"] == "corp,127.0.0.1"
    assert "NO_PROXY" not in launch("claude").environment


def test_an_unknown_provider_is_named():
    with pytest.raises(InputError, match="'mistral'"):
        launch("claude", upstreams={"mistral": "http://x"})


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(InputError, match="no-such-agent"):
        find_command("no-such-agent", {"PATH": "/usr/bin"})
