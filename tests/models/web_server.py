"""A small web for the tests: SearXNG-like searches and chat completions that behave well or badly, by path."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

CALLS = {"chat": 0, "now": 0, "most": 0}


def hits(query, count):
    return [
        {"url": f"https://example.org/{n}", "title": f"Hit {n}", "content": f"{query} number {n}"}
        for n in range(count)
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query).get("q", [""])[0]
        mode = url.path.split("/")[1]
        odd = [None, 7, {"url": "ftp://x", "content": "x"}, {"url": "https://example.org/0"}]
        page = "<html><body>Too many requests</body></html>"
        answers = {
            "calls": lambda: self.send(200, json.dumps(CALLS)),
            "ok": lambda: self.send(200, json.dumps({"results": odd + hits(query, 5) * 2})),
            "many": lambda: self.send(200, json.dumps({"results": hits(query, 10_000)})),
            "html": lambda: self.send(200, page, "text/html"),
            "list": lambda: self.send(200, "[1, 2]"),
            "nothing": lambda: self.send(200, ""),
            "loop": lambda: self.send(302, "", headers=[("location", self.path)]),
            "error": lambda: self.send(500, "down for repair", "text/plain"),
            "slow": lambda: (time.sleep(3), self.send(200, "{}")),
            "endless": self.endless,
        }
        answers[mode]()

    def endless(self):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" " * 65536)
        except OSError:
            self.close_connection = True

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length))
        mode = self.path.split("/")[1]
        CALLS["chat"] += 1
        CALLS["now"] += 1
        CALLS["most"] = max(CALLS["most"], CALLS["now"])
        user = body["messages"][-1]["content"]
        time.sleep(3 if mode == "slow" else 0.02)
        said = {
            "good": '{"relevance": 9}'
            if "refund" in user.split("Question:")[0]
            else '{"relevance": 1}',
            "prose": 'I think it is relevant. {"relevance": 10}',
            "garbage": "\x00\x01}{",
            "nothing": "",
            "half": '{"relevance": 8}' if "refund" in user.split("Question:")[0] else "no idea",
        }.get(mode, "{}")
        CALLS["now"] -= 1
        if mode == "error":
            self.send(500, "overloaded", "text/plain")
        else:
            self.send(200, json.dumps({"choices": [{"message": {"content": said}}]}))


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
