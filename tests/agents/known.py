"""The agents that we run: how each is installed, set up in a clean home, and told to do its task."""

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from tests.agents.ask import Reply
from tests.agents.install import Package
from tests.agents.task import ACCOUNT, RESULT, STRAY

MILLGATE = (sys.executable, "-P", "-m", "millgate")
KEY = "sk-of-nobody-0000000000000000000000000000"


class Agent:
    """An agent; what is here fits most of them."""

    name: ClassVar[str]
    package: ClassVar[Package]
    shell: ClassVar[str]  # its tool for commands
    mcp_client: ClassVar[str] = ""  # what `millgate mcp install` calls it
    mcp_tool: ClassVar[str] = "mcp__millgate__{}"  # how it names a tool of the server
    can: ClassVar[frozenset[str]] = frozenset({"tools"})  # what a scenario may need

    def set_up(self, home, project, root):
        """Write the configuration with which a user sends its calls to `root`; the variables that it needs."""
        raise NotImplementedError

    def log_in(self, home, port):
        """Log the user in at the service on this port, if that is more than a key."""

    def add_mcp(self, home, project, store):
        """Add Millgate's MCP server to the configuration, as a user would."""
        line = [*MILLGATE, "mcp", "install", "--client", self.mcp_client, "--store", str(store)]
        environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
        subprocess.run(line, cwd=project, env=environ, check=True, capture_output=True)

    def command(self, task):
        """The command that does a task without asking anybody."""
        raise NotImplementedError

    def arguments(self, command):
        """The arguments of its tool for commands."""
        return {"command": command}

    def act(self, text, command):
        """A reply that runs a command."""
        return Reply(text=text, calls=((self.shell, self.arguments(command)),))

    def read(self, text, command):
        """A reply that runs a command, and wants its output alone."""
        return self.act(text, command)

    def ask_mcp(self, text, tool, arguments):
        """A reply that calls a tool of Millgate's MCP server."""
        return Reply(text=text, calls=((self.mcp_tool.format(tool), arguments),))

    def finish(self, text):
        """A reply that ends the task."""
        return Reply(text=text)

    def is_main(self, ask):
        """Whether a request is of the main loop, and not for a title or the like."""
        return bool(ask.tools()) and not ask.is_compaction()

    def beside(self, ask):
        """The answer to a request beside the main loop."""
        if ask.is_compaction():
            return Reply(text="<summary>The list has its first words, and must be completed.</summary>")  # fmt: skip
        return Reply(text="A list of three words")

    def results(self, ask):
        """The results of tools that the conversation has."""
        return ask.results()


class ClaudeCode(Agent):
    name = "claude"
    package = Package("npm", "@anthropic-ai/claude-code", "2.1.327")
    shell = "Bash"
    mcp_client = "claude"
    can = frozenset({"tools", "compaction", "mcp"})

    def set_up(self, home, project, root):
        return {
            "ANTHROPIC_BASE_URL": root,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",  # it may run as root, as in a container
        }

    def command(self, task):
        return ["claude", "-p", task, "--dangerously-skip-permissions"]

    def arguments(self, command):
        return {"command": command, "description": "One step of the task"}


class Codex(Agent):
    """Codex with its own model: one tool, which runs JavaScript that calls the others."""

    name = "codex"
    package = Package("npm", "@openai/codex", "0.169.0")
    shell = "exec"
    mcp_client = "codex"
    can = frozenset({"tools", "compaction", "mcp"})
    model = ""

    def set_up(self, home, project, root):
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(
            f'openai_base_url = "{root}/v1"\n'
            f"{self.model}"
            "check_for_update_on_startup = false\n"
            "[analytics]\nenabled = false\n"
        )
        return {"OPENAI_API_KEY": KEY, "CODEX_API_KEY": KEY}

    def command(self, task):
        return ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", task]  # fmt: skip

    def arguments(self, command):
        return self.script("exec_command", {"cmd": command})

    def ask_mcp(self, text, tool, arguments):
        return Reply(text=text, calls=((self.shell, self.script(self.mcp_tool.format(tool), arguments)),))  # fmt: skip

    def read(self, text, command):
        call = f"await tools.exec_command({json.dumps({'cmd': command})})"
        return Reply(text=text, calls=((self.shell, f"text(({call}).output);\n"),))

    def script(self, tool, arguments):
        return f"text(await tools.{tool}({json.dumps(arguments)}));\n"


