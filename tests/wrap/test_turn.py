"""One model call of the agent, whatever the gateways do with it: who answers, and what the agent gets."""

import asyncio

import pytest
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestServer
from tests.waiting import MOST_S

from millgate.errors import UpstreamError
from millgate.service.edge.reply import BROKEN_OFF
from millgate.service.proxy.http_client import Address
from millgate.wrap.spec import GatewaySpec
from millgate.wrap.turn import AgentReply, AgentRequest, AgentTurn

STREAM = [(b"content-type", b"text/event-stream")]
HEADERS = [
    (b"authorization", b"Bearer of-the-agent"),
    (b"accept-encoding", b"gzip"),
    (b"x-millgate-guard", b"off"),
    (b"x-millgate-upstream", b"elsewhere"),
]


class Answer:
    """A response of these parts; an exception among them is raised."""

    def __init__(self, *parts, status=200):
        self.status, self.headers, self.parts, self.closed = status, STREAM, list(parts), False

    async def read(self, tick_s=None):
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    async def close(self):
        self.closed = True


class Upstream:
    """Gives its answers in turn, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def send(self, request):
        self.asked.append(request)
        return self.answers.pop(0)


class Gateway:
    """Does what it is told with the request; `calls` are the bodies that it sends on first."""

    def __init__(self, *parts, status=200, calls=(), alive=True, silent_s=0.0):
        self.answer, self.calls, self.alive = Answer(*parts, status=status), calls, alive
        self.silent_s, self.failed, self.headers = silent_s, asyncio.Event(), []
        self.heard, self.silence_s = 0, 0.4
        self.turn = None

    async def is_alive(self):
        if not self.alive:
            self.failed.set()
        return self.alive

    async def send(self, method, path, headers, body):
        self.headers.append(headers)
        for call in self.calls:
            recording = self.turn.call(call)
            await recording.head()
            while data := await recording.read(0):
                if len(data) == len(recording.body) and recording.ended:
                    break
                await asyncio.sleep(0)
        await asyncio.sleep(self.silent_s)
        return self.answer


class OneGateway:
    """The gateway that is there, if any, and those that were replaced or answered."""

    def __init__(self, gateway=None, **spec):
        self.spec, self.gateway = GatewaySpec(**spec), gateway
        self.replaced, self.answered, self.tasks = [], [], []

    async def find(self):
        return self.gateway

    async def replace(self, gateway):
        self.replaced.append(gateway)

    async def note_answer(self, gateway):
        self.answered.append(gateway)

    def do_aside(self, work):
        self.tasks.append(asyncio.ensure_future(work))


async def take(
    upstream,
    gateway=None,
    patience_s=5.0,
    body=b"{}",
    reply_class=AgentReply,
    read_when=None,
    fail_closed=False,
):
    """A turn over this gateway: the turn, the gateways, the status and the body that the agent got (None: broken).

    The agent reads its answer when the event `read_when` has come.
    """
    one, turns = OneGateway(gateway, patience_s=patience_s, fail_closed=fail_closed), []
    request = AgentRequest("POST", "/chat", HEADERS, body, Address("http", "127.0.0.1", 1))

    async def serve(http):
        reply = reply_class(http)
        turn = AgentTurn("7", request, reply, path="/v1/chat", gateways=one, transport=upstream)
        if gateway is not None:
            gateway.turn = turn
        turns.append(turn)
        await turn.serve()
        return reply.response

    app = web.Application()
    app.router.add_post("/", serve)
    async with (
        TestServer(app) as server,
        ClientSession() as client,
        client.post(server.make_url("/")) as reply,
    ):
        if read_when:
            await read_when.wait()
        try:
            got = await reply.read()
        except ClientError:
            got = None
        await asyncio.gather(*one.tasks)
        return turns[0], one, reply.status, got


async def test_a_gateway_that_answers_is_the_one_the_agent_hears():
    gateway = Gateway(b"one ", b"two")
    turn, gateways, status, got = await take(Upstream(), gateway)
    assert (turn.route, status, got) == ("guarded", 200, b"one two")
    assert (gateways.answered, gateway.heard, gateway.answer.closed) == ([gateway], 2, True)
    assert turn.gateway is None


async def test_the_gateway_gets_the_turns_name_and_what_the_agent_wants_of_it_but_no_key():
    gateway = Gateway(b"one")
    await take(Upstream(), gateway)
    (sent,) = gateway.headers
    assert (b"millgate-turn", b"7") in sent
    assert [value for name, value in sent if name == b"x-millgate-upstream"] == [b"wrapped"]
    assert [value for name, value in sent if name == b"x-millgate-guard"] == [b"off"]
    assert b"authorization" not in dict(sent)


async def test_an_error_of_the_gateways_own_sends_the_agent_straight_to_the_upstream():
    upstream = Upstream(Answer(b"from the model"))
    turn, gateways, status, got = await take(upstream, Gateway(b"oops", status=400), body=b"B")
    assert (turn.route, status, got) == ("straight", 200, b"from the model")
    assert (gateways.answered, gateways.replaced) == ([], [])
    (asked,) = upstream.asked
    assert (asked.body, asked.decompress) == (b"B", True)
    assert [v for k, v in asked.headers if k == b"accept-encoding"] == [b"identity"]
    assert (b"authorization", b"Bearer of-the-agent") in asked.headers


@pytest.mark.parametrize("status", [402, 429, 399])
async def test_a_cap_that_is_reached_and_what_is_no_error_are_the_agents_to_read(status):
    turn, _, got_status, got = await take(Upstream(), Gateway(b"a cap", status=status))
    assert (turn.route, got_status, got) == ("guarded", status, b"a cap")


async def test_an_error_that_the_upstream_gave_is_no_refusal_of_the_gateway():
    upstream = Upstream(Answer(b"bad request", status=400))
    gateway = Gateway(b"bad request", status=400, calls=[b"{}"])
    turn, _, status, got = await take(upstream, gateway)
    assert (turn.route, status, got) == ("guarded", 400, b"bad request")
    assert turn.ending == "400"


@pytest.mark.parametrize("has", [[], [b"one ", b"tw"]])
async def test_when_a_gateway_dies_the_upstreams_own_bytes_go_on_behind_the_last_byte(has):
    upstream = Upstream(Answer(b"one two three"))
    dead = Gateway(*has, UpstreamError("died"), alive=False, calls=[b"{}"])
    turn, gateways, _, got = await take(upstream, dead)
    assert (turn.route, got) == ("straight", b"one two three")
    assert len(upstream.asked) == 1
    assert (gateways.replaced, gateways.answered) == ([dead], [])


async def test_what_the_upstream_refused_before_it_answered_is_not_what_goes_on():
    upstream = Upstream(Answer(b"what is this?", status=400), Answer(b"one two"))
    dead = Gateway(UpstreamError("died"), alive=False, calls=[b"{}", b"{}"])
    turn, _, status, got = await take(upstream, dead)
    assert (turn.route, status, got) == ("straight", 200, b"one two")


async def test_a_gateway_that_died_before_it_asked_is_left_out():
    class Dead(Gateway):
        async def send(self, method, path, headers, body):
            raise UpstreamError("died")

    turn, gateways, _, got = await take(Upstream(Answer(b"straight")), Dead(alive=False))
    assert (turn.route, got, len(gateways.replaced)) == ("straight", b"straight", 1)


async def test_a_gateway_that_takes_its_time_is_not_waited_for():
    slow = Gateway(b"late", silent_s=30)
    turn, gateways, _, got = await take(Upstream(Answer(b"straight")), slow, patience_s=0.1)
    assert (turn.route, got, gateways.replaced) == ("straight", b"straight", [])


@pytest.mark.parametrize("gateway", [None, Gateway(alive=False, silent_s=30)])
async def test_where_every_call_must_be_counted_one_without_a_gateway_is_refused(gateway):
    upstream = Upstream()
    turn, _, status, got = await take(upstream, gateway, patience_s=0.1, fail_closed=True)
    assert (turn.route, turn.ending, status, upstream.asked) == ("refused", "503", 503, [])
    assert b"fuse.fail_closed refuses such calls" in got


async def test_where_every_call_must_be_counted_a_slow_gateway_is_waited_for():
    slow = Gateway(b"counted", silent_s=0.3)
    turn, _, _, got = await take(Upstream(), slow, patience_s=0.1, fail_closed=True)
    assert (turn.route, got) == ("guarded", b"counted")


async def test_where_every_call_must_be_counted_an_error_of_the_gateway_is_the_agents_to_read():
    upstream = Upstream()
    uncounted = Gateway(b"not counted", status=503)
    turn, _, status, got = await take(upstream, uncounted, fail_closed=True)
    assert (turn.route, status, got, upstream.asked) == ("guarded", 503, b"not counted", [])


async def test_where_every_call_must_be_counted_an_answer_that_was_goes_on_behind_the_last_byte():
    dead = Gateway(b"one ", UpstreamError("died"), alive=False, calls=[b"{}"])
    turn, _, _, got = await take(Upstream(Answer(b"one two")), dead, fail_closed=True)
    assert (turn.route, got) == ("straight", b"one two")


async def test_a_gateway_that_falls_silent_while_the_model_writes_is_replaced():
    class Writing(Answer):
        async def read(self, tick_s=None):
            if len(self.parts) == 1:
                await replaced.wait()
            return await super().read(tick_s)

    class Stopped(Gateway):
        async def is_alive(self):
            replaced.set()
            return False

        async def send(self, *request):
            self.turn.call(b"{}")
            await asyncio.Event().wait()

    replaced, stopped = asyncio.Event(), Stopped()
    stopped.silence_s = 0.1
    async with asyncio.timeout(MOST_S):
        turn, gateways, _, got = await take(Upstream(Writing(b"one ", b"two")), stopped)
    assert (turn.route, got, gateways.replaced) == ("straight", b"one two", [stopped])


async def test_a_reply_that_is_complete_needs_no_gateway_for_its_end():
    gateway, upstream = Gateway(b"one"), Upstream()

    class Reply(AgentReply):
        async def end(self):
            gateway.failed.set()
            for _ in range(20):  # the agent takes its time
                await asyncio.sleep(0)
            await super().end()

    turn, _, _, got = await take(upstream, gateway, reply_class=Reply)
    assert (turn.route, got, upstream.asked) == ("guarded", b"one", [])


class Cut(Gateway):
    """A gateway that cut a loop: the agent has other bytes than the upstream sent."""

    async def send(self, method, path, headers, body):
        self.turn.call(b"{}").severed = True
        return await super().send(method, path, headers, body)


async def test_a_reply_that_was_cut_breaks_off_when_the_gateway_dies_and_the_agent_asks_again():
    turn, _, _, got = await take(Upstream(Answer(b"looping")), Cut(b"loop", UpstreamError("died")))
    assert (turn.route, got) == ("broken", None)


async def test_a_call_that_was_cut_before_the_agent_had_anything_is_made_again():
    class Dead(Cut):
        async def send(self, *request):
            await super().send(*request)
            raise UpstreamError("died")

    upstream = Upstream(Answer(b"looping"), Answer(b"another answer"))
    turn, _, _, got = await take(upstream, Dead(alive=False))
    assert (turn.route, got) == ("straight", b"another answer")


async def test_what_a_gateway_breaks_off_on_purpose_is_broken_off_for_the_agent_too():
    broken = Cut(b"half a call", BROKEN_OFF, UpstreamError("closed"))
    turn, _, _, got = await take(Upstream(Answer(b"looping")), broken)
    assert (turn.route, got) == ("guarded", None)


async def test_an_answer_that_the_upstream_breaks_off_is_broken_off_for_the_agent_at_once():
    class Breaking(Gateway):
        async def send(self, method, path, headers, body):
            recording = self.turn.call(b"{}")
            await recording.head()
            with pytest.raises(UpstreamError):
                await recording.read(4)
            return self.answer

    upstream = Upstream(Answer(b"half", UpstreamError("reset")))
    gateway = Breaking(b"half", UpstreamError("closed"))
    turn, _, status, got = await take(upstream, gateway)
    assert (status, got, len(upstream.asked)) == (200, None, 1)
    assert (turn.route, turn.ending) == ("guarded", ""), "no gateway failed, and the guard saw it"


async def test_an_upstream_that_fails_is_an_error_with_a_status():
    turn, _, status, got = await take(Upstream(Answer(UpstreamError("no route")), Answer(b"x")))
    assert turn.route == "straight"
    assert (status, got) == (200, None), "it had begun: the connection is severed"

    class Nowhere:
        async def send(self, request):
            raise UpstreamError("no route")

    turn, _, status, got = await take(Nowhere())
    assert (status, turn.ending) == (502, "not reached")
    assert b"no route" in got

    class Refused(Gateway):
        async def send(self, method, path, headers, body):
            with pytest.raises(UpstreamError):
                await self.turn.call(b"{}").head()
            return self.answer

    turn, _, status, got = await take(Nowhere(), Refused(b"no", status=502))
    assert (turn.route, turn.ending, status) == ("guarded", "not reached", 502)
    assert b"no route" in got


async def test_a_call_that_the_agent_gives_up_before_anything_came_is_no_error():
    asked, turns = asyncio.Event(), []

    class Silent(Gateway):
        async def send(self, *request):
            turns.append(self.turn)
            self.turn.call(b"{}")
            asked.set()
            await asyncio.Event().wait()

    class Waiting:
        async def send(self, request):
            await asyncio.Event().wait()

    taking = asyncio.ensure_future(take(Waiting(), Silent()))
    async with asyncio.timeout(MOST_S):
        await asked.wait()
    taking.cancel()
    await asyncio.wait({taking})
    assert [(turn.route, turn.ending) for turn in turns] == [("given up", "")]


@pytest.mark.parametrize(("body", "packed"), [(b"as the agent packed it", True), (b"{}", False)])
def test_a_body_is_called_packed_as_long_as_it_is(body, packed):
    headers = [(b"Content-Encoding", b"zstd"), (b"x", b"y")]
    request = AgentRequest("POST", "/", headers, b"as the agent packed it", Address("http", "h", 1))
    sent = request.to_upstream(body, plain=True)
    assert ((b"Content-Encoding", b"zstd") in sent.headers) is packed
    assert (b"x", b"y") in sent.headers


@pytest.mark.parametrize(("alive", "current", "severed"), [(True, True, True), (False, True, False), (True, False, False)])  # fmt: skip
async def test_the_upstream_is_stopped_if_a_living_gateway_hangs_up_on_it(alive, current, severed):
    gateway = Gateway(alive=alive)
    turn = AgentTurn("1", AgentRequest("POST", "/", [], b"", Address("http", "h", 1)), None, path="/", gateways=OneGateway(), transport=Upstream(Answer(b"x")))  # fmt: skip
    turn.gateway = gateway if current else None
    recording = turn.call(b"A")
    await turn.note_hang_up(recording, gateway)
    assert recording.severed is severed
    await recording.close()
