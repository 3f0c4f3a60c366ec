"""What each agent is told, where its calls go on to, and when it is not started because that is not clear."""

import json
import tomllib

import pytest

from millgate.errors import InputError
from millgate.guard.dialects import DIALECTS
from millgate.settings.load import variables
from millgate.wrap.agents.launch import CALLED, find_command, plan_launch
from millgate.wrap.agents.plan import PROVIDERS, SETTINGS_FILE
from millgate.wrap.supervisor import GUARDED

ROOT = "http://127.0.0.1:5000"
SECRET = f"{ROOT}/s3cret"
ANTHROPIC = f"{SECRET}/to/https/api.anthropic.com"
CORP = "http://corp.example/v1"
TO_CORP = "/to/http/corp.example/v1"


@pytest.fixture
def place(tmp_path):
    """A home and a project below it, both empty."""
    (tmp_path / "home" / "project").mkdir(parents=True)
    return tmp_path / "home" / "project"


@pytest.fixture
def launch(place):
    def launch(*command, upstreams=None, **environ):
        environ = {"HOME": str(place.parent), **environ}
        return plan_launch(
            command, root=ROOT, secret="s3cret", environ=environ, upstreams=upstreams or {}, folder=place
        )  # fmt: skip

    return launch


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def changes(found, place):
    return {
        name: value
        for name, value in found.environment.items()
        if (name, value) != ("HOME", str(place.parent))
    }


def test_every_api_that_the_guard_reads_is_guarded():
    paths = {
        kind.path for kind in DIALECTS if kind.path.startswith("/v1/")
    }  # Gemini's name a model
    assert paths == {f"/v1{end}" for end in GUARDED}


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "hermes", "opencode", "pi", "python"])  # fmt: skip
def test_no_secret_stands_on_a_command_line(launch, place, agent):
    write(place.parent / ".claude" / "settings.json", {"env": {"ANTHROPIC_BASE_URL": CORP}})
    write(place.parent / ".hermes" / "config.yaml", f"model:\n  base_url: {CORP}\n  api_key: k\n")
    found = launch(agent, "-x", GEMINI_API_KEY="k")
    assert "s3cret" not in " ".join(found.arguments)
    assert "-x" in found.arguments


@pytest.mark.parametrize("agent", ["hermes", "opencode", "pi"])
def test_a_millgate_that_the_agent_runs_takes_no_variable_of_ours_for_a_setting(
    launch, place, agent
):
    write(place.parent / ".hermes" / "config.yaml", f"model:\n  base_url: {CORP}\n  api_key: k\n")
    assert list(variables(changes(launch(agent), place))) == []


# Claude Code


def test_claude_gets_its_address_and_nothing_else(launch, place):
    found = launch("claude", "-p", "hello", TERM="xterm")
    assert found.arguments == ("claude", "-p", "hello")
    assert changes(found, place) == {"TERM": "xterm", "ANTHROPIC_BASE_URL": ANTHROPIC}
    assert (found.settings, found.open_paths) == ("", ())


def test_an_agent_is_known_by_the_name_of_its_file(launch):
    assert "ANTHROPIC_BASE_URL" in launch("/opt/bin/claude").environment
    assert "OPENAI_BASE_URL" not in launch("/opt/bin/claude").environment


def test_an_address_that_the_user_has_set_is_where_calls_go_on_to(launch):
    found = launch("claude", ANTHROPIC_BASE_URL="http://gateway.example/anthropic/")
    assert found.environment["ANTHROPIC_BASE_URL"] == f"{SECRET}/to/http/gateway.example/anthropic"


@pytest.mark.parametrize("file", ["../.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json"])  # fmt: skip
def test_claudes_settings_stand_over_the_environment_so_a_file_of_ours_stands_over_them(
    launch, place, file
):
    write(place / file, {"env": {"ANTHROPIC_BASE_URL": CORP, "OTHER": "1"}, "model": "opus"})
    found = launch("claude", "-p", "hello", ANTHROPIC_BASE_URL="http://of-the-environment")
    assert found.arguments == ("claude", "--settings", SETTINGS_FILE, "-p", "hello")
    assert json.loads(found.settings) == {"env": {"ANTHROPIC_BASE_URL": SECRET + TO_CORP}}


