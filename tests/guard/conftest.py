"""A small HTTP server on loopback that streams scripted server-sent events, as model providers do."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Provider(ThreadingHTTPServer):
    """Answers each POST with the next script: an iterable of (event name or None, data) pairs, or a status."""

    daemon_threads = True

    def __init__(self, scripts):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts = iter(scripts)
        self.requests = []
        self.severed = 0
        self.finished = threading.Semaphore(0)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        server.requests.append(json.loads(body))
        script = next(server.scripts)
        if isinstance(script, int):
            self.send_error(script)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for name, data in script:
                head = f"event: {name}\n" if name else ""
                text = data if isinstance(data, str) else json.dumps(data)
                self.wfile.write(f"{head}data: {text}\n\n".encode())
                self.wfile.flush()
        except OSError:
            server.severed += 1
        finally:
            self.close_connection = True
            server.finished.release()


@pytest.fixture
def provider():
    """Start a scripted provider: `with provider(script, ...) as server`."""
    return running


@contextmanager
def running(*scripts):
    """The server, running in a thread until the block ends."""
    server = Provider(scripts)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
