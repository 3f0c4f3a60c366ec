"""An agent that repeats a call with the same result is told, then stopped; one whose results change goes on."""

import json

import pytest
from bench.fixtures.sessions import MadeCall, Turn, render
from tests.proxy import web
from tests.proxy.conftest import ProxyRig
from tests.proxy.upstream import PROSE, response_stream, said, told
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.service.app import create
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy

APIS = {
    "chat": ("/v1/chat/completions", "messages", said(*PROSE)),
    "messages": ("/v1/messages", "messages", told(*PROSE)),
    "responses": ("/v1/responses", "input", response_stream(texts=PROSE)),
}
STOPPED = "read was called 8 times with the same arguments and the same result"


@pytest.fixture(scope="module")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def url(rig):
    settings = Settings(store=":memory:", proxy=ProxyPolicy(upstreams={"main": rig.at()}))
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        yield url
        stop()


def ask(url, api, model, results):
    """One call of an agent that has read a file so often, with these results."""
    path, name, _ = APIS[api]
    turns = [Turn(calls=(MadeCall("read", {"path": "a"}, result),)) for result in results]
    asked = {name: render([Turn(human="Read a."), *turns], api)}
    body = {"model": model, "stream": True, "max_tokens": 100, **asked}
    return web.post(url + path, json=body, timeout=MOST_S)


@pytest.mark.parametrize("api", APIS)
def test_the_third_equal_call_brings_a_note_and_the_eighth_ends_the_turn(rig, url, api):
    stream = APIS[api][2]
    model = rig.script(stream)
    for copies in range(1, 8):
        reply = ask(url, api, model, ["no such file"] * copies)
        assert reply.content == b"".join(stream)
        went = json.dumps(rig.upstream.seen[model][-1].json)
        assert went.count("[millgate: ") == (copies >= 3) + (copies >= 5)
        rung = {3: "note 3", 5: "list 5"}.get(copies)
        assert reply.headers.get("x-millgate-circles") == rung
    ended = ask(url, api, model, ["no such file"] * 8)
    assert (ended.status_code, STOPPED in ended.text) == (200, True)
    assert ended.headers["x-millgate-circles"] == "end 8"
    assert len(rig.upstream.seen[model]) == 7, "the model was not asked"


@pytest.mark.parametrize("api", APIS)
def test_an_agent_that_polls_is_never_noted(rig, url, api):
    model = rig.script(APIS[api][2])
    ask(url, api, model, [f"{done} of 50 tests passed" for done in range(20)])
    assert "[millgate: " not in json.dumps(rig.upstream.seen[model][-1].json)