def test_settings_that_an_argument_names_are_kept_and_the_projects_stand_over_the_users(
    launch, place
):
    write(place.parent / ".claude" / "settings.json", {"env": {"ANTHROPIC_BASE_URL": "http://u"}})
    write(place / ".claude" / "settings.json", {"env": {"ANTHROPIC_BASE_URL": CORP}})
    write(place / "mine.json", {"model": "opus", "env": {"A": "1"}})
    for given in (["--settings", "mine.json"], ["--settings=mine.json"], ["--settings", '{"model": "opus", "env": {"A": "1"}}']):  # fmt: skip
        found = launch("claude", "-c", *given, "hello")
        assert found.arguments == ("claude", "--settings", SETTINGS_FILE, "-c", "hello")
        env = {"A": "1", "ANTHROPIC_BASE_URL": SECRET + TO_CORP}
        assert json.loads(found.settings) == {"model": "opus", "env": env}


@pytest.mark.parametrize(
    ("arguments", "settings", "why"),
    [
        ([], {"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}, "CLAUDE_CODE_USE_BEDROCK"),
        ([], "{", "cannot be read"),
        (["--settings", "{"], {}, "--settings"),
        (["--settings", "none.json"], {}, "none.json"),
    ],
)
def test_claude_is_not_started_if_its_service_is_unknown(launch, place, arguments, settings, why):
    write(place / ".claude" / "settings.json", settings)
    with pytest.raises(InputError, match=why):
        launch("claude", *arguments)


# Codex


def settings_of(found):
    """What wrap sets, and the arguments before and after that."""
    at = next(at for at, text in enumerate(found.arguments) if ROOT in text) - 1
    assert found.arguments[at : at + 4 : 2] == ("-c", "-c")
    told = tomllib.loads("\n".join(found.arguments[at + 1 : at + 4 : 2]))
    return told, found.arguments[1:at], found.arguments[at + 4 :]


def test_codex_is_told_by_arguments_without_a_secret(launch, place):
    found = launch("codex", "exec", "hello")
    told, before, after = settings_of(found)
    assert (before, after) == ((), ("exec", "hello"))
    assert told["openai_base_url"] == f"{ROOT}/codex/v1"
    assert told["features"] == {"enable_request_compression": False}
    assert changes(found, place) == {}
    assert found.open_paths == ("/codex/v1",)


MINE = f'model_provider = "mine"\n[model_providers.mine]\nbase_url = "{CORP}"\n'


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        ({"config.toml": MINE}, []),
        ({"config.toml": '[model_providers.mine]\nbase_url = "http://corp.example/v1"'}, ["-c", "model_provider=mine"]),
        ({"config.toml": 'profile = "p"\n[profiles.p]\nmodel_provider = "mine"\n[model_providers.mine]\nbase_url = "http://corp.example/v1"'}, []),
        ({"p.config.toml": MINE}, ["exec", "-p", "p"]),
        ({"p.config.toml": MINE}, ["--profile=p"]),
        ({}, ["-c", 'model_provider="mine"', "--config", 'model_providers.mine={base_url="http://corp.example/v1"}']),
        ({}, ["exec", "-c", 'model_providers={mine={name="x", base_url="http://corp.example/v1"}}', "-cmodel_provider=mine"]),
        ({}, ["-c=model_provider='mine'", "exec", '--config=model_providers.mine={base_url="http://corp.example/v1"}', "hi"]),
        ({}, ["-c", "model_provider=mine", "exec", "hi", "-c", "model_providers.mine.base_url = http://corp.example/v1"]),
        ({"config.toml": MINE}, ["-c", 'model_providers.mine={name="x"}']),
    ],
)  # fmt: skip
def test_codex_with_a_provider_of_its_own_goes_on_to_that(launch, place, files, arguments):
    for name, text in files.items():
        write(place.parent / ".codex" / name, text)
    found = launch("codex", *arguments)
    told, _, after = settings_of(found)
    assert told["model_providers"] == {"mine": {"base_url": ROOT + TO_CORP}}
    assert found.open_paths == (TO_CORP,)
    assert not any("base_url" in text for text in after), "the last one holds"


