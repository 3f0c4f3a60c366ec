"""The cache witness in the proxy: what broke the prompt cache is told in a header and in the trace of the call."""

from types import SimpleNamespace

import pytest
from tests.proxy import web
from tests.proxy.upstream import LOOP, PROSE, json_head, said, told
from tests.waiting import MOST_S

from millgate.explain.describe import describe
from millgate.guard.dialects.usage import UsageSum
from millgate.service.observe.call_trace import call_trace
from millgate.spending.prices import Price, Prices
from millgate.spending.spending import FusePolicy, Spending
from millgate.types import CallCost
from millgate.types.notes import Stage
from millgate.types.policy import ProxyPolicy

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


def chat_stream(read, fresh):
    """A stream of chat completions that reports its usage."""
    usage = (
        b'{"prompt_tokens":%d,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}}'
    )
    counted = b'data: {"choices":[],"usage":' + usage % (read + fresh, read) + b"}\n\n"
    *events, done = said(*PROSE)
    return [*events, counted, done]


def messages_stream(read, written):
    """A stream of Anthropic's API that reports what it read and wrote."""
    usage = b'"usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d}'
    first, *events = told(*PROSE)
    start = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],'
    assert b"message_start" in first
    return [start + usage % (read, written) + b"}}\n\n", *events]


STREAMS = {"chat": chat_stream, "messages": messages_stream}


def ask(served, api, model, messages, system="Be brief.", **headers):
    body = {"model": model, "stream": True, "max_tokens": 100, "messages": messages}
    if api == "messages":
        body["system"] = system
    else:
        body["messages"] = [{"role": "system", "content": system}, *messages]
    reply = web.post(served.url + PATHS[api], json=body, timeout=MOST_S, headers={"x-millgate-session": model, **headers})  # fmt: skip
    assert reply.status_code == 200
    return reply


def cache_step(served):
    trace = call_trace(served.calls[-1], tenant="default", now=0.0)
    return next((step.facts for step in trace.steps if step.stage is Stage.CACHE), None)


@pytest.mark.parametrize("api", PATHS)
def test_a_changed_system_prompt_is_named_with_what_it_cost(rig, served, api):
    write = STREAMS[api]
    model = rig.script(write(0, 9_000), write(9_000, 200), write(0, 9_400))
    said = [{"role": "user", "content": "Mend the parser."}]
    first = ask(served, api, model, said)
    assert "x-millgate-cache" not in first.headers
    said += [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "Yours."}]
    second = ask(served, api, model, said)
    assert second.headers["x-millgate-cache"] == "extends the last request"
    assert "blame" not in cache_step(served)
    said += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    third = ask(served, api, model, said, system="Be brief. It is 14:32.")
    assert third.headers["x-millgate-cache"].startswith("broken: system block 1 (")
    facts = cache_step(served)
    assert facts["blame"] == "client"
    assert facts["change"] == "system changed"
    assert (facts["read"], facts["lost"]) == (0, 9_200)
    (broken,) = describe(call_trace(served.calls[-1], tenant="default", now=0.0)).done
    assert broken.what.startswith("the prompt cache broke: system block 1 (")
    assert "9,200 tokens were paid in full again" in broken.what


def test_a_known_model_has_a_cost_and_a_break_its_share(rig, served, upstream):
    model = rig.script(messages_stream(0, 100_000), messages_stream(0, 101_000))
    price = Price(input=5, output=25, cached=0.5, written=6.25)
    served.proxy.gate_for = lambda _caller: SimpleNamespace(spending=Spending(None, "t", FusePolicy(), prices=Prices({model: price})))  # fmt: skip
    said = [{"role": "user", "content": "Mend the parser."}]
    ask(served, "messages", model, said)
    said += [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "Yours."}]
    ask(served, "messages", model, said, system="It is 14:32.")
    call = served.calls[-1]
    assert call.cost == pytest.approx((3 * 5 + 101_000 * 6.25 + 5 * 25) / 1e6)
    assert call.cache_cost == pytest.approx(100_000 * (6.25 - 0.5) / 1e6)
    (broken,) = describe(call_trace(call, tenant="default", now=0.0)).done
    assert broken.what.endswith("100,000 tokens were paid in full again, about $0.57 more")


@pytest.mark.parametrize("api", PATHS)
def test_the_tokens_of_a_call_that_was_asked_again_are_those_that_it_cost(rig, served, api):
    looping = [*STREAMS[api](0, 9_000)[:-2], *{"chat": said, "messages": told}[api](*LOOP)[1:]]
    model = rig.script(looping, STREAMS[api](9_000, 400))
    ask(served, api, model, [{"role": "user", "content": "Mend the parser."}])
    call = served.calls[-1]
    assert call.report.rollbacks == 1
    spent = CallCost.of(call_trace(call, tenant="default", now=0.0))
    assert spent.read >= 9_000
    all_of_it = call.input_tokens + call.cached_input.read + call.cached_input.written
    assert spent.read + spent.written + spent.fresh == all_of_it > 9_400
    first = cache_step(served)
    assert first["read"] + first["written"] + first["fresh"] < all_of_it


