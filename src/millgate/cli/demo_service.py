"""`millgate demo --serve`: the service over a store of its own, filled by playing a scripted session.

A model that answers from the script listens on loopback. The scripted agent talks to it through the proxy of the
service, so that the dashboard shows what really happened. The store is deleted when the service ends.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any

from millgate.cli import demo_script as script
from millgate.cli.service import address_of, open_page, service_module
from millgate.cli.terminal import echo
from millgate.gateway import Millgate
from millgate.knowledge.review import ReviewPolicy
from millgate.settings import Settings
from millgate.spending.spending import CapPolicy, FusePolicy
from millgate.types import Edge
from millgate.types.policy import ProxyPolicy, ServicePolicy, UpstreamPolicy

PIECE = 12  # characters of an event


class ScriptedService(ThreadingHTTPServer):
    """A model service that answers each call with the next stream of the script, then with the last one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self._streams = list(script.streams())
        self._lock = threading.Lock()

    def next_stream(self) -> "str | script.Uses":
        """What the next call sends."""
        with self._lock:
            return self._streams.pop(0) if len(self._streams) > 1 else self._streams[0]

    @property
    def url(self) -> str:
        """Its address, as an upstream has it."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedService

    def do_POST(self) -> None:
        """Stream an answer as chat completions do."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(OSError):  # the guard hangs up on a loop
            for event in _events(self.server.next_stream()):
                self.wfile.write(b"data: " + event.encode() + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the service's own log is what a newcomer should see."""


def _events(stream: "str | script.Uses") -> Iterator[str]:
    if isinstance(stream, script.Uses):
        yield _chunk({"tool_calls": [{"index": 0, **script.tool_call(stream, "call_0")}]})
        yield _chunk({}, "tool_calls")
    else:
        for at in range(0, len(stream), PIECE):
            yield _chunk({"content": stream[at : at + PIECE]})
        yield _chunk({}, "stop")
    yield "[DONE]"


def _chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "demo", "object": "chat.completion.chunk", "model": script.MODEL, "choices": [choice]})  # fmt: skip


@contextmanager
def demo_settings(port: int) -> Iterator[Settings]:
    """The settings of a service for the demo: a filled store in a folder of its own, and the scripted model."""
    with TemporaryDirectory(prefix="millgate-demo-") as folder, ScriptedService() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        settings = Settings(
            store=folder,
            service=ServicePolicy(port=port, log=False),
            proxy=ProxyPolicy(upstreams={"demo": UpstreamPolicy(url=model.url)}),
            fuse=FusePolicy(caps={"session": CapPolicy(tokens=30_000)}),
            review=ReviewPolicy(on_refusal=True),
        )
        with Millgate.open(settings=settings) as gate:
            fill(gate)
        try:
            yield settings
        finally:
            model.shutdown()


def fill(gate: Millgate) -> None:
    """Store what the shop knows before the session begins."""
    gate.add(script.DOCUMENTS)
    for content, tags, votes in script.FACTS:
        fact = gate.remember(content, tags=tags).fact
        for helpful in votes:
            gate.feedback(fact.id, helpful=helpful)
    gate.graph.link(Edge(*edge) for edge in script.EDGES)


def play(url: str) -> None:
    """Play the script against the service at this address."""
    for query, more in script.QUESTIONS:
        _post(f"{url}/v1/context", {"query": query, "session_id": "support", **more})
    for messages in script.conversations():
        body = {"model": script.MODEL, "stream": True, "max_tokens": 1000, "messages": messages, "tools": script.TOOLS}  # fmt: skip
        _post(f"{url}/v1/chat/completions", body, script.HEADERS)


def _post(url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"} | (headers or {}))  # noqa: S310  (our own address)  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        reply.read()


def play_aside(url: str) -> None:
    """Play the script in a thread while the service starts and serves; print an error if it breaks off."""

    def run() -> None:
        try:
            play(url)
        except OSError as error:
            echo(f"the demo session stopped before its end: {error}", err=True)

    threading.Thread(target=run, daemon=True).start()


def serve_script(*, port: int, opens: bool) -> None:
    """Serve the dashboard with the scripted session in it until stopped."""
    server = service_module()
    with demo_settings(port) as settings, server.bind(settings.service) as listener:
        url = address_of(listener)
        echo(f"The dashboard is at {url}")  # no full stop: a terminal would take it into the link
        echo("It shows a scripted session, which is being played now.")
        echo("Stop it with Ctrl-C; its store is deleted then.")
        play_aside(url)
        if opens:
            open_page(url)
        server.serve(settings, listener)
