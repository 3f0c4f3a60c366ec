"""Keys that the service holds: what they are used for, by whom, and where they and the client's own keys go."""

import pytest
from pydantic import ValidationError
from tests.service.clients import connected

from headgate.errors import ScopeError, UpstreamError
from headgate.gateway import Headgate
from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.app import create
from headgate.service.proxy.asgi import Reply
from headgate.service.proxy.passthrough import pass_on
from headgate.service.proxy.upstreams import Upstreams, is_shared, returned_headers
from headgate.settings import Settings


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


def scope_for(method, path, *headers):
    return {"method": method, "path": path, "raw_path": path.encode(), "headers": list(headers), "query_string": b""}  # fmt: skip


def upstreams(may_use=lambda _, __: True, **policies):
    made = Upstreams(ProxyPolicy(upstreams=policies), Recorder(), may_use=may_use)
    return made, made._transport


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
        ("POST", "/v1/chat/completions/../files"),
    ],
)
async def test_a_held_key_serves_nothing_but_calls_of_models(method, path):
    made, transport = upstreams(main=HELD)
    with pytest.raises(ScopeError, match="is not passed on"):
        await made.send(made.policy.upstreams["main"], scope_for(method, path), b"", path=path)
    assert not transport.sent


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/chat/completions"), ("POST", "/v1/messages"), ("POST", "/v1/embeddings"), ("GET", "/v1/models"), ("GET", "/v1/models/owner/name")],
)  # fmt: skip
def test_calls_of_models_are_shared(method, path):
    assert is_shared(method, path)


async def test_which_upstreams_a_key_may_use_is_part_of_the_key():
    made, _ = upstreams(lambda _, name: name == "cheap", cheap=HELD, dear=UpstreamPolicy(url="http://dear/v1", key="k"))  # fmt: skip
    scope = scope_for("POST", "/v1/chat/completions")
    await made.send(made.policy.upstreams["cheap"], scope, b"{}")
    with pytest.raises(ScopeError, match="upstream dear"):
        await made.send(made.policy.upstreams["dear"], scope, b"{}")


@pytest.mark.parametrize(
    ("scopes", "status"), [(("read",), 403), (("read", "proxy:other"), 403), (("read", "proxy:main"), 502), (("read", "proxy"), 502), (("admin",), 502)]
)  # fmt: skip
async def test_reading_alone_does_not_open_the_models(scopes, status):
    nowhere = UpstreamPolicy(url="http://127.0.0.1:9/v1", key="sk-HELD", connect_s=1)
    settings = Settings(store=":memory:", proxy=ProxyPolicy(upstreams={"main": nowhere}))
    with Headgate.open(settings=settings) as gate:
        token = gate.keys.create(scopes).token
        app = create(gate)
        async with connected(app, key=token) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)
        for close in app.state.service.on_shutdown:
            await close()
    assert answer.status_code == status, answer.text


async def test_the_host_of_an_upstream_cannot_be_chosen_by_a_path():
    made, transport = upstreams(main=UpstreamPolicy(url="http://127.0.0.1:8080"))
    await made.send(made.policy.upstreams["main"], scope_for("GET", "/v1/@evil:80/steal"), b"")
    assert (transport.sent[0].address.host, transport.sent[0].address.port) == ("127.0.0.1", 8080)
    with pytest.raises(ValidationError):
        UpstreamPolicy(url="http://user:pass@model.example/v1")


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"bearer hg_%s" % (b"a" * 43)),
        (b"authorization", b"Bearer  hg_%s" % (b"a" * 43)),
        (b"authorization", b"Basic hg_%s" % (b"a" * 43)),
        (b"api-key", b"hg_%s" % (b"a" * 43)),
        (b"x-anything", b"hg_%s" % (b"a" * 43)),
    ],
)
async def test_the_gates_own_key_goes_no_further(header):
    made, transport = upstreams(main=UpstreamPolicy(url="http://127.0.0.1:8080/v1"))
    await made.send(made.policy.upstreams["main"], scope_for("POST", "/v1/x", header), b"")
    assert not any(b"hg_" in value for _, value in transport.sent[0].headers)


async def test_a_clients_key_goes_to_no_upstream_it_may_not_be_meant_for():
    two = {name: UpstreamPolicy(url=f"http://{name}/v1") for name in ("one", "two")}
    made, transport = upstreams(**two)
    key = (b"authorization", b"Bearer sk-CLIENT")

    async def send(message):
        pass

    with pytest.raises(UpstreamError, match="no upstream listed its models"):
        await pass_on(made, scope_for("GET", "/v1/models", key), b"", Reply(send), "/v1/models")
    await pass_on(made, scope_for("GET", "/v1/files", key), b"", Reply(send), "/v1/files")
    assert len(transport.sent) == 3
    assert not any(key in request.headers for request in transport.sent)
    named = (b"x-headgate-upstream", b"two")
    await pass_on(made, scope_for("GET", "/v1/files", key, named), b"", Reply(send), "/v1/files")
    assert key in transport.sent[-1].headers


async def test_configured_headers_replace_the_clients():
    policy = UpstreamPolicy(url="http://m/v1", headers={"openai-organization": "ours"})
    made, transport = upstreams(main=policy)
    header = (b"openai-organization", b"theirs")
    await made.send(made.policy.upstreams["main"], scope_for("POST", "/v1/x", header), b"")
    assert [v for n, v in transport.sent[0].headers if n == b"openai-organization"] == [b"ours"]


def test_an_upstream_does_not_speak_for_our_origin():
    answer = Answer()
    answer.headers = [
        (b"content-type", b"text/html"), (b"set-cookie", b"a=b"), (b"access-control-allow-origin", b"*"),
        (b"clear-site-data", b"*"), (b"refresh", b"0"), (b"strict-transport-security", b"max-age=1"),
        (b"alt-svc", b"h3"), (b"x-accel-redirect", b"/etc"), (b"x-request-id", b"r"), (b"openai-version", b"1"),
    ]  # fmt: skip
    kept = dict(returned_headers(answer))
    assert kept.keys() == {b"content-type", b"x-request-id", b"openai-version", b"x-content-type-options", b"content-security-policy"}  # fmt: skip
    assert b"sandbox" in kept[b"content-security-policy"]
