"""`millgate demo`: what enters a window and what does not, a loop that is cut, and a circle that is broken.

The questions are about the project's own documentation. Each is asked twice: the second time a chunk of the first
answer is in the window, as it would be one turn later, and must not come again. With --serve the dashboard shows a
scripted support agent. Only its words, which stand in demo.json, are made up: its calls go through the real proxy to a
model on loopback that answers from the script, so every window, cut, note and cap is one that happened.
"""

import json
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import metadata
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any

import click

from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import annotate, describe, find_steps
from millgate.cli.options import json_option, shipped
from millgate.cli.service import address_of, open_page, service_module
from millgate.cli.terminal import echo, print_json
from millgate.errors import NotFound
from millgate.explain.as_data import context_data
from millgate.gateway import Millgate
from millgate.guard import Guard
from millgate.ingest.load import Summary
from millgate.knowledge.review import ReviewPolicy
from millgate.settings import Settings
from millgate.spending.spending import CapPolicy, FusePolicy
from millgate.types import Chunk, Context, Edge
from millgate.types.policy import ProxyPolicy, ServicePolicy, UpstreamPolicy

SCRIPT = json.loads(Path(__file__).with_name("demo.json").read_text(encoding="utf-8"))
"""What is asked, said and stored. `rank` says which chunk of a first answer the window holds: the second best, so that
the best one enters, or the best, which says all of it, so that nothing does."""
BUDGET = 500
PAGE = "start.md"  # read beside the README, which every installation has; pyproject.toml puts it into the package
LEFT_OUT = 3  # chunks that did not enter, listed for a question: enough to see the reasons
PIECE = 6  # characters that a model sends at a time


@click.command(epilog="Example: millgate demo --serve --open")
@click.option(
    "--serve", "serves", is_flag=True, help="Serve the dashboard with a scripted session in it."
)
@click.option("--port", type=int, default=0, help="Port for --serve (default: a free one).")
@click.option(
    "--open", "opens", is_flag=True, help="With --serve, open the dashboard in a browser."
)
@json_option
def demo(serves: bool, port: int, opens: bool, as_json: bool) -> None:
    """Show Millgate at work on its own documentation. Needs no network, no model and no settings."""
    if serves:
        serve_script(port=port, opens=opens)
        return
    with Millgate.open(":memory:") as gate:
        added = add_docs(gate)
        asked = [ask(gate, **one) for one in SCRIPT["asked"]]
    loop, circle = cut_and_resume(), break_circle()
    if as_json:
        told = [context_data(made, debug=True) for _, made in asked]
        print_json({"documents": added.documents, "questions": told, "loop": loop, "circle": circle})  # fmt: skip
        return
    echo(f"On the way in. {added.documents} pages of Millgate's own documentation, {added.chunks} chunks.")  # fmt: skip
    for seen, made in asked:
        _print_question(seen, made)
    echo(f"\nOn the way out. A model is asked: {SCRIPT['loop']['question']}")
    _row("would send", f"{len(SCRIPT['loop']['sends']):,} characters, one sentence over and over")
    _row("stopped", f"after {loop['read_chars']}: {loop['cuts'][0]['reason']}")
    _row("is told", loop["asked"])
    for line in loop["text"].splitlines():
        _row("sent in all", line)
    _row("", "Two copies of the sentence stay: only the second shows that it loops.")
    echo("\nBetween the turns. An agent makes the same two calls again and again.")
    for call in circle["calls"][:2]:
        _row("calls", call)
    at, note = circle["notes"][0]
    _row("is told", f"with the result in message {at}: {note}")
    _row("", "After the eighth round the turn ends with a message to the person.")
    own = Path(sys.argv[0])  # named by its path unless it is the one that a shell finds
    found = which("millgate")
    called = own.name == "millgate" and not (found and Path(found) == own.absolute())
    me = str(own) if called else "millgate"
    echo(f"\nNext\n  {me} add YOUR_FOLDER\n  {me} context 'YOUR QUESTION' --explain\n  {me} why last CHUNK")  # fmt: skip


