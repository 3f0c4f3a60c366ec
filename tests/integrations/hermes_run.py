"""Runs the real hermes-agent against a scripted model on loopback, and prints what happened as JSON.

    python hermes_run.py SCENARIO HOME

Each scenario is a function below. HOME is an empty folder that becomes hermes-agent's home.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LENGTH = 100_000  # tokens of the scripted model's window
RULE = "Never paint the weir red without my word."
FACT = "The safe of the mill stands behind the Vermeer."
QUESTION = "Where did I say that the safe of the mill stands?"


class Model:
    """A model that answers every call in one sentence, keeps what it was sent, and says how many tokens that was."""

    def __init__(self):
        self.requests, self.prompt_tokens = [], 1000
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(
                    {"object": "list", "data": [{"id": "scripted", "context_length": LENGTH}]}
                )

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "messages" in body:
                    model.requests.append(body)
                self.stream() if body.get("stream") else self.reply(model.answer())

            def reply(self, data):
                self.send(json.dumps(data).encode(), "application/json")

            def stream(self):
                whole = model.answer()
                choice = whole["choices"][0]
                parts = [
                    {**whole, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
                    {**whole, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                ]  # fmt: skip
                del parts[0]["usage"]
                text = "".join(f"data: {json.dumps(part)}\n\n" for part in parts)
                self.send(f"{text}data: [DONE]\n\n".encode(), "text/event-stream")

            def send(self, content, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self):
        usage = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": 5,
            "total_tokens": self.prompt_tokens + 5,
        }
        message = {"role": "assistant", "content": "I see."}
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }  # fmt: skip


def configure(home, *, provider="millgate", engine="millgate", compression=True):
    """Write hermes-agent's configuration."""
    config = {
        "model": {"context_length": LENGTH},
        "memory": {"provider": provider},
        "context": {"engine": engine},
        "compression": {"enabled": compression},
        "plugins": {"enabled": ["millgate"]},
    }
    Path(home, "config.yaml").write_text(json.dumps(config))  # JSON is YAML


def start(model, session="monday", **given):
    """An agent of hermes-agent's own."""
    from run_agent import AIAgent

    return AIAgent(
        base_url=model.url, api_key="none", provider="custom", model="scripted", quiet_mode=True,
        enabled_toolsets=[], session_id=session, skip_context_files=True, max_iterations=3, **given,
    )  # fmt: skip


def install(home):
    from millgate.cli import main

    try:
        main(["hermes", "install", "--home", str(home), "--json"])
    except SystemExit as ended:
        if ended.code:
            raise


def text_of(request):
    return "\n".join(str(message.get("content")) for message in request["messages"])


def find(home):
    """Whether hermes-agent finds the memory provider: before it is installed, after that, and when it is taken out."""
    from hermes_cli.plugins import get_plugin_context_engine
    from plugins.memory import discover_memory_providers, load_memory_provider

    configure(home)
    found = [load_memory_provider("millgate") is not None]
    install(home)
    provider = load_memory_provider("millgate")
    found.append(provider is not None and provider.is_available())
    listed = {name: (text, there) for name, text, there in discover_memory_providers()}
    engine = get_plugin_context_engine()
    from millgate.integrations.hermes.install import plugin_folder, uninstall

    uninstall(plugin_folder(Path(home)))
    found.append(load_memory_provider("millgate") is not None)
    return {"found": found, "listed": listed.get("millgate"), "engine": engine and engine.name}


def compress(home, provider="millgate", engine="millgate"):
    """A fact from before a compression, asked for after it."""
    configure(home, provider=provider, engine=engine)
    install(home)
    model = Model()
    agent = start(model)
    history = [
        {"role": "user", "content": "Hello, who are you?"},
        {"role": "assistant", "content": "Your agent."},
    ]
    history += [
        {"role": "user", "content": "Let us talk."},
        {"role": "assistant", "content": "Gladly."},
    ]
    history += [{"role": "user", "content": FACT}, {"role": "assistant", "content": "I see."}]
    for n in range(30):
        history += [
            {"role": "user", "content": f"Board {n} of the weir: " + f"plank {n} is oiled. " * 800},
            {
                "role": "assistant",
                "content": f"Board {n} of the weir is noted, with plank {n}, its nails and its oil.",
            },
        ]
    history[-16:-16] = [
        {"role": "user", "content": RULE},
        {"role": "assistant", "content": "Good."},
    ]
    first = agent.run_conversation("Is board 12 of the weir oiled?", conversation_history=history)
    count = agent.context_compressor.compression_count
    second = agent.run_conversation(QUESTION, conversation_history=first["messages"])
    agent.run_conversation("Thanks, that is all.", conversation_history=second["messages"])
    # the built-in engine asks the model for a summary too
    turns = [request["messages"] for request in model.requests if request.get("tools") is None]
    turns = [messages for messages in turns if messages[0]["role"] == "system"]
    texts = [[str(message["content"]) for message in messages] for messages in turns]
    return {
        "engine": type(agent.context_compressor).__name__,
        "memory": [p.name for p in agent._memory_manager.providers]
        if agent._memory_manager
        else [],
        "compressions": count,
        "turns": len(turns),
        "history": len(history),
        "messages": [len(messages) for messages in turns],
        "moved": FACT not in texts[0],
        "notes": [text.partition("<ref")[0] for text in texts[0] if "moved to memory" in text],
        "recalled": "\n".join(texts[1]).count(FACT),
        "rules": [sum(text.count(RULE) for text in sent) for sent in texts],
        "prefix_stays": turns[2][: len(turns[1])] == turns[1],
    }


def pressure(home, engine="millgate"):
    """How much a prefetch gives, by how full the window is."""
    configure(home, engine=engine, compression=False)
    install(home)
    model = Model()
    agent = start(model)
    (provider,) = agent._memory_manager.providers
    for n in range(12):
        provider.gate.remember(f"Keeper {n} of the mill feeds the geese at {n} o'clock")
        provider.gate.remember(f"Board {n} of the weir was cut from an oak in {1900 + n}")
        provider.gate.remember(f"Ann {n} sings in the choir of the town")
    rows = [
        {
            "id": f"p{n}",
            "text": f"Page {n}. The mill of number {n} has geese, keepers and {n} wheels. "
            + " ".join(f"w{n}x{k}" for k in range(200)),
        }
        for n in range(20)
    ]
    provider.gate.add(rows)
    given = {}
    for percent in (10, 60, 74, 80, 90, 94, 96):
        model.prompt_tokens = percent * LENGTH // 100
        agent.run_conversation("Good day to you.")
        agent.run_conversation("What do you remember of the mill, its keepers and geese?")
        sent = model.requests[-1]["messages"][-1]["content"]
        given[percent] = [sent.count("(id "), provider.gate.count_tokens(sent) - 20]
    return {"engine": type(agent.context_compressor).__name__, "given": given}


SCENARIOS = {
    "find": find,
    "compress": compress,
    "compress-engine-alone": lambda home: compress(home, provider=""),
    "compress-memory-alone": lambda home: compress(home, engine="compressor"),
    "pressure": pressure,
    "pressure-built-in-engine": lambda home: pressure(home, engine="compressor"),
}

if __name__ == "__main__":
    scenario, home = sys.argv[1:]
    os.environ["HERMES_HOME"] = home
    result = SCENARIOS[scenario](home)
    print(json.dumps({"result": result}))