@pytest.mark.parametrize("form", [["-c", f"openai_base_url={CORP}"], ["--config", f'openai_base_url = "{CORP}"'], [f"--config=openai_base_url={CORP}"], [f"-copenai_base_url={CORP}"]])  # fmt: skip
def test_an_address_among_codexs_arguments_does_not_hold(launch, form):
    found = launch("codex", "exec", *form, "--", "-c", "openai_base_url=kept")
    told, before, after = settings_of(found)
    assert told["openai_base_url"] == ROOT + TO_CORP
    assert before == ("exec", *form)
    assert after == ("--", "-c", "openai_base_url=kept")


def test_a_command_among_codexs_arguments_is_left_alone(launch):
    command = ("sandbox", "bash", "-c", "name=1; echo $name")
    _, before, after = settings_of(launch("codex", *command))
    assert (before, after) == ((), command)


@pytest.mark.parametrize(
    ("files", "arguments", "why"),
    [
        ({"../.codex/config.toml": "not = = toml"}, [], "cannot be read"),
        ({"../.codex/config.toml": 'model_provider = "ollama"'}, [], "ollama"),
        ({".codex/config.toml": 'openai_base_url = "http://x"'}, [], "not clear"),
        ({}, ["--oss"], "--oss"),
        ({}, ["-c", "model_provider=a.b"], "dot"),
        (
            {},
            [
                "-c",
                f'model_providers.mine.base_url="{CORP}"',
                "-c",
                'model_providers.mine={name="x"}',
                "-c",
                "model_provider=mine",
            ],
            "no base_url",
        ),
    ],
)
def test_codex_is_not_started_if_its_service_is_unknown(launch, place, files, arguments, why):
    for name, text in files.items():
        write(place / name, text)
    with pytest.raises(InputError, match=why):
        launch("codex", *arguments)


def test_an_upstream_that_the_user_names_makes_it_clear(launch, place):
    write(place / ".codex" / "config.toml", 'openai_base_url = "http://x"')
    told, _, _ = settings_of(launch("codex", upstreams={"openai": CORP}))
    assert told["openai_base_url"] == ROOT + TO_CORP


# OpenCode and pi: their extensions are tried with the real programs


def test_opencode_gets_a_plugin_over_its_own_configuration(launch):
    own = {"theme": "dark", "plugin": ["mine"]}
    found = launch("opencode", upstreams={"openai": CORP}, OPENCODE_CONFIG_CONTENT=json.dumps(own))
    told = json.loads(found.environment["OPENCODE_CONFIG_CONTENT"])
    assert told["theme"] == "dark"
    assert told["plugin"][0] == "mine"
    assert told["plugin"][1].endswith("/extensions/opencode.js")
    assert found.environment["MILLGATE_WRAP_ROOT"] == SECRET
    assert json.loads(found.environment["MILLGATE_WRAP_UPSTREAMS"]) == {"openai": CORP}


def test_a_configuration_of_opencode_that_is_none_is_refused(launch):
    with pytest.raises(InputError, match="OPENCODE_CONFIG_CONTENT"):
        launch("opencode", OPENCODE_CONFIG_CONTENT="[1]")


def test_pi_gets_an_extension_but_for_its_commands_for_packages(launch):
    found = launch("pi", "-p", "hello")
    assert found.arguments[1] == "-e"
    assert found.arguments[2].endswith("/extensions/pi.js")
    assert found.arguments[3:] == ("-p", "hello")
    assert launch("pi", "install", "x").arguments == ("pi", "install", "x")


# Gemini CLI


def test_gemini_is_told_its_address_and_that_it_has_a_key(launch, place):
    found = changes(launch("gemini", GEMINI_API_KEY="k"), place)
    assert found["GOOGLE_GEMINI_BASE_URL"] == f"{SECRET}/to/https/generativelanguage.googleapis.com"
    assert found["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"].endswith("/extensions/gemini.json")
    assert "OPENAI_BASE_URL" not in found