def add_docs(gate: Millgate) -> Summary:
    """Add the README and the documentation that comes with the package, or stands beside it in a checkout."""
    page = shipped(f"docs/{PAGE}")
    if page is None:
        raise NotFound("the documentation is not installed", hint="in the clone of the repository: pip install --force-reinstall .")  # fmt: skip
    readme = {"id": "README.md", "text": metadata("millgate")["Description"]}
    return gate.add([readme, {"id": f"docs/{PAGE}", "text": page.read_text(encoding="utf-8")}])


def ask(gate: Millgate, question: str, rank: int) -> tuple[Sequence[Chunk], Context]:
    """Ask a question with a chunk of its first answer in the window: that chunk, and what came."""
    seen = gate.context(question, budget=BUDGET).chunks[rank : rank + 1]
    window = [{"role": "user", "content": question}] + [{"role": "tool", "content": chunk.text} for chunk in seen]  # fmt: skip
    return seen, gate.context(question, window=window, budget=BUDGET)


def _print_question(seen: Sequence[Chunk], made: Context) -> None:
    echo(f"\n{made.trace.request.query}")
    for chunk in seen:
        _row("in the window", _name(chunk))
    for number, chunk in enumerate(made.chunks, 1):
        _row("enters", f"[{number}] {_name(chunk)}: {made.why(chunk.id)[-1].reason}")
    dropped = [c for c in made.trace.candidates if c.dropped]
    # what is in the window first, then what got as far as the grader
    dropped.sort(key=lambda c: (c.chunk not in seen, c.notes[-1].stage != "grade"))
    for candidate in dropped[:LEFT_OUT]:
        last = candidate.notes[-1]
        _row("stays out", f"{_name(candidate.chunk)}: {last.stage}: {last.reason_with_numbers}")
    rest = Counter(c.notes[-1].stage.value for c in dropped[LEFT_OUT:])
    others = ", ".join(f"{count} at {stage}" for stage, count in rest.most_common())
    _row("", f"{made.token_estimate} of {BUDGET} tokens; others left out: {others or 'none'}")


def _name(chunk: Chunk) -> str:
    return f"{chunk.id} ({chunk.title.rpartition(' > ')[2]})" if chunk.title else chunk.id


def _row(label: str, text: str) -> None:
    if text:
        echo(fill(text, 100, initial_indent=f"  {label:<15}", subsequent_indent=" " * 17))


