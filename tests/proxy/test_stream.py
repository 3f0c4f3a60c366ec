"""Streams through the proxy: what is clean passes byte for byte, what loops is cut, resumed and counted."""

import json

import pytest
from tests.proxy import web
from tests.proxy.upstream import (
    DONE,
    LOOP,
    PROSE,
    UNIT,
    Head,
    Pause,
    chunk,
    event,
    json_head,
    said,
    told,
    usage_chunk,
)
from tests.waiting import MOST_S

from millgate.guard.resume import CLOSING
from millgate.service.proxy import answer as proxy_answer

ASK = [{"role": "user", "content": "Tell me about millgates."}]


WHOLE = {"x-millgate-guard-tool-calls": "whole"}


def post(served, model, *, path="/v1/chat/completions", headers=None, **more):
    body = {"model": model, "messages": ASK, "stream": True, **more}
    if path.endswith("messages"):
        body.setdefault("max_tokens", 4000)
    return web.post(served.url + path, json=body, headers=headers, timeout=MOST_S)


def events(answer):
    lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text(answer, name="content"):
    deltas = [c["delta"] for e in events(answer) for c in e["choices"]]
    return "".join(d.get(name) or "" for d in deltas)


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}  # fmt: skip


def arguments(text, index=0):
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


SECOND = {**CALL, "index": 1, "id": "call_2"}
CLEAN = {
    "prose": said(*PROSE, usage=(12, 40)),
    "no blank after data": [e.replace(b"data: ", b"data:") for e in said(*PROSE)],
    "CRLF": [e.replace(b"\n", b"\r\n") for e in said(*PROSE)],
    "CR": [e.replace(b"\n", b"\r") for e in said(*PROSE)],
    "an event of many lines": [*said(*PROSE)[:2], b":a\n" * 5_000 + b"\n", b"data:a\n" * 5_000 + b"\n", *said(*PROSE)[2:]],
    "a large event": said("".join(f"word {n} " for n in range(150_000)), *PROSE),
    "comments": [b": hello\n\n", *said(*PROSE[:1]), b": bye\n\n"],
    "named events and ids": [b"event: message\nid: 7\n" + e for e in said(*PROSE)],
    "all in one": [b"".join(said(*PROSE))],
    "byte by byte": [bytes([b]) for b in b"".join(said("Grüße, 世界 🌊"))],
    "spaces in the JSON": [b'data: {"choices" : [ {"index":0, "delta":{"content":"\\u00e4"} , "finish_reason":"stop"} ] , "new": {"a":[1]}}\n\n', DONE],
    "content with its end": [chunk({"role": "assistant", "content": "Yes."}, finish="stop"), DONE],
    "reasoning": [*said(*PROSE, name="reasoning_content")[:-2], *said("So it is.")],
    "reasoning and content at once": [chunk({"reasoning": "hm", "content": "ah"}), *said("so")],
    "a call": [chunk({"tool_calls": [CALL]}), arguments('{"a"'), arguments(": 1}"), chunk({}, finish="tool_calls"), DONE],
    "two calls": [chunk({"tool_calls": [CALL]}), arguments("{}"), chunk({"tool_calls": [SECOND]}), arguments("{}", 1), chunk({}, finish="tool_calls"), usage_chunk(1, 2), DONE],
    "two calls in one": [chunk({"tool_calls": [CALL, SECOND]}, finish="tool_calls"), DONE],
    "words, then a call": [*said(*PROSE)[:-2], chunk({"content": "now", "tool_calls": [CALL]}), arguments("{}"), chunk({}, finish="tool_calls"), DONE],
    "a call without arguments": [chunk({"tool_calls": [CALL]}), chunk({}, finish="tool_calls"), DONE],
    "two choices": [chunk({"content": "a"}), chunk({"content": "b"}).replace(b'"index": 0', b'"index": 1'), *said("c")],
    "a repeat that ends": said(*PROSE, *[UNIT] * 2, UNIT[:40], "but never above the gate. ", *PROSE[:1]),
    "a table": said("| a | b |\n", "|---|---|\n", *[f"| {n} | {n * n} |\n" for n in range(60)]),
    "logprobs and more": [chunk({"content": "a"}, service_tier="x", obfuscation="zzz"), *said("b")],
    "no DONE": said(*PROSE)[:-1],
    "words after DONE": [*said(*PROSE), chunk({"content": "late"}), b": bye\n"],
    "a CRLF split at its end": [*(e.replace(b"\n", b"\r\n") for e in said(*PROSE)[:-1]), b"data: [DONE]\r\n\r", b"\n"],
    "a CRLF split at its end without DONE": [*(e.replace(b"\n", b"\r\n") for e in said(*PROSE)[:-2]), chunk({}, finish="stop").replace(b"\n", b"\r\n")[:-1], b"\n"],
    "no last blank line": [*said(*PROSE)[:-1], b"data: [DONE]\n"],
    "one huge event": said("word " * 2, "x".join(map(str, range(400_000)))),
}  # fmt: skip


