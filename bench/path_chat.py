"""How far a reader must walk: functions and files of ours that one streamed chat request runs in a gateway.

    make bench-path      prints it behind README's example

The gateway serves in this process, on a real socket; the model behind it is a server too. No feature is on but the
guard, metrics and the trace. The first request of a process imports and connects, so the third one is counted.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import httpx2
import uvicorn

CHUNK = 'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%s "},"finish_reason":%s}]}\n\n'
WORDS = [
    "The",
    "keeper",
    "opens",
    "the",
    "gate",
    "at",
    "dawn",
    "and",
    "walks",
    "along",
    "the",
    "dike",
    "until",
    "the",
    "lower",
    "meadow",
    "is",
    "dry",
    "again",
]
"""Of the answer: each comes when the one before it has reached the client."""


class Model:
    """A model service that sends a word when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import asyncio

        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for word in WORDS:
            await asyncio.to_thread(self.go.acquire)
            body = (CHUNK % (word, "null")).encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.to_thread(self.go.acquire)
        end = (CHUNK % (".", '"stop"')).encode() + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": end})


def serve(app: Any) -> tuple[uvicorn.Server, threading.Thread, str]:
    """Serve an application in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    return server, thread, f"http://127.0.0.1:{listener.getsockname()[1]}"


def count_chat(home: str) -> dict[str, set[tuple[str, str]]]:
    """What runs before the first chunk, at most for one in the middle, and after the last."""
    from millgate.service.app import from_settings
    from millgate.settings import load

    model = Model()
    upstream, upstream_thread, upstream_url = serve(model)
    arguments = {
        "store": ":memory:",
        "proxy": {"upstreams": {"main": {"url": f"{upstream_url}/v1"}}},
    }
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(home)
            and not code.co_name.startswith("<")
        ):
            seen.add((code.co_filename.removeprefix(f"{home}/"), code.co_qualname))

    def taken() -> set[tuple[str, str]]:
        found = set(seen)
        seen.clear()
        return found

    threading.setprofile(note)
    gateway, gateway_thread, url = serve(from_settings(load(arguments=arguments)))
    parts: dict[str, set[tuple[str, str]]] = {}
    try:
        for _ in range(3):
            parts = ask(f"{url}/v1/chat/completions", model, taken)
    finally:
        threading.setprofile(None)
        for server, thread in ((gateway, gateway_thread), (upstream, upstream_thread)):
            server.should_exit = True
            thread.join()
    return parts


def ask(
    url: str, model: Model, taken: Callable[[], set[tuple[str, str]]]
) -> dict[str, set[tuple[str, str]]]:
    """One streamed request; what ran in each part of it."""
    fields = {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": "Who opens the gate?"}],
    }
    taken()
    chunks: list[set[tuple[str, str]]] = []
    model.go.release()  # the head comes with the first chunk
    with httpx2.stream("POST", url, json=fields, timeout=30) as reply:
        arrived = reply.iter_bytes()
        for _ in WORDS:
            next(arrived)
            chunks.append(taken())
            model.go.release()
        for _ in arrived:
            pass
    often = Counter(frozenset(chunk) for chunk in chunks[1:]).most_common(1)[0][0]
    return {"request": chunks[0], "chunk": set(often), "end": taken()}
