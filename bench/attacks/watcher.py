"""What others feel beside an attack: a process that asks again and again, and prints when and for how long.

python bench/attacks/watcher.py health PORT PID         /healthz, over a new connection each time
python bench/attacks/watcher.py context PORT PID KEY    a context of another tenant
python bench/attacks/watcher.py stream PORT PID KEY     a stream of another tenant, from an honest model
python bench/attacks/watcher.py model                   that model: prints its port, and serves

PID is the service's. While its event loop or the watcher waits for a core, other programs have it: that time does not
count (Linux; elsewhere it does, so the machine must be quiet).
"""

import http.client
import json
import os
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

EVENTS, PAUSE_S = 20, 0.01  # of an honest stream: 0.2 s when nobody disturbs it
FAILED_S = 999.0
ASKS = {
    "health": ("GET", "/healthz", None),
    "context": ("POST", "/v1/context", {"query": "when do parcels leave the harbor?"}),
    "stream": ("POST", "/v1/chat/completions", {"model": "honest", "stream": True, "messages": [{"role": "user", "content": "hello"}]}),
}  # fmt: skip


class HonestModel(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(OSError):  # the watcher has ended
            self._speak()

    def _speak(self):
        for n in range(EVENTS):
            delta = {"choices": [{"index": 0, "delta": {"content": f"word {n} "}}]}
            self.wfile.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
            time.sleep(PAUSE_S)
        self.wfile.write(b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')  # fmt: skip

    def log_message(self, *_):
        pass


def waited_s(pid):
    """Seconds that the main thread of a process could have run and had no core."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def ask(kind, port, key):
    """Seconds of one request; FAILED_S if it was not served."""
    method, path, body = ASKS[kind]
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"} if key else {}
    began = time.perf_counter()
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        link.request(method, path, json.dumps(body) if body else None, headers)
        answer = link.getresponse()
        whole = answer.read()
        link.close()
    except (OSError, http.client.HTTPException):
        return FAILED_S
    is_good = answer.status == 200 and (kind != "stream" or b"[DONE]" in whole)
    return time.perf_counter() - began if is_good else FAILED_S


def main(kind, port="0", service="0", key=""):
    if kind == "model":
        model = ThreadingHTTPServer(("127.0.0.1", 0), HonestModel)
        print(model.server_port, flush=True)
        model.serve_forever()
    while True:
        now, before = time.monotonic(), waited_s(service) + waited_s(os.getpid())
        seconds = ask(kind, int(port), key)
        print(now, seconds - (waited_s(service) + waited_s(os.getpid()) - before), flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