@pytest.mark.parametrize("script", CLEAN.values(), ids=CLEAN)
def test_a_stream_without_a_loop_arrives_byte_for_byte(rig, served, script):
    answer = post(served, rig.script(script))
    assert answer.content == b"".join(script)
    assert answer.headers["x-millgate-guard"] == "on"
    assert served.reports[-1].rollbacks == 0


KINDS = {
    "in capitals": (("content-type", "Text/Event-Stream; charset=utf-8"),),
    "text/plain": (("content-type", "text/plain"),),
    "none": (),
    "JSON": (("content-type", "application/json"),),
}


@pytest.mark.parametrize("headers", KINDS.values(), ids=KINDS)
def test_a_stream_is_watched_whatever_its_content_type(rig, served, headers):
    model = rig.script([Head(200, headers), *said(*LOOP)], [Head(200, headers), *said("Well.")])
    answer = post(served, model)
    assert text(answer).endswith("Well.")
    assert text(answer).count(UNIT) <= 3
    script = told(*PROSE)
    clean = post(served, rig.script([Head(200, headers), *script]), path="/v1/messages")
    assert clean.content == b"".join(script)


@pytest.mark.parametrize("parts", [[b"d", b"ata: "], [b"\n", b"data: "], [b"\xef\xbb\xbfdata: "], [b": hello\n\ndata: "]])  # fmt: skip
def test_a_stream_without_a_content_type_is_known_by_how_it_begins(rig, served, parts):
    script = [Head(200, ()), *parts, b"".join(said(*PROSE)).removeprefix(b"data: ")]
    answer = post(served, rig.script(script))
    assert answer.content == b"".join(script[1:])
    assert served.calls[-1].outcome == "clean"


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", "application/json"])
def test_json_is_no_stream_whatever_its_content_type(rig, served, kind):
    body = b'\n{"error": {"message": "no such model"}}'
    answer = post(served, rig.script([Head(200, (("content-type", kind),)), body]))
    assert answer.content == body


@pytest.mark.parametrize("block", ["text", "thinking"])
def test_a_clean_messages_stream_arrives_byte_for_byte(rig, served, block):
    script = told(*PROSE, block=block)
    answer = post(served, rig.script(script), path="/v1/messages")
    assert answer.content == b"".join(script)


def test_what_the_client_sends_reaches_the_upstream_as_it_is(rig, served, upstream):
    model = rig.script(said("ok"))
    body = b'{"messages": [{"role":"user","content":"h\\u00f6","x":1}], "model":"%b", "stream":true, "new": {"a": 1.0}}' % model.encode()  # fmt: skip
    headers = {"content-type": "application/json", "authorization": "Bearer sk-1", "x-millgate-guard": "on", "x-own": "7"}  # fmt: skip
    web.post(f"{served.url}/v1/chat/completions?beta=1", content=body, headers=headers)
    seen = upstream.seen[model][0]
    assert seen.body == body
    assert seen.path == "/v1/chat/completions?beta=1"
    assert (seen.headers["authorization"], seen.headers["x-own"]) == ("Bearer sk-1", "7")
    assert not [name for name in seen.headers if name.startswith("x-millgate")]


