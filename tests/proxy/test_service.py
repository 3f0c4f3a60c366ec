"""The proxy inside the service: behind its admission, beside its own routes."""

from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai
import pytest
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, Pause, Upstream, answer, json_head, said, told
from tests.service.clients import until
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.edge.paths import OWN
from millgate.service.proxy import app
from millgate.service.routes import ROUTERS
from millgate.settings import Settings
from millgate.types.notes import Stage
from millgate.types.policy import ProxyPolicy, ServicePolicy, UpstreamPolicy

ROWS = [
    {"id": "refunds", "title": "Refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "parcels", "title": "Parcels", "text": "Parcels are sent by rail within two days."},
]
ASK = [{"role": "user", "content": "When are refunds paid?"}]


@pytest.fixture
def gate(rig):
    policy = ProxyPolicy(upstreams={"main": rig.at()})
    settings = Settings(store=":memory:", proxy=policy, service=ServicePolicy(deadline_s=5))
    with Millgate.open(settings=settings) as gate:
        gate.add(ROWS)
        yield gate


@pytest.fixture
def address(rig, gate):
    url, stop = rig.app(create(gate))
    yield url
    stop()


def post(address, model, *, headers=None, **more):
    body = {"model": model, "messages": ASK} | more
    return web.post(f"{address}/v1/chat/completions", json=body, headers=headers, timeout=MOST_S)


def test_a_client_changes_one_address_and_keeps_its_own_key(rig, address, upstream):
    script = said(*PROSE)
    model = rig.script(script)
    got = post(address, model, stream=True, headers={"authorization": "Bearer sk-own"})
    assert got.content == b"".join(script)
    assert upstream.seen[model][0].headers["authorization"] == "Bearer sk-own"


@pytest.mark.parametrize("base", ["", "/v1"])
def test_the_sdks_of_openai_and_anthropic_take_the_address_with_and_without_v1(rig, address, base):
    model = rig.script(said("Well."), told("Well."))
    asked = {"model": model, "messages": ASK, "stream": True}
    with openai.OpenAI(base_url=address + base, api_key="sk-own", max_retries=0) as client:
        chunks = client.chat.completions.create(**asked)
        assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "Well."  # fmt: skip
    with anthropic.Anthropic(base_url=address + base, api_key="sk-own", max_retries=0) as client:
        kinds = [one.type for one in client.messages.create(**asked, max_tokens=9)]
        assert kinds[0] == "message_start"


def test_an_upstream_whose_address_lacks_v1_is_found_with_it_and_named(rig, caplog):
    alone = rig.run(Upstream().start())
    refused = [json_head(404), b'{"first": 1}']
    alone.script("gone", refused, [json_head(404), b"{}"])
    alone.script("m", refused, answer("Well."))
    url = f"http://127.0.0.1:{alone.port}"
    served = rig.serve(ProxyPolicy(upstreams={"main": UpstreamPolicy(url=url)}))
    assert post(served.url, "gone").json() == {"first": 1}
    assert not caplog.messages
    assert [post(served.url, "m").status_code for _ in range(2)] == [200, 200]
    paths = [seen.path for seen in alone.seen["m"]]
    assert paths == ["/chat/completions", "/v1/chat/completions", "/v1/chat/completions"]
    assert caplog.messages == [f"the upstream {url} answers below /v1: set its url to {url}/v1"]
    rig.run(alone.stop())


def test_a_loop_is_counted_in_the_metrics(rig, address):
    post(address, rig.script(said(*LOOP), said("Well.")), stream=True)
    told = web.get(f"{address}/metrics").text
    assert "millgate_guard_rollbacks_total 1" in told.replace(".0", "")


def test_more_long_prompts_stream_at_once_than_one_body_may_have(rig, address, gate):
    script = said(*PROSE)
    model = rig.script([*script[:1], Pause(1.5), *script[1:]])
    long = [{"role": "user", "content": "prose " * 170_000}]  # of 200 000 tokens
    many = gate.settings.service.body_bytes // 1_000_000 + 3
    with ThreadPoolExecutor(many) as threads:
        replies = list(
            threads.map(lambda _: post(address, model, stream=True, messages=long), range(many))
        )
    assert {reply.status_code for reply in replies} == {200}


@pytest.mark.parametrize(("most", "kept"), [(app.MOST_WAITING, True), (0, False)])
def test_a_trace_leaves_the_window_out_if_too_much_waits(
    rig, address, gate, monkeypatch, most, kept
):
    monkeypatch.setattr(app, "MOST_WAITING", most)
    post(address, rig.script(said("ok")), stream=True)
    until(gate.traces)
    steps = [step.stage for step in gate.trace(gate.traces()[0].id).steps]
    assert (Stage.WINDOW in steps) is kept


def test_our_own_key_is_accepted_and_not_sent_upstream(rig, gate, address, upstream):
    made = gate.keys.create(["read"])
    model = rig.script(said("ok"))
    refused = post(address, model, headers={"authorization": "Bearer sk-own"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert (
        post(address, model, headers={"authorization": f"Bearer {made.token}"}).status_code == 200
    )
    both = {"authorization": "Bearer sk-own", "x-millgate-key": made.token}
    assert post(address, model, headers=both).status_code == 200
    first, second = upstream.seen[model]
    assert "authorization" not in first.headers
    assert second.headers["authorization"] == "Bearer sk-own"
    assert made.token not in str([first.headers, second.headers])


def test_a_key_without_the_scope_is_refused(rig, gate, address):
    made = gate.keys.create(["write"])
    refused = post(address, rig.script(said("ok")), headers={"x-millgate-key": made.token})
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")


def test_context_is_injected_if_a_header_asks_for_it(rig, address, upstream):
    model = rig.script(answer("Within 14 days."))
    got = post(address, model, headers={"x-millgate-context": "on", "x-millgate-budget": "300"})
    sent = upstream.seen[model][0].json["messages"]
    assert len(sent) == 1
    assert "paid within 14 days" in sent[0]["content"]
    assert sent[0]["content"].endswith("When are refunds paid?")
    assert int(got.headers["x-millgate-context-tokens"]) > 0
    trace = got.headers["x-millgate-trace"]
    assert web.get(f"{address}/v1/traces/{trace}").status_code == 200
    assert upstream.seen[model][0].json["model"] == model


TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
TITLE = {"role": "system", "content": "Generate a short title for the conversation."}


def test_a_call_for_a_title_gets_no_context(rig, address, upstream):
    model = rig.script(answer("Refunds"))
    post(address, model, headers={"x-millgate-context": "on"}, messages=[TITLE, *ASK])
    assert upstream.seen[model][0].json["messages"] == [TITLE, *ASK]


def test_a_call_without_tools_in_a_session_that_has_tools_gets_no_context(rig, address, upstream):
    model = rig.script(answer("Within 14 days."), answer("Refunds"))
    headers = {"x-millgate-context": "on", "x-millgate-session": "side-calls"}
    post(address, model, headers=headers, tools=TOOLS)
    other = [{"role": "user", "content": "When are refunds paid? Name the topic."}]
    post(address, model, headers=headers, messages=other)
    first, second = (seen.json["messages"] for seen in upstream.seen[model])
    assert "paid within 14 days" in first[0]["content"]
    assert second == other


def test_what_the_window_holds_is_not_injected_again(rig, address, upstream):
    model = rig.script(answer("Yes."))
    seen = [{"role": "system", "content": ROWS[0]["text"]}, *ASK]
    post(address, model, headers={"x-millgate-context": "on"}, messages=seen)
    sent = upstream.seen[model][0].json["messages"]
    assert str(sent).count("paid within 14 days") == 1


def test_without_the_header_nothing_is_injected(rig, address, upstream):
    model = rig.script(answer("Yes."))
    post(address, model)
    assert upstream.seen[model][0].json["messages"] == ASK


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
def test_our_own_paths_never_reach_an_upstream(rig, address, upstream, method):
    upstream.script("*", [json_head(), b"{}"])
    before = upstream.accepted
    for name in OWN:
        web.request(method, f"{address}/v1/{name}")
        web.request(method, f"{address}/v1/{name}/x/y")
    assert upstream.accepted == before


def test_the_list_of_our_own_paths_is_that_of_the_routes():
    paths = {route.path for router in ROUTERS for route in router.routes}
    assert {p.split("/")[2] for p in paths if p.startswith("/v1/")} == OWN


def test_a_stream_may_take_longer_than_the_deadline(rig):
    script = [*said(*PROSE)[:-2], Pause(0.8), *said("late")[-2:]]
    policy = ProxyPolicy(upstreams={"main": rig.at()})
    settings = Settings(store=":memory:", proxy=policy, service=ServicePolicy(deadline_s=0.3))
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        got = post(url, rig.script(script), stream=True)
        stop()
    assert got.content.endswith(b"[DONE]\n\n")


def test_a_body_over_the_limit_is_told_in_the_way_of_the_api(address):
    got = post(address, "any", user="x" * (33 << 20))
    assert (got.status_code, got.json()["error"]["code"]) == (413, "too_large")


def test_without_an_upstream_the_error_says_what_to_set(rig):
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        url, stop = rig.app(create(gate))
        got = post(url, "any")
        other = web.get(f"{url}/v1/nothing")
        stop()
    assert got.status_code == 503
    assert "MILLGATE_PROXY__UPSTREAMS__MAIN__URL" in got.json()["error"]["message"]
    assert other.status_code == 404
