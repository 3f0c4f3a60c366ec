"""How a model is asked to go on: with other sampling, by words if it takes none, and at last at another upstream."""

import json

import pytest
from tests.proxy import web
from tests.proxy.upstream import (
    LOOP,
    PROSE,
    UNIT,
    answer,
    chunk,
    completion_stream,
    json_head,
    said,
    told,
)
from tests.waiting import MOST_S

from millgate.errors import ConfigError
from millgate.guard.policy import GuardPolicy
from millgate.guard.resume import ANSWER_NOW, FINISH, NUDGE
from millgate.service.proxy.proxy import Proxy
from millgate.service.proxy.upstreams import FORGET_S, MOST_FACTS, ExpiringSet
from millgate.types.policy import ProxyPolicy

ASK = [{"role": "user", "content": "Tell me about millgates."}]
REFUSES = [json_head(400), b'{"error": {"message": "temperature is not supported", "type": "t", "code": "c"}}']  # fmt: skip
TEXT = "".join(PROSE)


def post(served, model, *, path="/v1/chat/completions", headers=None, **more):
    body = {"model": model, "messages": ASK, "stream": True, "max_tokens": 4000, **more}
    return web.post(served.url + path, json=body, headers=headers, timeout=MOST_S)


def text_of(got):
    lines = [line[6:] for line in got.text.split("\n") if line.startswith("data: {")]
    return "".join(c["delta"].get("content") or "" for line in lines for c in json.loads(line)["choices"])  # fmt: skip


def test_a_model_that_refuses_temperature_is_asked_by_words_and_not_tempted_again(rig, upstream):
    served = rig.serve()
    model = rig.script(said(*LOOP), REFUSES, said("One."), said(*LOOP), said(*LOOP), said("Two."))
    assert text_of(post(served, model)).endswith("One.")
    heated, worded = (seen.json for seen in upstream.seen[model][1:3])
    assert heated["temperature"] > 0
    assert "temperature" not in worded
    assert worded["messages"][-1]["content"] == NUDGE
    assert worded["messages"][-2]["content"] == TEXT
    assert text_of(post(served, model)).endswith("Two.")
    second, third = (seen.json for seen in upstream.seen[model][4:6])
    assert "temperature" not in second
    assert [s["messages"][-1]["content"] for s in (second, third)] == [NUDGE, FINISH]
    assert third["messages"][-2]["content"].startswith(TEXT + UNIT[:-1])  # what the client has


def test_one_refused_resume_does_not_switch_sampling_off_for_the_model(rig, upstream):
    served = rig.serve()
    full = [json_head(400), b'{"error": {"message": "the prompt is longer than the context"}}']
    model = rig.script(said(*LOOP), full, said("One."), said(*LOOP), said("Two."))
    assert text_of(post(served, model)).endswith("One.")
    assert text_of(post(served, model)).endswith("Two.")
    assert "temperature" not in upstream.seen[model][2].json
    assert upstream.seen[model][4].json["temperature"] > 0


def test_a_refusal_is_forgotten_after_a_while_and_there_are_never_many():
    now = [100.0]
    refusals = ExpiringSet(clock=lambda: now[0])
    assert ("up", "m", "refuses sampling") not in refusals
    refusals.add("up", "m", "refuses sampling")
    assert ("up", "m", "refuses sampling") in refusals
    assert ("up", "m", "usage") not in refusals
    now[0] += FORGET_S + 1
    assert ("up", "m", "refuses sampling") not in refusals
    for n in range(MOST_FACTS + 1):
        refusals.add("up", f"m{n}", "sampling")
    assert ("up", "m0", "sampling") not in refusals
    assert ("up", f"m{MOST_FACTS}", "sampling") in refusals


def test_thinking_takes_no_temperature_and_is_switched_off_when_it_loops(rig, served, upstream):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    model = rig.script(told(*LOOP, block="thinking"), told("42.", id="msg_2"))
    got = post(served, model, path="/v1/messages", thinking=thinking)
    assert "42." in got.text
    second = upstream.seen[model][1].json
    assert second["thinking"] == {"type": "disabled"}
    assert "temperature" not in second
    assert second["messages"][-1]["content"].endswith(ANSWER_NOW)


def test_a_refused_change_of_thinking_falls_back_to_words(rig, served, upstream):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    model = rig.script(told(*LOOP, block="thinking"), REFUSES, told("42.", id="msg_2"))
    assert "42." in post(served, model, path="/v1/messages", thinking=thinking).text
    third = upstream.seen[model][2].json
    assert third["thinking"] == thinking
    assert third["messages"][-1]["content"].endswith(ANSWER_NOW)


