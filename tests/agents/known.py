"""The agents that we run: how each is installed, set up in a clean home, and told to do its task."""

import json
from dataclasses import dataclass

from tests.agents.apis import Reply
from tests.agents.install import Package

KEY = "sk-of-nobody-0000000000000000000000000000"


@dataclass(frozen=True)
class Agent:
    """An agent; what is here fits most of them."""

    name: str
    package: Package
    shell: str  # the name of its tool for commands

    def set_up(self, home, project, root):
        """Write the configuration with which a user would send its calls to `root`; the variables that it needs."""
        return {}

    def command(self, task):
        """The command that does a task without asking anybody."""
        raise NotImplementedError

    def arguments(self, command):
        """The arguments of its tool for commands."""
        return {"command": command}

    def act(self, text, command):
        """A reply that runs a command."""
        return Reply(text=text, calls=((self.shell, self.arguments(command)),))

    def is_main(self, ask):
        """Whether a request is of the main loop, and not for a title or the like."""
        return bool(ask.tools())

    def beside(self, ask):
        """The answer to a request beside the main loop."""
        return Reply(text="A list of three words")

    def results(self, ask):
        """The results of tools that the conversation has."""
        return ask.results()


class ClaudeCode(Agent):
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

    model = ""

    def set_up(self, home, project, root):
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(
            f'openai_base_url = "{root}/v1"\n{self.model}'
            "check_for_update_on_startup = false\n"
            "[analytics]\nenabled = false\n"
        )
        return {"OPENAI_API_KEY": KEY, "CODEX_API_KEY": KEY}

    def command(self, task):
        return ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", task]  # fmt: skip

    def arguments(self, command):
        return (
            f"const done = await tools.exec_command({{cmd: {json.dumps(command)}}});\ntext(done);\n"
        )


class OlderCodex(Codex):
    """Codex with a model that calls each tool by itself."""

    model = 'model = "gpt-5.5"\n'

    def arguments(self, command):
        return {"cmd": command}


class OpenCode(Agent):
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

    def command(self, task):
        return ["opencode", "run", "--model", "anthropic/claude-sonnet-4-5", task]

    def arguments(self, command):
        return {"command": command, "description": "One step of the task"}


CODEX = Package("npm", "@openai/codex", "0.169.0")
AGENTS = {
    agent.name: agent
    for agent in (
        ClaudeCode("claude", Package("npm", "@anthropic-ai/claude-code", "2.1.327"), "Bash"),
        Codex("codex", CODEX, "exec"),
        OlderCodex("codex-gpt-5.5", CODEX, "exec_command"),
        # newer versions have no program for ARM processors without some instructions
        OpenCode("opencode", Package("npm", "opencode-ai", "1.18.18"), "bash"),
    )
}
