"""Record what agents send and keep: conversations with their own results, and transcripts in their own formats.

python -m tests.agents.record [NAME ...] writes `recordings/`, from runs without Millgate. Words of the agent's own that
are long, such as its system prompt, are cut out: they are not ours, and no test needs them.
"""

import contextlib
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

from tests.agents.known import AGENTS
from tests.agents.runs import Bed
from tests.agents.scenarios import SCENARIOS
from tests.agents.service import Service
from tests.agents.task import TASK

FOLDER = Path(__file__).with_name("recordings")
SCENARIOS_RECORDED = ("healthy", "circle")
LONG = 400  # characters; our own texts are shorter
# where each agent keeps its sessions, under its home or its project
TRANSCRIPTS = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/*.jsonl",
    "codex-gpt-5.5": ".codex/sessions/*/*/*/*.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
    "gemini": ".gemini/tmp/*/chats/*.json*",
    "pi": ".pi/agent/sessions/*/*.jsonl",
    "hermes": ".hermes/state.db",
    "mini-swe-agent": ".config/mini-swe-agent/last_mini_run.traj.json",
}
# what is of the agents' makers
OWN = ("tools", "shape", "instructions", "base_instructions", "system_prompt", "systemPrompt", "attachment", "state")  # fmt: skip
OWN_TEXT = "(the agent's own)"
TABLES = (
    "session",
    "message",
    "part",
    "sessions",
    "messages",
)  # of their databases, those with the conversation
SPOKEN = ("user", "assistant", "tool", "model")


def cut(value):
    """A value of JSON without long texts of the agent's own."""
    if isinstance(value, str):
        return _cut_text(value)
    if isinstance(value, list):
        return [cut(part) for part in value]
    if isinstance(value, dict):
        own = {*OWN, "content"} if value.get("role") in ("system", "developer") else OWN
        return {key: OWN_TEXT if key in own else cut(part) for key, part in value.items()}
    return value


def _cut_text(text):
    if len(text) <= LONG:
        return text
    try:
        inner = json.loads(text)
    except ValueError:
        inner = None
    if isinstance(inner, dict | list):
        return json.dumps(cut(inner))
    return f"({len(text)} characters of the agent's own)"


def conversation(call):
    """The conversation of a request: what was said and done, without instructions."""
    kept = []
    for message in call.ask.conversation():
        if message.get("role", "user") not in SPOKEN or message.get("type") == "additional_tools":
            continue
        said = json.dumps(message)
        if message.get("role") == "user" and TASK not in said and len(said) > LONG:
            continue  # what the agent tells the model about its surroundings
        kept.append(cut(message))
    return kept


def transcript(agent, home):
    """What the agent keeps of the session: lines of JSON, or the statements of a database."""
    paths = sorted(home.glob(TRANSCRIPTS[agent]), key=lambda path: path.stat().st_size)
    if not paths:
        return "", ""
    path = paths[-1]
    if path.suffix == ".db":
        return ".sql", "".join(dump(path))
    text = path.read_text()
    if path.suffix == ".jsonl":
        return ".jsonl", "".join(json.dumps(cut(json.loads(line))) + "\n" for line in text.splitlines())  # fmt: skip
    return ".json", json.dumps(cut(json.loads(text)), indent=1)


def dump(path):
    """The statements that make a small copy of a database, which has the conversation."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        for name, statement in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):  # fmt: skip
            if name not in TABLES:
                continue
            yield f"{statement};\n"
            for row in database.execute(f"SELECT * FROM {name}"):
                values = ", ".join(quoted(part) for part in cut(dict(row)).values())
                yield f"INSERT INTO {name} VALUES ({values});\n"


def quoted(value):
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"  # fmt: skip


def record(bed, name):
    agent = AGENTS[name]
    for scenario in SCENARIOS_RECORDED:
        if SCENARIOS[scenario].needs not in agent.can | {""}:
            continue
        outcome = bed.run(agent, SCENARIOS[scenario], "direct")
        last = outcome.play.main[-1]
        kept = {
            "agent": name,
            "version": agent.package.version,
            "path": last.sent.path,
            "messages": conversation(last),
        }
        _write(bed, f"{name}-{scenario}.json", json.dumps(kept, indent=1) + "\n")
        if name in TRANSCRIPTS and scenario == "healthy":
            suffix, text = transcript(name, bed.folder / "home")
            if text:
                _write(bed, f"{name}-transcript{suffix}", text)


def _write(bed, name, text):
    FOLDER.mkdir(exist_ok=True)
    text = text.replace(str(bed.folder), "/home/somebody")
    (FOLDER / name).write_text(text)
    print(f"{name}: {len(text):,} bytes", flush=True)


if __name__ == "__main__":
    service = Service()
    with tempfile.TemporaryDirectory() as folder:
        for given in sys.argv[1:] or AGENTS:
            record(Bed(Path(folder), service), given)
    service.close()