def test_a_loop_in_the_reasoning_of_a_chat_is_answered_with_answer_now(rig, served, upstream):
    model = rig.script(said(*LOOP, name="reasoning_content"), said("42."))
    post(served, model, reasoning_effort="high")
    second = upstream.seen[model][1].json
    assert second["messages"][-1]["content"].endswith(ANSWER_NOW)
    assert second["reasoning_effort"] == "low"


# Text completions


def test_a_completion_goes_on_behind_its_prompt(rig, served, upstream):
    model = rig.script(completion_stream(*LOOP), completion_stream("All is well.", id="cmpl-2"))
    body = {"model": model, "prompt": "Once upon a time", "stream": True, "max_tokens": 900}
    got = web.post(f"{served.url}/v1/completions", json=body, timeout=MOST_S)
    found = [json.loads(line[6:]) for line in got.text.split("\n") if line.startswith("data: {")]
    text = "".join(c["text"] for e in found for c in e["choices"])
    assert text.startswith(TEXT + UNIT)
    assert text.count(UNIT) <= 3
    assert text.endswith("All is well.")
    assert {e["id"] for e in found} == {"cmpl-1"}
    second = upstream.seen[model][1].json
    assert second["prompt"] == "Once upon a time" + text.removesuffix("All is well.")
    assert second["temperature"] > 0
    assert got.text.endswith("[DONE]\n\n")


# Another upstream


@pytest.fixture(scope="module")
def rescued(rig):
    upstreams = {
        "main": rig.at(models=["model-*"]),
        "rescue": rig.at(models=["rescue-*", "rescue-1"], key="sk-rescue"),
    }
    guard = GuardPolicy(rescue_upstream="rescue", max_rollbacks=2)
    return rig.serve(ProxyPolicy(upstreams=upstreams), guard)


def test_the_last_try_goes_to_the_rescue_on_the_same_stream_with_its_own_key(rig, rescued, upstream):  # fmt: skip
    model = rig.script(said(*LOOP))
    upstream.script("rescue-1", said("All is well.", id="other"))
    got = post(rescued, model, headers={"authorization": "Bearer sk-client"})
    assert text_of(got).endswith("All is well.")
    assert got.text.count('"other"') == 0
    assert len(upstream.seen[model]) == 2
    (seen,) = upstream.seen["rescue-1"]
    assert seen.headers["authorization"] == "Bearer sk-rescue"
    assert "sk-client" not in str(seen.headers)
    assert seen.json["messages"][-1]["content"] == FINISH
    call = rescued.calls[-1]
    assert (call.outcome, call.rescued_by, call.report.rollbacks) == ("recovered", "rescue", 2)


def test_a_rescue_that_does_not_answer_leaves_the_last_try_to_the_first(rig, rescued, upstream):
    model = rig.script(said(*LOOP), said(*LOOP), said("Well."))
    upstream.script("rescue-1", [json_head(500), b"{}"])
    assert text_of(post(rescued, model)).endswith("Well.")
    assert rescued.calls[-1].rescued_by == ""


def test_a_whole_answer_is_rescued_too(rig, rescued, upstream):
    model = rig.script(answer("".join(LOOP)))
    upstream.script("rescue-1", answer("All is well.", id="other"))
    got = post(rescued, model, stream=False).json()
    assert got["choices"][0]["message"]["content"].endswith("All is well.")
    assert got["id"] == "chatcmpl-1"


async def test_a_rescue_that_is_no_upstream_is_an_error_at_the_start():
    with pytest.raises(ConfigError, match="rescue_upstream is 'moon'"):
        Proxy(ProxyPolicy(), GuardPolicy(rescue_upstream="moon"))


# What cannot be resumed


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {"n": 2}),
        ("/v1/completions", {"prompt": "x", "n": 2}),
        ("/v1/completions", {"prompt": ["a", "b"]}),
        ("/v1/completions", {"prompt": [1, 2, 3]}),
        ("/v1/completions", {"prompt": "x", "echo": True}),
    ],
)
def test_what_cannot_be_resumed_passes_unwatched_and_says_so(rig, served, path, more):
    script = [*said(*LOOP)[:-2], chunk({}, finish="stop")]
    got = post(served, rig.script(script), path=path, **more)
    assert got.content == b"".join(script)
    assert got.headers["x-millgate-guard"] == "off"
    assert "cannot be resumed" in got.headers["x-millgate-guard-reason"]
    assert served.calls[-1].unwatched == got.headers["x-millgate-guard-reason"]
    assert served.calls[-1].outcome == "off"