class OlderCodex(Codex):
    """Codex with a model that calls each tool by itself."""

    name = "codex-gpt-5.5"
    shell = "exec_command"
    model = 'model = "gpt-5.5"\n'
    can = frozenset({"tools"})

    def arguments(self, command):
        return {"cmd": command}

    def read(self, text, command):
        return self.act(text, command)


class LoggedInCodex(OlderCodex):
    """Codex whose user has logged in with ChatGPT: it packs its requests with zstd."""

    name = "codex-chatgpt"

    def set_up(self, home, project, root):
        super().set_up(home, project, root)
        return {}

    def log_in(self, home, port):
        account = {"chatgpt_plan_type": "plus", "chatgpt_user_id": "nobody", "chatgpt_account_id": ACCOUNT}  # fmt: skip
        token = unsigned_token({"email": "nobody@example.com", "exp": 4_102_444_800, "https://api.openai.com/auth": account})  # fmt: skip
        tokens = {"id_token": token, "access_token": token, "refresh_token": KEY, "account_id": ACCOUNT}  # fmt: skip
        now = datetime.now(UTC).isoformat()
        login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now}  # fmt: skip
        (home / ".codex" / "auth.json").write_text(json.dumps(login))
        config = home / ".codex" / "config.toml"
        # of another name than the service of models, which Codex would else take for one of ChatGPT's own
        backend = f'chatgpt_base_url = "http://localhost:{port}/backend-api/"\n'
        config.write_text(backend + config.read_text())