def test_a_loop_is_cut_and_the_stream_goes_on_as_one(rig, served, upstream):
    again = said("All is well", " now.", id="chatcmpl-2", usage=(70, 9))
    model = rig.script(said(*LOOP), again)
    answer = post(served, model, max_tokens=900, temperature=0.0, seed=7)
    whole = text(answer)
    assert whole.startswith("".join(PROSE) + UNIT)
    assert whole.count(UNIT) <= 3
    assert whole.endswith(" All is well now.")
    kept = whole.removesuffix("All is well now.")
    assert {(e["id"], e["created"], e["model"]) for e in events(answer)} == {("chatcmpl-1", 1700000000, "up")}  # fmt: skip
    assert answer.text.count("assistant") == 1
    assert [c["finish_reason"] for e in events(answer) for c in e["choices"] if c["finish_reason"]] == ["stop"]  # fmt: skip
    assert answer.content.endswith(DONE)
    _, second = upstream.seen[model]
    asked, said_so_far, turn = second.json["messages"]
    assert asked == ASK[0]
    assert said_so_far["role"] == "assistant"
    assert kept in (said_so_far["content"], said_so_far["content"] + " ")  # a space joins the two
    assert turn["role"] == "user"
    assert second.json["temperature"] > 0
    assert second.json["max_tokens"] < 900
    assert second.json["seed"] == 7
    assert served.reports[-1].rollbacks == 1


def test_usage_is_that_of_the_last_call_and_the_sums_stand_inside(rig, served):
    model = rig.script(said(*LOOP), said("Done.", usage=(70, 9)))
    usage = events(post(served, model))[-1]["usage"]
    cut, last = usage["millgate"]["calls"]
    assert last == {"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79}
    assert cut["estimated"] is True
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        70,
        9,
        79,
    )
    assert usage["millgate"]["total_tokens"] == cut["total_tokens"] + 79
    assert usage["millgate"]["completion_tokens"] == cut["completion_tokens"] + 9
    assert usage["millgate"]["rollbacks"] == 1


