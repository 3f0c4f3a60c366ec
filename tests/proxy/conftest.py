"""A scripted upstream and the proxy in front of it, both on loopback, in one background loop."""

import asyncio
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from io import StringIO
from itertools import count

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.proxy.upstream import Upstream
from tests.waiting import MOST_S

from millgate.guard.policy import GuardPolicy
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy.app import routes
from millgate.service.proxy.proxy import Proxy
from millgate.types.policy import ProxyPolicy, UpstreamPolicy


class Loop:
    """An event loop in a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work, within_s=120):
        """The work's result; if it does not come, an error that says where the loop and its tasks stand."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(within_s)
        except TimeoutError:
            if future.done():
                raise
            pytest.fail(f"nothing came within {within_s} s\n{self._where()}")

    def _where(self):
        frame = sys._current_frames().get(self.thread.ident)
        loop = "".join(traceback.format_stack(frame)) if frame else "its thread has ended\n"
        tasks = StringIO()
        for task in asyncio.all_tasks(self.loop):
            task.print_stack(file=tasks)
        return f"the loop:\n{loop}the tasks:\n{tasks.getvalue()}"

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(MOST_S)
        self.loop.close()


@dataclass
class Served:
    """A proxy that is served: its address, and what it was made of."""

    url: str
    proxy: Proxy
    calls: list

    @property
    def reports(self):
        return [call.report for call in self.calls if call.report]


class Observer:
    """Keeps the calls."""

    def __init__(self):
        self.calls = []

    def count_context(self, context):
        pass

    def observe(self, exchange):
        self.calls.append(exchange.call)


def with_key(app, key):
    """The application as the service serves it to a caller with this key."""
    caller = Caller("default", frozenset({"proxy"}), key)

    async def serve(scope, receive, send):
        if scope["type"] == "http":
            scope["millgate"] = RequestState("r", scope["method"], caller=caller)
        await app(scope, receive, send)

    return serve


class ProxyRig:
    """Makes proxies and serves them until the session ends."""

    def __init__(self):
        self.background = Loop()
        self.run = self.background.run
        self.upstream = self.run(Upstream().start())
        self.names = count()
        self._proxies, self._stops = [], []

    def name(self):
        return f"model-{next(self.names)}"

    def script(self, *calls):
        """A model of its own for one test."""
        name = self.name()
        self.upstream.script(name, *calls)
        return name

    def serve(self, policy=None, guard=None, *, key="", **more):
        """A proxy in a small application, until the session ends; with a key, every caller has it."""
        observer = Observer()

        async def own(request):
            return JSONResponse({"ours": True})

        async def made():
            given = policy or ProxyPolicy(
                upstreams={"main": self.at(idle_s=5, answer_s=5, connect_s=5)}
            )
            limits = guard or GuardPolicy(keep_alive_s=0.25)
            return Proxy(given, limits, observer=observer, **more)

        proxy = self.run(made())
        self._proxies.append(proxy)
        app = Starlette(routes=[Route("/v1/strategy", own), *routes(proxy)])
        url, stop = self.app(with_key(app, key) if key else app)
        self._stops.append(stop)
        return Served(url, proxy, observer.calls)

    def app(self, app):
        """Serve an application: its address, and how to end it."""

        async def begin():
            config = uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                loop="none",
                log_level="critical",
                timeout_graceful_shutdown=1,
            )
            server = uvicorn.Server(config)
            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            task = asyncio.create_task(server._serve([sock]))
            while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
            return f"http://127.0.0.1:{sock.getsockname()[1]}", server, task, sock

        url, server, task, sock = self.run(begin())

        async def end():
            server.should_exit = True
            await task
            sock.close()

        return url, lambda: self.run(end())

    def at(self, **more):
        return UpstreamPolicy(url=f"http://127.0.0.1:{self.upstream.port}/v1", **more)

    def close(self):
        async def end():
            for proxy in self._proxies:
                await proxy.close()
            await self.upstream.stop()
            await asyncio.sleep(0)

        for stop in self._stops:
            stop()
        self.run(end())
        self.background.close()


@pytest.fixture(scope="session")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@pytest.fixture(scope="session")
def served(rig):
    return rig.serve()


@pytest.fixture
def upstream(rig):
    return rig.upstream
