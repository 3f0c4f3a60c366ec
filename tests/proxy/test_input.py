"""Requests that cannot be served, and which upstream gets those that can."""

import socket

import pytest
from tests.proxy import web
from tests.proxy.upstream import Head, Upstream, answer, json_head, said
from tests.waiting import MOST_S

from millgate.errors import ConfigError, NotFound
from millgate.service.proxy.upstreams import Upstreams
from millgate.settings import load
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

GOOD = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'

BAD = {
    "no JSON": (b"hello", {}, 400, None),
    "nothing": (b"", {}, 400, None),
    "half": (GOOD[:-3], {}, 400, None),
    "a list": (b"[]", {}, 400, None),
    "wrong encoding": (GOOD.replace(b"Hi", b"\xff\xfe"), {}, 400, None),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, {}, 400, None),
    "nesting that cannot be written": (GOOD[:-1] + b', "x": ' + b"[" * 300 + b"]" * 300 + b"}", {}, 400, None),
    "no model": (b'{"messages": [{"role": "user", "content": "Hi"}]}', {}, 400, "model"),
    "an empty object": (b"{}", {}, 400, "model"),
    "model of a wrong kind": (GOOD.replace(b'"m"', b"7"), {}, 400, "model"),
    "no messages": (b'{"model": "m"}', {}, 400, "messages"),
    "empty messages": (b'{"model": "m", "messages": []}', {}, 400, "messages"),
    "messages as a text": (b'{"model": "m", "messages": "Hi"}', {}, 400, "messages"),
    "a message that is a text": (b'{"model": "m", "messages": ["Hi"]}', {}, 400, "messages[0]"),
    "a message without a role": (b'{"model": "m", "messages": [{"content": "Hi"}]}', {}, 400, "messages[0]"),
    "content of a wrong kind": (GOOD.replace(b'"Hi"', b"7"), {}, 400, "messages[0].content"),
    "form data": (GOOD, {"content-type": "multipart/form-data"}, 415, None),
    "not compressed as it says": (GOOD, {"content-encoding": "gzip"}, 400, None),
    "not zstd as it says": (GOOD, {"content-encoding": "zstd"}, 400, None),
    "a switch that is none": (GOOD, {"x-millgate-guard": "maybe"}, 400, "x-millgate-guard"),
    "a budget that is no number": (GOOD, {"x-millgate-budget": "lots"}, 400, "x-millgate-budget"),
    "a negative budget": (GOOD, {"x-millgate-budget": "-5"}, 400, "x-millgate-budget"),
    "a huge budget": (GOOD, {"x-millgate-budget": "9" * 5000}, 400, "x-millgate-budget"),
    "an upstream that is none": (GOOD, {"x-millgate-upstream": "moon"}, 400, None),
    "50 MB": (GOOD[:-1] + b', "x": "' + b"y" * 50_000_000 + b'"}', {}, 413, None),
    "an unknown model": (GOOD, {}, 404, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def routed(rig):
    some = {
        "a": rig.at(models=["alpha-*"]),
        "b": rig.at(models=["beta", "model-*"], key="sk-secret"),
    }
    return rig.serve(ProxyPolicy(upstreams=some))


@pytest.mark.parametrize(("body", "headers", "status", "param"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("path", ["chat/completions", "messages"])
def test_a_bad_request_gets_the_error_of_its_api(routed, path, body, headers, status, param):
    headers = {"content-type": "application/json"} | headers
    got = web.post(f"{routed.url}/v1/{path}", content=body, headers=headers, timeout=MOST_S)
    assert got.status_code == status
    error = got.json()["error"]
    assert error["message"]
    if b"model" not in body and param == "model":
        assert error["message"].startswith("model is missing")
    if path == "messages":
        assert got.json()["type"] == "error"
    else:
        assert (error["type"], error["param"]) == ("invalid_request_error", param)


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (b"\xef\xbb\xbf{", b'"messages": []}'),
        (b"{", b'"temperature": NaN}'),
        (b"{", b'"messages": [{"role": "user", "content": "\\ud83d"}]}'),
    ],
    ids=["a byte order mark", "a number that is none", "half a character"],
)
def test_json_that_only_some_readers_take_goes_to_the_upstream_of_its_model(routed, rig, upstream, begin, rest):  # fmt: skip
    model = rig.script(said("one", "two"))
    body = begin + b'"model": "%b", ' % model.encode() + rest
    upstream.seen[model] = []
    got = web.post(f"{routed.url}/v1/chat/completions", content=body, headers={"content-type": "application/json"})  # fmt: skip
    assert (got.status_code, got.content) == (200, b"".join(said("one", "two")))
    assert (got.headers["x-millgate-guard"], got.headers["x-millgate-upstream"]) == ("off", "b")
    assert "not valid JSON" in got.headers["x-millgate-guard-reason"]


def test_a_body_in_a_coding_that_we_do_not_know_is_passed_on_as_it_came(rig):
    alone = rig.run(Upstream().start())
    alone.script("/v1/chat/completions", said("one"))
    served = rig.serve(ProxyPolicy(upstreams={"main": UpstreamPolicy(url=f"http://127.0.0.1:{alone.port}/v1")}))  # fmt: skip
    headers = {"content-type": "application/json", "content-encoding": "br"}
    got = web.post(f"{served.url}/v1/chat/completions", content=b"\x0b\x02", headers=headers)
    rig.run(alone.stop())
    assert got.content == b"".join(said("one"))
    assert "compressed: br" in got.headers["x-millgate-guard-reason"]


def test_the_longest_fitting_pattern_decides():
    def at(*models):
        return UpstreamPolicy(url="http://127.0.0.1:1/v1", models=models)

    policy = ProxyPolicy(upstreams={"all": at("*"), "some": at("gpt-*"), "one": at("gpt-x")})
    names = {model: Upstreams(policy).find(model)[0] for model in ("gpt-x", "gpt-y", "other")}
    assert names == {"gpt-x": "one", "gpt-y": "some", "other": "all"}
    with pytest.raises(NotFound, match="other"):
        Upstreams(ProxyPolicy(upstreams={"some": at("gpt-*")})).find("other")
    with pytest.raises(ConfigError, match="no upstream"):
        Upstreams(ProxyPolicy()).find("any")


def test_a_held_key_replaces_the_clients_and_is_never_shown(rig, routed, upstream):
    model = rig.script(answer("Yes."))
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"authorization": "Bearer own", "x-api-key": "own"}
    web.post(f"{routed.url}/v1/chat/completions", json=body, headers=headers)
    seen = upstream.seen[model][0].headers
    assert seen["authorization"] == "Bearer sk-secret"
    assert "x-api-key" not in seen
    assert "sk-secret" not in repr(routed.proxy.policy)


