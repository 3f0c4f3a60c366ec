"""Keys that the service holds: what they are used for, by whom, and where they and the client's own keys go."""

import pytest
from tests.service.clients import connected

from millgate.errors import ConfigError, InputError, ScopeError, UpstreamError
from millgate.gateway import Millgate
from millgate.guard.dialects import dialect_for
from millgate.service.app import create
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy.exchange import Exchange, ProxyState
from millgate.service.proxy.proxy import pass_on
from millgate.service.proxy.send import ask, is_shared, returned_headers
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy, UpstreamPolicy


class Recorder:
    """A transport that keeps what is sent."""

    def __init__(self):
        self.sent = []

    async def send(self, request):
        self.sent.append(request)
        return Answer()

    async def close(self):
        pass


class Answer:
    status = 200
    headers = ((b"content-type", b"application/json"),)

    async def read(self, timeout_s=None):
        return b""

    async def close(self):
        pass


def exchange_for(proxy, method, path, *headers, scopes=("proxy",)):
    async def send(message):
        pass

    state = RequestState("r", method, caller=Caller("default", frozenset(scopes)))
    scope = {"method": method, "path": path, "raw_path": path.encode(), "headers": list(headers), "millgate": state}  # fmt: skip
    return Exchange.begin(scope, send, dialect_for(path), ModelCall("/v1/*"), proxy)


def upstreams(**policies):
    made, transport = ProxyState(ProxyPolicy(upstreams=policies)), Recorder()
    made.upstreams.transport = transport
    return made, transport


HELD = UpstreamPolicy(url="http://model.example:8080", key="sk-HELD")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/files/f"),
        ("GET", "/v1/files"),
        ("DELETE", "/v1/models/m"),
        ("POST", "/v1/fine_tuning/jobs"),
        ("POST", "/v1/organization/admin_api_keys"),
        ("GET", "/v1/responses/r"),
        ("HEAD", "/v1/files"),
        ("POST", "/v1/audio/voices"),
    ],
)
async def test_a_held_key_serves_nothing_but_calls_of_models(method, path):
    made, transport = upstreams(main=HELD)
    with pytest.raises(ScopeError, match="is not passed on"):
        await ask(exchange_for(made, method, path), made.policy.upstreams["main"], b"")
    assert not transport.sent


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/chat/completions"), ("POST", "/v1/messages"), ("POST", "/v1/embeddings"), ("GET", "/v1/models"), ("GET", "/v1/models/owner/name"), ("HEAD", "/v1/models"), ("POST", "/v1/images/generations"), ("POST", "/v1/audio/speech"), ("POST", "/v1/audio/transcriptions"), ("POST", "/v1/score"), ("POST", "/v1/tokenize")],
)  # fmt: skip
def test_calls_of_models_are_shared(method, path):
    assert is_shared(method, path)


@pytest.mark.parametrize("path", ["/v1/chat/completions/../files", "/v1/models/%2e%2e/files"])
async def test_a_path_that_climbs_reaches_no_upstream(path):
    made, transport = upstreams(main=HELD)
    with pytest.raises(InputError, match="cannot be passed on"):
        await ask(exchange_for(made, "POST", path), made.policy.upstreams["main"], b"")
    assert not transport.sent


async def test_which_upstreams_a_key_may_use_is_part_of_the_key():
    made, _ = upstreams(cheap=HELD, dear=UpstreamPolicy(url="http://dear/v1", key="k"))  # fmt: skip
    exchange = exchange_for(made, "POST", "/v1/chat/completions", scopes=("proxy:cheap",))
    await ask(exchange, made.policy.upstreams["cheap"], b"{}")
    with pytest.raises(ScopeError, match="upstream dear"):
        await ask(exchange, made.policy.upstreams["dear"], b"{}")


