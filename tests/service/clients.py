"""Clients of a service: in this process, and of a real one on a loopback port."""

import threading
from contextlib import contextmanager

import httpx2
import uvicorn
from tests.waiting import MOST_S, until

from millgate.service.server import bind, configure


def connected(app, *, key="", address="127.0.0.1", host="localhost", raising=True):
    """A client of an app in this process, from some address, with a key or without."""
    transport = httpx2.ASGITransport(app, client=(address, 1), raise_app_exceptions=raising)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


@contextmanager
def served(settings):
    """A real server on a port that the system chose: its address and the server itself."""
    with bind(settings.service) as listener:
        server = uvicorn.Server(configure(settings))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            assert server.started
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(MOST_S)
            assert not thread.is_alive()
