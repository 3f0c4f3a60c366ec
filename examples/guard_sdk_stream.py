"""Guard the stream of the openai package: a loop is cut, the model goes on, and the chunks stay the SDK's own."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from millgate.guard import adapters

try:
    from openai import AsyncOpenAI
except ModuleNotFoundError:
    raise SystemExit("this example needs the openai package: pip install openai") from None


async def main() -> None:
    with small_model() as url:  # yours is the API: AsyncOpenAI()
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            messages = [{"role": "user", "content": "Describe the harbor."}]
            stream = adapters.chat(client, model="small", messages=messages)
            async for chunk in stream:
                print(chunk.choices[0].delta.content or "", end="")
            print(f"\n{stream.report.rollbacks} rollback, {stream.report.cut_chars} characters cut")


# -- what follows only stands in for a model: a server on this machine whose first answer loops --

LINE = "The boats rise and fall with the tide, and the gulls follow them out to sea. "
ANSWERS = [["The harbor wakes early. ", *[LINE] * 40], ["At noon all is quiet."]]


class SmallModel(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(ConnectionError):  # the guard hangs up on a loop
            for text in ANSWERS.pop(0):
                choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
                event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": [choice]}  # fmt: skip
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


@contextmanager
def small_model() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallModel) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


asyncio.run(main())