@pytest.mark.parametrize(
    ("scopes", "status"), [(("read",), 403), (("read", "proxy:other"), 403), (("read", "proxy:main"), 502), (("read", "proxy"), 502), (("admin",), 502)]
)  # fmt: skip
async def test_reading_alone_does_not_open_the_models(scopes, status):
    nowhere = UpstreamPolicy(url="http://127.0.0.1:9/v1", key="sk-HELD", connect_s=1)
    settings = Settings(store=":memory:", proxy=ProxyPolicy(upstreams={"main": nowhere}))
    with Millgate.open(settings=settings) as gate:
        token = gate.keys.create(scopes).token
        app = create(gate)
        async with connected(app, key=token) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)
        for close in app.state.service.on_shutdown:
            await close()
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("method", "path", "url", "auth", "header"),
    [
        ("POST", "/v1/messages", "http://m.example/v1", "", (b"x-api-key", b"sk-HELD")),
        ("POST", "/v1/chat/completions", "http://m.example/v1", "", (b"authorization", b"Bearer sk-HELD")),
        ("POST", "/v1/responses", "https://api.anthropic.com/v1", "", (b"authorization", b"Bearer sk-HELD")),
        ("POST", "/v1beta/models/m:generateContent", "http://m.example/v1beta", "", (b"x-goog-api-key", b"sk-HELD")),
        ("GET", "/v1/models", "https://api.anthropic.com/v1", "", (b"x-api-key", b"sk-HELD")),
        ("GET", "/v1/models", "http://m.example/v1", "", (b"authorization", b"Bearer sk-HELD")),
        ("POST", "/v1/messages", "http://m.example/v1", "bearer", (b"authorization", b"Bearer sk-HELD")),
    ],
)  # fmt: skip
async def test_a_held_key_is_sent_as_the_api_of_the_call_wants_it(method, path, url, auth, header):
    made, transport = upstreams(main=UpstreamPolicy(url=url, key="sk-HELD", auth=auth))
    theirs = (b"authorization", b"Bearer sk-THEIRS"), (b"x-api-key", b"sk-THEIRS")
    await ask(exchange_for(made, method, path, *theirs), made.policy.upstreams["main"], b"{}")
    sent = [(k, v) for k, v in transport.sent[0].headers if b"sk-" in v]
    assert sent == [header]


async def test_the_host_of_an_upstream_cannot_be_chosen_by_a_path():
    made, transport = upstreams(main=UpstreamPolicy(url="http://127.0.0.1:8080"))
    await ask(exchange_for(made, "GET", "/v1/@evil:80/steal"), made.policy.upstreams["main"], b"")
    assert (transport.sent[0].address.host, transport.sent[0].address.port) == ("127.0.0.1", 8080)
    with pytest.raises(ConfigError):
        UpstreamPolicy(url="http://user:pass@model.example/v1")


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"bearer mg_%s" % (b"a" * 43)),
        (b"authorization", b"Bearer  mg_%s" % (b"a" * 43)),
        (b"authorization", b"Basic mg_%s" % (b"a" * 43)),
        (b"api-key", b"mg_%s" % (b"a" * 43)),
        (b"x-anything", b"mg_%s" % (b"a" * 43)),
    ],
)
async def test_the_gates_own_key_goes_no_further(header):
    made, transport = upstreams(main=UpstreamPolicy(url="http://127.0.0.1:8080/v1"))
    await ask(exchange_for(made, "POST", "/v1/x", header), made.policy.upstreams["main"], b"")
    assert not any(b"mg_" in value for _, value in transport.sent[0].headers)


async def test_a_clients_key_goes_to_no_upstream_it_may_not_be_meant_for():
    two = {name: UpstreamPolicy(url=f"http://{name}/v1") for name in ("one", "two")}
    made, transport = upstreams(**two)
    key = (b"authorization", b"Bearer sk-CLIENT")

    with pytest.raises(UpstreamError, match="no upstream listed its models"):
        await pass_on(exchange_for(made, "GET", "/v1/models", key), b"")
    await pass_on(exchange_for(made, "GET", "/v1/files", key), b"")
    assert len(transport.sent) == 3
    assert not any(key in request.headers for request in transport.sent)
    named = (b"x-millgate-upstream", b"two")
    await pass_on(exchange_for(made, "GET", "/v1/files", key, named), b"")
    assert key in transport.sent[-1].headers


async def test_configured_headers_replace_the_clients():
    policy = UpstreamPolicy(url="http://m/v1", headers={"openai-organization": "ours"})
    made, transport = upstreams(main=policy)
    header = (b"openai-organization", b"theirs")
    await ask(exchange_for(made, "POST", "/v1/x", header), made.policy.upstreams["main"], b"")
    assert [v for n, v in transport.sent[0].headers if n == b"openai-organization"] == [b"ours"]


def test_an_upstream_does_not_speak_for_our_origin():
    answer = Answer()
    answer.headers = [
        (b"content-type", b"text/html"), (b"set-cookie", b"a=b"), (b"access-control-allow-origin", b"*"),
        (b"clear-site-data", b"*"), (b"refresh", b"0"), (b"strict-transport-security", b"max-age=1"),
        (b"alt-svc", b"h3"), (b"location", b"https://evil.example"), (b"x-accel-redirect", b"/etc"), (b"x-request-id", b"r"), (b"openai-version", b"1"),
    ]  # fmt: skip
    kept = dict(returned_headers(answer))
    assert kept.keys() == {b"content-type", b"x-request-id", b"openai-version", b"x-content-type-options", b"content-security-policy"}  # fmt: skip
    assert b"sandbox" in kept[b"content-security-policy"]