def test_a_messages_stream_goes_on_in_its_block(rig, served, upstream):
    model = rig.script(told(*LOOP), told("All is well.", id="msg_2", usage=(70, 9)))
    answer = post(served, model, path="/v1/messages")
    found = events(answer)
    kinds = [e["type"] for e in found if e["type"] not in ("content_block_delta", "ping")]
    assert kinds == ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]  # fmt: skip
    whole = "".join(e["delta"].get("text", "") for e in found if e["type"] == "content_block_delta")
    assert whole.count(UNIT) <= 3
    assert whole.endswith("All is well.")
    usage = found[-2]["usage"]
    cut, last = usage["millgate"]["calls"]
    assert usage["millgate"]["output_tokens"] == cut["output_tokens"] + last["output_tokens"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (70, 9)
    assert upstream.seen[model][1].json["temperature"] <= 1


def test_a_loop_in_the_reasoning_is_cut_too(rig, served):
    looping = said(*LOOP, name="reasoning_content")
    thought = [*said("Hm.", name="reasoning_content")[:-2], *said("It is 42.")]
    answer = post(served, rig.script(looping, thought))
    assert text(answer, "reasoning_content").count(UNIT) <= 3
    assert text(answer) == "It is 42."


def test_a_looping_tool_call_that_is_held_is_asked_for_again_and_never_spliced(
    rig, served, upstream
):
    looping = [chunk({"tool_calls": [CALL]}), arguments('{"q": "'), *[arguments(UNIT)] * 400]
    good = [chunk({"tool_calls": [CALL]}, id="x"), arguments('{"q": 1}'), chunk({}, finish="tool_calls"), DONE]  # fmt: skip
    model = rig.script(looping, good)
    answer = post(served, model, headers=WHOLE)
    calls = [c for e in events(answer) for d in e["choices"] for c in d["delta"].get("tool_calls", ())]  # fmt: skip
    assert "".join(c["function"]["arguments"] for c in calls) == '{"q": 1}'
    assert [c.get("id") for c in calls if c.get("id")] == ["call_1"]
    assert len(upstream.seen[model]) == 2


def test_complete_calls_stand_when_the_next_one_loops(rig, served):
    script = [chunk({"tool_calls": [CALL]}), arguments("{}"), chunk({"tool_calls": [SECOND]}), *[arguments(UNIT, 1)] * 400]  # fmt: skip
    answer = post(served, rig.script(script), headers=WHOLE, stream_options={"include_usage": True})
    found = events(answer)
    calls = [c for e in found for d in e["choices"] for c in d["delta"].get("tool_calls", ())]
    assert [c["id"] for c in calls if "id" in c] == ["call_1"]
    assert found[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert found[-1]["choices"] == []
    assert found[-1]["usage"]["completion_tokens"] > 20
    assert answer.content.endswith(DONE)


def test_structured_output_is_delivered_whole_or_asked_for_again(rig, served, upstream):
    model = rig.script(said('{"a": "', *[UNIT] * 400), said('{"a": ', "1}"))
    answer = post(served, model, headers=WHOLE, response_format={"type": "json_object"})
    assert json.loads(text(answer)) == {"a": 1}
    assert upstream.seen[model][1].json["messages"] == ASK


def test_a_model_that_keeps_looping_ends_with_its_clean_text_and_a_sentence(rig, served, upstream):
    model = rig.script(said(*LOOP))
    answer = post(served, model)
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n")
    assert len(upstream.seen[model]) == 4
    assert text(answer).count(UNIT) <= 3
    assert text(answer).endswith(f"\n\n{CLOSING}")
    assert (served.calls[-1].error, served.calls[-1].outcome) == ("LoopError", "failed")


def test_the_retry_of_a_request_that_failed_is_cut_but_not_rolled_back_again(rig, served, upstream):
    model = rig.script(said(*LOOP), said(*LOOP), said(*LOOP), said(*LOOP), said(*LOOP), said("Done."))  # fmt: skip
    post(served, model)
    again = post(served, model)
    assert len(upstream.seen[model]) == 5
    assert text(again).endswith(f"\n\n{CLOSING}")
    assert text(post(served, model)) == "Done."


@pytest.mark.parametrize(("patience_s", "calls"), [(30.0, 5), (0.0, 8)])
def test_what_follows_a_failed_answer_at_once_is_not_rolled_back_again(
    rig, served, upstream, monkeypatch, patience_s, calls
):
    """An agent that cannot use the answer says so and asks again. A person who asks later gets every try."""
    monkeypatch.setattr(proxy_answer, "FOLLOW_UP_S", patience_s)
    model = rig.script(said(*LOOP))
    answer = text(post(served, model))
    more = [{"role": "assistant", "content": answer}, {"role": "user", "content": "Call a tool."}]
    again = post(served, model, messages=[*ASK, *more])
    assert text(again).endswith(f"\n\n{CLOSING}")
    assert len(upstream.seen[model]) == calls


def test_an_agent_that_leaves_out_a_cut_answer_and_quotes_it_is_guarded_all_the_same(
    rig, served, upstream
):
    model = rig.script(said(*LOOP), said(" So it ends."), said(*LOOP), said(" So it ends."))
    got = text(post(served, model))
    quoting = {"role": "user", "content": f"There is no call in your answer: {got}\nTry again."}
    again = text(post(served, model, messages=[*ASK, quoting]))
    assert again.count(UNIT) == got.count(UNIT) < 3
    assert len(upstream.seen[model]) == 4


def test_sampling_that_the_upstream_refuses_is_left_out(rig, served, upstream):
    model = rig.script(said(*LOOP), [json_head(400), b'{"error": {}}'], said("Well."))
    answer = post(served, model)
    assert text(answer).endswith(" Well.")
    assert "temperature" not in upstream.seen[model][2].json


def test_the_guard_can_be_turned_off_for_a_request(rig, served, upstream):
    script = said(*LOOP)
    model = rig.script(script)
    answer = post(served, model, headers={"x-millgate-guard": "off"})
    assert answer.content == b"".join(script)
    assert answer.headers["x-millgate-guard"] == "off"


def test_comments_keep_the_client_alive_while_text_is_held_back(rig, served):
    waits = [*said(*PROSE, UNIT, UNIT, UNIT[:40])[:-2], Pause(0.8), *said("And so on.")]
    answer = post(served, rig.script(waits))
    assert b": keep-alive\n\n" in answer.content
    assert text(answer) == "".join(PROSE) + UNIT * 2 + UNIT[:40] + "And so on."
    assert answer.content.replace(b": keep-alive\n\n", b"") == b"".join(
        s for s in waits if isinstance(s, bytes)
    )


def test_events_of_unknown_kind_pass(rig, served):
    script = told(*PROSE)
    script.insert(3, event("new_kind", index=0, anything={"a": 1}))
    answer = post(served, rig.script(script), path="/v1/messages")
    assert answer.content == b"".join(script)


def test_a_loop_that_comes_byte_by_byte_is_cut_too(rig, served):
    parts = b"".join(said(*LOOP[:14]))
    model = rig.script([parts[at : at + 1] for at in range(len(parts))], said("Well."))
    answer = post(served, model)
    assert text(answer).count(UNIT) <= 3
    assert text(answer).endswith("Well.")


def test_structured_output_of_messages_is_never_spliced(rig, served):
    model = rig.script(told('{"a": "', *[UNIT] * 400), told('{"a": ', "1}", id="msg_2"))
    form = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    found = events(post(served, model, path="/v1/messages", headers=WHOLE, output_config=form))
    deltas = (e["delta"] for e in found if e["type"] == "content_block_delta")
    assert json.loads("".join(delta["text"] for delta in deltas)) == {"a": 1}


def signed(text, reply):
    """A stream that thinks, signs its thoughts, and replies."""
    thought = told(text, block="thinking")[:-3]
    words = [part.replace(b'"index": 0', b'"index": 1') for part in told(reply)[1:]]
    sign = event(
        "content_block_delta", index=0, delta={"type": "signature_delta", "signature": "s"}
    )
    return [*thought, sign, event("content_block_stop", index=0), *words]


def test_thinking_that_was_cut_never_ends_and_is_dropped_when_it_comes_back(rig, served, upstream):
    looping = told(*LOOP, block="thinking")
    model = rig.script(looping, signed("Short.", "It is 42."), told("Fine."))
    body = {"thinking": {"type": "adaptive"}, "context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}  # fmt: skip
    found = events(post(served, model, path="/v1/messages", **body))
    asked = upstream.seen[model][1].json
    assert asked["thinking"] == {"type": "disabled"}
    assert "context_management" not in asked
    ended = [e["index"] for e in found if e["type"] == "content_block_stop"]
    begun = {e["index"]: e["content_block"]["type"] for e in found if e["type"] == "content_block_start"}  # fmt: skip
    assert (begun, ended) == ({0: "thinking", 1: "thinking", 2: "text"}, [1, 2])
    deltas = [(e["index"], e["delta"]) for e in found if e["type"] == "content_block_delta"]
    assert [at for at, delta in deltas if delta["type"] == "signature_delta"] == [1]
    cut = "".join(delta.get("thinking", "") for at, delta in deltas if at == 0)
    kept = {"type": "thinking", "thinking": "of another service", "signature": ""}
    said = [{"type": "thinking", "thinking": cut, "signature": ""}, kept, {"type": "text", "text": "It is 42."}]  # fmt: skip
    alone = [{"type": "thinking", "thinking": cut}]
    more = [*ASK, {"role": "assistant", "content": said}, *ASK, {"role": "assistant", "content": alone}, *ASK]  # fmt: skip
    post(served, model, path="/v1/messages", messages=more)
    sent = upstream.seen[model][2].json["messages"]
    assert sent == [*ASK, {"role": "assistant", "content": said[1:]}, *ASK, *ASK]


@pytest.mark.parametrize("count", ["-5", "-1e30", "1e30", str(2**70)])
@pytest.mark.parametrize("streams", [False, True])
def test_a_count_that_no_call_can_have_harms_neither_the_answer_nor_what_is_told_of_it(
    rig, served, count, streams
):
    usage = (
        f'"usage": {{"prompt_tokens": {count}, "completion_tokens": {count}, "total_tokens": 1}}'
    )
    if streams:
        chunk = '{"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}], '
        script = [f"data: {chunk}{usage}}}\n\ndata: [DONE]\n\n".encode()]
    else:
        choice = '{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}'
        script = [json_head(), f'{{"id": "a", "object": "chat.completion", "created": 1, "model": "up", "choices": [{choice}], {usage}}}'.encode()]  # fmt: skip
    answer = post(served, rig.script(script), stream=streams)
    assert answer.status_code == 200
    assert b"Hi" in answer.content
    assert 0 <= served.calls[-1].output_tokens <= 10**12