@pytest.mark.parametrize("api", PATHS)
def test_an_answer_that_the_guard_does_not_watch_is_read_for_its_usage(rig, served, api):
    write = STREAMS[api]
    model = rig.script(write(0, 9_000), write(0, 9_400))
    said = [{"role": "user", "content": "Mend the parser."}]
    ask(served, api, model, said, **{"x-millgate-guard": "off"})
    assert cache_step(served) == {"read": 0, "written": 9_000 if api == "messages" else 0, "fresh": 3 if api == "messages" else 9_000}  # fmt: skip
    said += [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "Yours."}]
    reply = ask(served, api, model, said, system="It is 14:32.", **{"x-millgate-guard": "off"})
    assert reply.content == b"".join(write(0, 9_400))
    assert cache_step(served)["blame"] == "client"


@pytest.mark.parametrize("guard", ["on", "off"])
def test_what_the_service_itself_says_about_a_miss_is_told(rig, served, guard):
    start, *events = messages_stream(0, 9_400)
    why = b'"diagnostics":{"cache_miss_reason":{"type":"tools_changed","cache_missed_input_tokens":9000}},"usage"'
    model = rig.script(messages_stream(0, 9_000), [start.replace(b'"usage"', why), *events])
    said = [{"role": "user", "content": "Mend the parser."}]
    ask(served, "messages", model, said, **{"x-millgate-guard": guard})
    said += [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "Yours."}]
    ask(served, "messages", model, said, **{"x-millgate-guard": guard})
    assert cache_step(served)["reason"].endswith("(the provider says: tools changed)")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"response": {"prompt_cache_diagnostics": {"type": "cache_miss", "reason": "model_changed"}}}, "model changed"),
        ({"prompt_cache_diagnostics": {"type": "cache_hit"}}, ""),
        ({"message": {"diagnostics": {"cache_miss_reason": None}}}, ""),
        ({"diagnostics": [], "prompt_cache_diagnostics": 3}, ""),
        ({"diagnostics": {"cache_miss_reason": {"type": 7}}}, ""),
    ],
)  # fmt: skip
def test_each_services_word_for_a_miss_is_read_and_what_is_none_is_not(answer, told):
    usage = UsageSum()
    usage.note_diagnosis(answer)
    assert usage.cache_diagnosis == told


def test_a_model_that_never_reads_a_cache_is_never_told_to_have_broken_it(rig, served):
    model = rig.script(*[chat_stream(0, 9_000)] * 3)
    said = [{"role": "user", "content": "Mend the parser."}]
    for _ in range(3):
        ask(served, "chat", model, said)
        assert "blame" not in cache_step(served)
        said += [{"role": "assistant", "content": "Which?"}, {"role": "user", "content": "Yours."}]


def ask_with_tools(served, model, names, *said):
    """A question of Anthropic's API with tools in this order, without marks."""
    messages = [{"role": "user", "content": text} for text in said]
    body = {"model": model, "stream": True, "max_tokens": 100, "messages": messages}
    body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return web.post(served.url + PATHS["messages"], json=body, timeout=MOST_S, headers={"x-millgate-session": model})  # fmt: skip


def repairing(rig):
    upstreams = {"main": rig.at(idle_s=5, answer_s=5, connect_s=5)}
    return rig.serve(ProxyPolicy(upstreams=upstreams, repair=("tools", "marks")))


def test_a_repair_is_sent_told_and_traced(rig, upstream):
    served = repairing(rig)
    model = rig.script(messages_stream(0, 9_000), messages_stream(9_000, 200))
    ask_with_tools(served, model, "abc", "Mend the parser.")
    reply = ask_with_tools(served, model, "cab", "Mend the parser.", "Go on.")
    sent = upstream.seen[model][1].json
    assert [tool["name"] for tool in sent["tools"]] == ["a", "b", "c"]
    assert sent["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert reply.headers["x-millgate-cache"] == "extends the last request"
    told_by = "the tools are in the order of the last request; cache_control is put on the last block"  # fmt: skip
    assert reply.headers["x-millgate-repaired"] == told_by
    trace = call_trace(served.calls[-1], tenant="default", now=0.0)
    assert trace.steps[0].facts["repaired"] == told_by


def test_a_repair_that_the_upstream_refuses_costs_no_answer(rig, upstream):
    served = repairing(rig)
    model = rig.script(messages_stream(0, 9_000), [json_head(400), b'{"error": {}}'], messages_stream(0, 9_000))  # fmt: skip
    ask_with_tools(served, model, "abc", "Mend the parser.")
    reply = ask_with_tools(served, model, "cab", "Mend the parser.", "Go on.")
    assert reply.status_code == 200
    assert "x-millgate-repaired" not in reply.headers
    assert [tool["name"] for tool in upstream.seen[model][2].json["tools"]] == ["c", "a", "b"]


def test_nothing_is_repaired_unless_the_setting_asks_for_it(rig, served, upstream):
    model = rig.script(messages_stream(0, 9_000), messages_stream(0, 9_000))
    ask_with_tools(served, model, "abc", "Mend the parser.")
    reply = ask_with_tools(served, model, "cab", "Mend the parser.", "Go on.")
    assert [tool["name"] for tool in upstream.seen[model][1].json["tools"]] == ["c", "a", "b"]
    assert "cache_control" not in str(upstream.seen[model][1].json)
    assert reply.headers["x-millgate-cache"].startswith("broken: the order of tools changed")
