"""The real openai package, its stream guarded: a loop is cut and resumed, and the chunks stay the SDK's own."""

import asyncio
import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from openai import AsyncOpenAI

from headgate.guard import adapters

LINE = "The boats rise and fall with the tide, and the gulls follow them out to sea. "
ANSWERS = [["The harbor wakes early. ", *[LINE] * 40], ["At noon all is quiet."]]


class SmallModel(BaseHTTPRequestHandler):
    """A model server on this machine that loops the first time; yours is the API."""

    def do_POST(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(ConnectionError):  # the guard hangs up on a loop
            self.stream(ANSWERS.pop(0))

    def stream(self, answer):
        for text in answer:
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
            event = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "small",
                "choices": [choice],
            }
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallModel)
    Thread(target=server.serve_forever, daemon=True).start()
    async with AsyncOpenAI(
        base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none"
    ) as client:
        messages = [{"role": "user", "content": "Describe the harbor."}]
        async for chunk in adapters.chat(client, model="small", messages=messages):
            print(chunk.choices[0].delta.content or "", end="")
    print()
    server.shutdown()
    server.server_close()


asyncio.run(main())