def unsigned_token(claims):
    """A JSON web token that nobody has signed."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return ".".join([*(part.decode() for part in encoded), "bm9uZQ"])


class OpenCode(Agent):
    name = "opencode"
    # newer ones need instructions that not every ARM processor has
    package = Package("npm", "opencode-ai", "1.18.18")
    shell = "bash"
    mcp_tool = "millgate_{}"
    can = frozenset({"tools", "compaction", "mcp"})

    def set_up(self, home, project, root):
        config = {
            "provider": {"anthropic": {"options": {"baseURL": f"{root}/v1"}}},
            "permission": "allow",
            "autoupdate": False,
            "share": "disabled",
        }
        (project / "opencode.json").write_text(json.dumps(config))
        return {
            "ANTHROPIC_API_KEY": KEY,
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "npm_config_offline": "true",  # it installs the library for plugins at its first start
        }

    def add_mcp(self, home, project, store):
        config = json.loads((project / "opencode.json").read_text())
        command = [*MILLGATE, "mcp", "--store", str(store)]
        config["mcp"] = {"millgate": {"type": "local", "command": command, "enabled": True}}
        (project / "opencode.json").write_text(json.dumps(config))

    def results(self, ask):
        return [result for result in ask.results() if "Tool execution aborted" not in result]

    def command(self, task):
        return ["opencode", "run", "--model", "anthropic/claude-sonnet-4-5", task]

    def arguments(self, command):
        return {"command": command, "description": "One step of the task"}


class Gemini(Agent):
    name = "gemini"
    package = Package("npm", "@google/gemini-cli", "0.61.0")
    shell = "run_shell_command"
    mcp_client = "gemini"
    mcp_tool = "mcp_millgate_{}"
    can = frozenset({"tools", "mcp"})

    def set_up(self, home, project, root):
        (home / ".gemini").mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False},
        }
        (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        return {"GOOGLE_GEMINI_BASE_URL": root, "GEMINI_API_KEY": KEY}

    def command(self, task):
        # with a model of its own choice it asks another model first
        return ["gemini", "--yolo", "--skip-trust", "--model", "gemini-3.1-pro-preview", "--prompt", task]  # fmt: skip


class Pi(Agent):
    name = "pi"
    package = Package("npm", "@mariozechner/pi-coding-agent", "0.73.1")
    shell = "bash"

    def set_up(self, home, project, root):
        (home / ".pi" / "agent").mkdir(parents=True)
        models = {"providers": {"anthropic": {"baseUrl": root}}}
        (home / ".pi" / "agent" / "models.json").write_text(json.dumps(models))
        return {"ANTHROPIC_API_KEY": KEY, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def command(self, task):
        return ["pi", "--print", "--model", "anthropic/claude-sonnet-4-5", task]


class Hermes(Agent):
    name = "hermes"
    package = Package("pypi", "hermes-agent", "0.19.0")
    shell = "terminal"

    def set_up(self, home, project, root):
        (home / ".hermes").mkdir()
        (home / ".hermes" / "config.yaml").write_text(
            "model:\n"
            "  default: scripted-1\n"
            "  provider: custom\n"
            f"  base_url: {root}/v1\n"
            f"  api_key: {KEY}\n"
            "  context_length: 200000\n"
            "agent:\n"
            "  environment_probe: false\n"  # it gives up on a busy machine, and says something else then
            "security:\n"
            "  tirith_enabled: false\n"  # a program that it would download
        )
        return {}

    def command(self, task):
        return ["hermes", "chat", "--quiet", "--yolo", "--toolsets", "terminal", "--query", task]


class Aider(Agent):
    """Aider has no tools: the model answers with the new text of files."""

    name = "aider"
    package = Package("pypi", "aider-chat", "0.86.2")
    can = frozenset()

    def set_up(self, home, project, root):
        return {
            "OPENAI_API_BASE": f"{root}/v1",
            "OPENAI_API_KEY": KEY,
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def command(self, task):
        return ["aider", "--model", "openai/scripted-1", "--no-git", "--yes-always", "--no-show-model-warnings", "--no-pretty", "--message", task]  # fmt: skip

    def act(self, text, command):
        return Reply(text=f"{text}\n\nresult.txt\n```\n{RESULT}```\n")

    def is_main(self, ask):
        return True

    def results(self, ask):
        """Its one call is the one in which the model may stray."""
        return [""] * STRAY


class MiniSweAgent(Agent):
    name = "mini-swe-agent"
    package = Package("pypi", "mini-swe-agent", "2.4.6", ("mcp",))
    shell = "bash"

    def set_up(self, home, project, root):
        return {
            "OPENAI_API_BASE": f"{root}/v1",
            "OPENAI_API_KEY": KEY,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def command(self, task):
        return ["mini", "--yolo", "--exit-immediately", "--config", "mini.yaml", "--config", "agent.step_limit=40", "--model", "openai/scripted-1", "--task", task]  # fmt: skip

    def finish(self, text):
        return self.act(text, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


class Smolagents(Agent):
    """smolagents' agent that writes Python; a result comes back as a message of the user."""

    name = "smolagents"
    package = Package("pypi", "smolagents", "1.26.0", ("openai",))

    def set_up(self, home, project, root):
        return {"OPENAI_BASE_URL": f"{root}/v1", "OPENAI_API_KEY": KEY}

    def command(self, task):
        return ["python", str(Path(__file__).with_name("smolagents_agent.py")), task]

    def act(self, text, command):
        run = f"subprocess.run({command!r}, shell=True, capture_output=True, text=True)"
        return Reply(text=f"{text}\n<code>\nimport subprocess\nprint({run})\n</code>")

    def finish(self, text):
        return Reply(text=f"{text}\n<code>\nfinal_answer({text!r})\n</code>")

    def is_main(self, ask):
        return True

    def results(self, ask):
        said = (m["content"] for m in ask.conversation() if m["role"] == "user")
        texts = (content if isinstance(content, str) else "".join(part["text"] for part in content) for content in said)  # fmt: skip
        return [text for text in texts if text.startswith("Observation:")]


class OpenHands(Agent):
    name = "openhands"
    package = Package("pypi", "openhands", "1.16.0", python="3.12")
    shell = "terminal"

    def set_up(self, home, project, root):
        return {
            "LLM_MODEL": "openai/scripted-1",
            "LLM_API_KEY": KEY,
            "LLM_BASE_URL": f"{root}/v1",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def command(self, task):
        return ["openhands", "--headless", "--override-with-envs", "--exit-without-confirmation", "--task", task]  # fmt: skip

    def arguments(self, command):
        return {"command": command, "security_risk": "LOW"}


AGENTS = {
    agent.name: agent
    for agent in (
        ClaudeCode(),
        Codex(),
        OlderCodex(),
        LoggedInCodex(),
        OpenCode(),
        Hermes(),
        Gemini(),
        Pi(),
        Aider(),
        MiniSweAgent(),
        Smolagents(),
        OpenHands(),
    )
}
CHOSEN = os.environ.get("AGENTS", "").replace(",", " ").split() or [*AGENTS]


def chosen(*names):
    """Those of these agents that shall run, each as a parameter of a test."""
    return [pytest.param(AGENTS[name], id=name) for name in names if name in CHOSEN]
