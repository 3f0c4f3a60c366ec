"""OpenAI: what the context left out is told, and the answer is a real call of the openai package."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from millgate import Millgate

try:
    from openai import OpenAI
except ModuleNotFoundError:
    raise SystemExit("this example needs the openai package: pip install openai") from None

ROWS = [
    {"id": "policy", "text": "Refunds are paid within 14 days to the card that was charged."},
    {"id": "steps", "text": "To get a refund the customer sends the order number."},
]


def main() -> None:
    window = [
        {"role": "user", "content": "Refunds are paid within 14 days to the card that was charged."}
    ]
    question = "What does the customer send to get a refund?"
    with Millgate.open(":memory:") as gate, small_model() as url:  # yours is the API: OpenAI()
        gate.add(ROWS)
        context = gate.context(question, window=window, budget=200)
        messages = [*window, {"role": "user", "content": f"{context}\n\n{question}"}]
        client = OpenAI(base_url=url, api_key="none")
        answer = client.chat.completions.create(model="gpt-5-mini", messages=messages)
        print(answer.choices[0].message.content)
        print("left out: policy,", context.why("policy")[-1].reason)
        client.close()


# -- what follows only stands in for a model: a server on this machine with one answer --

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "small",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "The order number [1]."},
        }
    ],
}


class SmallModel(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        data = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def small_model() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallModel)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    main()
