"""An upstream over HTTP/2: one connection, many streams, each ended on its own."""

import asyncio
import json

import h2.config
import h2.connection
import h2.events
import pytest
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, said

from headgate.policy import ProxyPolicy, UpstreamPolicy


class Http2Upstream(asyncio.Protocol):
    """Speaks HTTP/2 from the first byte; what it says is by model."""

    links = 0
    resets = 0
    scripts: dict = {}  # noqa: RUF012  # shared by its connections

    def connection_made(self, transport):
        type(self).links += 1
        self.transport = transport
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.bodies, self.left = {}, {}
        self.h2.initiate_connection()
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.bodies.setdefault(event.stream_id, []).append(event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.answer(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                type(self).resets += 1
                self.left.pop(event.stream_id, None)
        self.flush()

    def answer(self, stream):
        model = json.loads(b"".join(self.bodies.pop(stream)))["model"]
        calls = self.scripts[model]
        script, endless = calls.pop(0) if len(calls) > 1 else calls[0]
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        self.left[stream] = (bytearray(b"".join(script)), endless)

    def flush(self):
        for stream, (data, endless) in list(self.left.items()):
            while data and (room := min(self.h2.local_flow_control_window(stream), 16384)):
                self.h2.send_data(stream, bytes(data[:room]))
                del data[:room]
            if not data and not endless:
                self.h2.end_stream(stream)
                del self.left[stream]
        self.transport.write(self.h2.data_to_send())


@pytest.fixture(scope="module")
def served(rig):
    async def begin():
        return await asyncio.get_running_loop().create_server(Http2Upstream, "127.0.0.1", 0)

    server = rig.run(begin())
    port = server.sockets[0].getsockname()[1]
    upstream = UpstreamPolicy(url=f"http://127.0.0.1:{port}/v1", http2=True)
    yield rig.serve(ProxyPolicy(upstreams={"main": upstream}))
    rig.background.loop.call_soon_threadsafe(server.close)


def post(served, model):
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return web.post(f"{served.url}/v1/chat/completions", json=body, timeout=20)


def test_streams_share_a_connection_and_arrive_byte_for_byte(served):
    script = said(*PROSE)
    Http2Upstream.scripts["clean"] = [(script, False)]
    for _ in range(5):
        assert post(served, "clean").content == b"".join(script)
    assert Http2Upstream.links == 1


def test_a_loop_resets_its_stream_and_goes_on_over_the_same_connection(served):
    Http2Upstream.scripts["loop"] = [(said(*LOOP)[:-2], True), (said("Well."), False)]
    got = post(served, "loop")
    assert "Well." in got.text
    assert got.text.endswith("[DONE]\n\n")
    assert (Http2Upstream.resets, Http2Upstream.links) == (1, 1)


def test_a_server_that_does_not_speak_it_is_an_error(rig):
    policy = ProxyPolicy(upstreams={"main": rig.at(http2=True, answer_s=2)})
    got = post(rig.serve(policy), rig.script(said("x")))
    assert got.status_code in (502, 504)
    assert got.json()["error"]["type"] == "upstream_error"