def test_gemini_that_knows_how_it_signs_in_is_told_its_address_alone(launch, place):
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    write(place.parent / ".gemini" / "settings.json", f"// a comment\n{json.dumps(chosen)}")
    write(place.parent / ".gemini" / ".env", f'export GOOGLE_GEMINI_BASE_URL="{CORP}" # ours\n')
    found = changes(launch("gemini"), place)
    assert found == {"GOOGLE_GEMINI_BASE_URL": SECRET + TO_CORP}


def test_gemini_is_not_started_if_its_service_is_unknown(launch, place):
    with pytest.raises(InputError, match="API key"):
        launch("gemini")
    with pytest.raises(InputError, match="API key"):
        launch("gemini", GEMINI_API_KEY="k", GOOGLE_GENAI_USE_VERTEXAI="true")
    write(place / ".env", f"GOOGLE_GEMINI_BASE_URL={CORP}")
    with pytest.raises(InputError, match="trust"):
        launch("gemini", GEMINI_API_KEY="k")
    found = launch("gemini", upstreams={"gemini": CORP}, GEMINI_API_KEY="k")
    assert found.environment["GOOGLE_GEMINI_BASE_URL"] == SECRET + TO_CORP


# Hermes

HERMES = f"""# my agent
model:
  default: m   # the one
  provider: "custom"
  base_url: {CORP}
  api_key: 'k'
  extra:
    base_url: http://other.example
display:
  base_url: http://no
"""


def test_hermes_gets_settings_over_its_own(launch, place):
    write(place.parent / ".hermes" / "config.yaml", HERMES)
    found = changes(launch("hermes", "-z", "hello"), place)
    assert found["HERMES_MANAGED_DIR"].endswith("/extensions/hermes")
    assert found["MILLGATE_WRAP_BASE_URL"] == SECRET + TO_CORP


@pytest.mark.parametrize(
    ("config", "arguments", "why"),
    [
        ("", [], "base_url"),
        (HERMES.replace('"custom"', "openrouter"), [], "base_url"),
        (HERMES.replace("corp.example", "api.openai.com"), [], "by its name"),
        (HERMES.replace(CORP, "${WHERE}"), [], "by its name"),
        (HERMES.replace("  api_key: 'k'\n", ""), [], "finds the key"),
        (f"model: {{base_url: {CORP}}}", [], "cannot be read"),
        (f"model:\n  <<: *other\n  base_url: {CORP}", [], "cannot be read"),
        (HERMES, ["--provider", "openai"], "--provider"),
        (HERMES, ["--profile=work"], "--profile"),
    ],
)
def test_hermes_is_not_started_if_its_service_is_unknown(launch, place, config, arguments, why):
    write(place.parent / ".hermes" / "config.yaml", config)
    with pytest.raises(InputError, match=why):
        launch("hermes", *arguments)


def test_hermes_is_not_started_if_its_service_stands_elsewhere_too(launch, place):
    write(place.parent / ".hermes" / "config.yaml", HERMES)
    write(place.parent / ".hermes" / ".env", "CUSTOM_BASE_URL=http://x")
    with pytest.raises(InputError, match="CUSTOM_BASE_URL"):
        launch("hermes")
    with pytest.raises(InputError, match="managed"):
        launch("hermes", HERMES_MANAGED_DIR="/x")
    write(place.parent / ".hermes" / ".env", "")
    write(place.parent / ".hermes" / "active_profile", "work\n")
    with pytest.raises(InputError, match="active_profile"):
        launch("hermes")


# Any other command


SAVED = {"llm": {"model": "openai/m", "base_url": CORP}}


def test_openhands_calls_go_on_to_the_address_that_its_variable_names(launch, place):
    write(place.parent / ".openhands" / "agent_settings.json", {"llm": {"base_url": "http://other"}})  # fmt: skip
    line = ("openhands", "--override-with-envs", "--task", "hello")
    found = launch(*line, LLM_BASE_URL=CORP, LLM_MODEL="openai/m")
    assert found.arguments == line
    assert found.environment["LLM_BASE_URL"] == SECRET + TO_CORP
    assert found.environment["LLM_MODEL"] == "openai/m"