def cut_and_resume() -> dict[str, Any]:
    """Run a looping stream through the guard; the second call of the model goes on where the first was cut."""
    script, calls, read = SCRIPT["loop"], list[Sequence[Mapping[str, Any]]](), 0

    def generate(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        nonlocal read
        calls.append(messages)
        text = script["sends" if len(calls) == 1 else "resumes"]
        for at in range(0, len(text), PIECE):
            read += PIECE if len(calls) == 1 else 0
            yield text[at : at + PIECE]

    guard = Guard(generate)
    text = "".join(piece.text for piece in guard.iterate(script["question"]))
    assert guard.report is not None
    cuts = [asdict(cut) for cut in guard.report.cuts]
    return {"text": text, "cuts": cuts, "read_chars": read, "asked": str(calls[-1][-1]["content"])}


def break_circle() -> dict[str, Any]:
    """Let an agent read the same missing file again and again: its calls, and what it is told at which message."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the failing build."}]
    calls = [SCRIPT["circle"][turn % 2] for turn in range(8)]
    for turn, made in enumerate(calls):
        result = made["result"].format(turn=turn)
        messages += _messages_of(f"c{turn}", made["name"], made["arguments"], result)
    found = find_steps(messages, CirclesPolicy())
    assert annotate(messages, found.marks) != messages
    return {
        "calls": [f"{made['name']} {made['arguments']}" for made in calls],
        "notes": [(mark.at, describe(mark)) for mark in found.marks],
    }


def _messages_of(id: str, name: str, arguments: str, result: str) -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]


# --serve


def conversations() -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Each call of the scripted agent: its messages, and the answers of the model, more than one if the first loops."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SCRIPT["system"]}]
    for number, event in enumerate(SCRIPT["session"]):
        if "human" in event:
            messages.append({"role": "user", "content": event["human"]})
        elif "compacts" in event:
            messages[1:] = [{"role": "user", "content": event["compacts"]}]
        elif "says" in event:
            yield list(messages), [{"content": said} for said in event["says"]]
            messages.append({"role": "assistant", "content": event["says"][-1].strip()})
        else:
            used = _messages_of(f"call_{number}", event["uses"], json.dumps(event["arguments"]), event["result"])  # fmt: skip
            yield list(messages), [{"tool_calls": [{"index": 0, **used[0]["tool_calls"][0]}]}]
            messages += used


class ScriptedModel(ThreadingHTTPServer):
    """A model service that answers each call with the next answer of the script, then with the last one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.answers = [answer for _, answers in conversations() for answer in answers]
        self.lock = threading.Lock()


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def do_POST(self) -> None:
        """Stream an answer as chat completions do, some characters at a time."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.lock:
            answers = self.server.answers
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        text = answer.get("content", "")
        deltas = [{"content": text[at : at + PIECE]} for at in range(0, len(text), PIECE)] or [answer]  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(OSError):  # the guard hangs up on a loop
            for delta in deltas:
                self._send(delta)
            self._send({}, "stop" if text else "tool_calls")
            self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "demo", "object": "chat.completion.chunk", "model": "demo-model", "choices": [choice]}  # fmt: skip
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the service's own log is what a newcomer should see."""


@contextmanager
def demo_settings(port: int) -> Iterator[Settings]:
    """The settings of a service for the demo: a filled store in a folder of its own, and the scripted model."""
    with TemporaryDirectory(prefix="millgate-demo-") as folder, ScriptedModel() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        upstream = UpstreamPolicy(url=f"http://127.0.0.1:{model.server_port}/v1")
        settings = Settings(
            store=folder,
            service=ServicePolicy(port=port, log=False),
            proxy=ProxyPolicy(upstreams={"demo": upstream}),
            fuse=FusePolicy(caps={"session": CapPolicy(tokens=30_000)}),
            review=ReviewPolicy(on_refusal=True),
        )
        with Millgate.open(settings=settings) as gate:
            gate.add(SCRIPT["documents"])
            for fact in SCRIPT["facts"]:
                id = gate.remember(fact["content"], tags=fact["tags"]).fact.id
                for helpful in fact["votes"]:
                    gate.feedback(id, helpful=helpful)
            gate.graph.link(Edge(*edge) for edge in SCRIPT["edges"])
        try:
            yield settings
        finally:
            model.shutdown()


def play(url: str) -> None:
    """Play the script against the service at this address."""
    for question in SCRIPT["questions"]:
        _post(f"{url}/v1/context", {"session_id": "support", **question})
    asked = {"model": "demo-model", "stream": True, "max_tokens": 1000, "tools": SCRIPT["tools"]}
    for messages, _ in conversations():
        _post(f"{url}/v1/chat/completions", asked | {"messages": messages}, SCRIPT["headers"])


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str] = {}) -> None:
    given = {"content-type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), given)  # noqa: S310  (our own address)
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        reply.read()


def serve_script(*, port: int, opens: bool) -> None:
    """Serve the dashboard, with the scripted session played into it meanwhile, until stopped."""
    server = service_module()
    with demo_settings(port) as settings, server.bind(settings.service) as listener:
        url = address_of(listener)
        echo(f"The dashboard is at {url}")  # no full stop: a terminal would take it into the link
        echo("It shows a scripted session, which is being played now.")
        echo("Stop it with Ctrl-C; its store is deleted then.")

        def run() -> None:
            try:
                play(url)
            except OSError as error:
                echo(f"the demo session stopped before its end: {error}", err=True)

        threading.Thread(target=run, daemon=True).start()
        if opens:
            open_page(url)
        server.serve(settings, listener)