def test_upstreams_are_set_by_file_and_environment(tmp_path):
    file = tmp_path / "millgate.toml"
    file.write_text(
        '[proxy.upstreams.local]\nurl = "http://127.0.0.1:8080/v1/"\nmodels = ["llama-*"]\n'
    )
    settings = load(file, environ={"MILLGATE_PROXY__UPSTREAMS__LOCAL__KEY": "sk-1"})
    local = settings.proxy.upstreams["local"]
    assert (local.url, local.models) == ("http://127.0.0.1:8080/v1", ("llama-*",))
    assert local.key.get_secret_value() == "sk-1"
    with pytest.raises(ConfigError, match="url"):
        load(environ={"MILLGATE_PROXY__UPSTREAMS__LOCAL__URL": "ftp://x"})


# What is passed on


def test_other_paths_are_passed_on_as_they_are(rig, served, upstream):
    upstream.script("/v1/files/a%20b?x=1", [json_head(201, **{"x-their": "1"}), b'{"a": 1 }'])
    got = web.request("PUT", f"{served.url}/v1/files/a%20b?x=1", content=b"\x00\xff", headers={"content-type": "application/octet-stream"})  # fmt: skip
    assert (got.status_code, got.content, got.headers["x-their"]) == (201, b'{"a": 1 }', "1")
    seen = upstream.seen["/v1/files/a%20b?x=1"][0]
    assert (seen.method, seen.body) == ("PUT", b"\x00\xff")


def test_our_own_routes_win(served):
    assert web.get(f"{served.url}/v1/strategy").json() == {"ours": True}
    assert web.get(f"{served.url}/v1/context").status_code == 404


@pytest.mark.parametrize("path", ["/v1/../secret", "/v1/files/%2e%2e/%2e%2e/secret"])
def test_a_path_cannot_climb_out(rig, served, upstream, path):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        got = b""
        while part := sock.recv(65536):
            got += part
    assert got.split(b" ")[1] in (b"400", b"404")
    assert not any("secret" in name for name in upstream.seen)


def test_models_are_those_that_requests_would_reach(rig, upstream):
    one, two = rig.at(models=["alpha-*"]), rig.at(models=["beta-*"])
    dead = UpstreamPolicy(url="http://127.0.0.1:9/v1", models=("gamma-*",))
    served = rig.serve(ProxyPolicy(upstreams={"one": one, "two": two, "dead": dead}))
    rows = b", ".join(
        b'{"id": "%b"}' % name for name in (b"alpha-1", b"beta-1", b"other", b"gamma-1")
    )
    upstream.script("/v1/models", [json_head(), b'{"data": [' + rows + b"]}"])
    got = web.get(f"{served.url}/v1/models")
    assert [row["id"] for row in got.json()["data"]] == ["alpha-1", "beta-1"]
    assert got.headers["x-millgate-degraded"] == "models: dead"


def test_a_stream_of_another_path_is_passed_on_byte_for_byte(rig, served):
    script = said("one", "two")
    model = rig.script(script)
    got = web.post(f"{served.url}/v1/audio/speech", json={"model": model, "stream": True})  # fmt: skip
    assert got.content == b"".join(script)
    assert got.headers["x-millgate-guard"] == "off"


def test_head_and_empty_answers_pass(rig, served, upstream):
    upstream.script("/v1/ping", [Head(200, (("content-length", "2"),), chunked=False)])
    assert web.head(f"{served.url}/v1/ping").status_code == 200