def test_openhands_keeps_the_model_and_key_of_its_settings_where_it_would_have_used_them(
    launch, place
):
    write(place.parent / ".openhands" / "agent_settings.json", SAVED)
    found = launch("openhands", "--task", "hello", LLM_BASE_URL="http://other", LLM_MODEL="other")
    assert found.arguments == ("openhands", "--override-with-envs", "--task", "hello")
    assert found.environment["LLM_BASE_URL"] == SECRET + TO_CORP
    assert (found.environment["LLM_MODEL"], found.environment["LLM_API_KEY"]) == ("", "")


def test_openhands_without_an_address_of_its_own_gets_every_variable(launch):
    found = launch("openhands", "--task", "hello")
    assert found.arguments == ("openhands", "--task", "hello")
    assert found.environment["ANTHROPIC_BASE_URL"] == ANTHROPIC


def test_any_other_command_gets_every_variable(launch):
    told = launch("python", "agent.py").environment
    openai = f"{SECRET}/to/https/api.openai.com/v1"
    assert told["OPENAI_BASE_URL"] == told["OPENAI_API_BASE"] == openai
    assert told["ANTHROPIC_BASE_URL"] == ANTHROPIC
    assert told["GOOGLE_GEMINI_BASE_URL"].endswith("/https/generativelanguage.googleapis.com")


def test_an_option_beats_the_environment(launch):
    given = {"openai": "http://127.0.0.1:11434/v1"}
    found = launch("aider", upstreams=given, OPENAI_BASE_URL="http://gateway.example/v1")
    assert found.environment["OPENAI_BASE_URL"] == f"{SECRET}/to/http/127.0.0.1:11434/v1"


@pytest.mark.parametrize("file", [".env", "../.env", "../.qwen/.env", "tool/.env"])
def test_a_command_that_may_read_its_address_from_a_file_is_not_started(launch, place, file):
    write(place / file, "OPENAI_API_KEY=k\nOPENAI_BASE_URL=http://corp.example/v1\n")
    write(place / "tool" / "agent.py", "")
    with pytest.raises(InputError, match="OPENAI_BASE_URL") as refused:
        launch("qwen", "tool/agent.py")
    assert "--upstream openai=URL" in refused.value.hint
    assert launch("qwen", "tool/agent.py", OPENAI_BASE_URL="http://x/v1")
    assert launch("qwen", "tool/agent.py", upstreams={"openai": CORP})


@pytest.mark.parametrize("chars", [300, 5_000])
def test_an_argument_may_be_longer_than_any_path(launch, chars):
    assert launch("aider", "--message", "a" * chars).arguments[-1] == "a" * chars


def test_a_folder_named_like_a_file_of_variables_is_none(launch, place):
    (place / ".env").mkdir()
    assert launch("python", "agent.py")


def test_calls_to_this_machine_do_not_go_through_a_proxy(launch):
    told = launch("claude", HTTPS_PROXY="http://proxy.example:3128", NO_PROXY="corp").environment
    assert told["NO_PROXY"] == told["no_proxy"] == "corp,127.0.0.1"
    assert "NO_PROXY" not in launch("claude").environment


@pytest.mark.parametrize("url", ["localhost:8080/v1", "ftp://x", "https://user:pw@x/v1", "https://x/v1?key=1"])  # fmt: skip
def test_an_address_that_cannot_be_passed_on_to_is_refused(launch, url):
    with pytest.raises(InputError, match="address"):
        launch("claude", ANTHROPIC_BASE_URL=url)


def test_an_unknown_provider_is_named(launch):
    with pytest.raises(InputError, match="'mistral'"):
        launch("claude", upstreams={"mistral": "http://x"})


@pytest.mark.parametrize("agent", CALLED)
def test_a_provider_that_an_agent_never_calls_is_named(launch, agent):
    other = next(name for name in PROVIDERS if name not in CALLED[agent])
    with pytest.raises(InputError, match=f"{agent} does not call {other}") as refused:
        launch(agent, upstreams={other: "http://x"})
    assert refused.value.hint == f"providers: {CALLED[agent][0]}"


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(InputError, match="no-such-agent"):
        find_command("no-such-agent", {"PATH": "/usr/bin"})
