"""Gemini's API through the proxy: byte for byte without a loop, one valid stream with one."""

import json

import pytest
from tests.proxy import web
from tests.proxy.upstream import CLOSE, LOOP, PROSE, UNIT, Head, json_head
from tests.waiting import MOST_S

from millgate.guard.resume import CLOSING
from millgate.types.policy import ProxyPolicy

TEXT = "".join(PROSE)
ASK = [{"role": "user", "parts": [{"text": "Tell me about millgates."}]}]
CONFIG = {"maxOutputTokens": 900, "temperature": 0.1, "thinkingConfig": {"thinkingLevel": "high"}}


def event(*parts, finish=None, usage=None, id="r1"):
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    data = {"candidates": [candidate], "modelVersion": "up", "responseId": id}
    if usage:
        counts = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
        data["usageMetadata"] = dict(zip(counts, (*usage, sum(usage)), strict=True))
    return b"data: " + json.dumps(data).encode() + b"\r\n\r\n"


def said(*texts, usage=(10, 5), id="r1", **more):
    events = [event({"text": text, **more}, usage=(usage[0], 1), id=id) for text in texts]
    return [*events, event({"text": ""}, finish="STOP", usage=usage, id=id)]


@pytest.fixture(scope="module")
def gemini(rig):
    up = rig.at(idle_s=5, answer_s=5, connect_s=5)
    beta = up.model_copy(update={"url": up.url.removesuffix("/v1") + "/v1beta"})
    return rig.serve(ProxyPolicy(upstreams={"main": beta}))


@pytest.fixture
def script(rig, upstream):
    """Scripts a model, which stands in the path: its name, and what was asked of it."""

    def made(*calls, method="streamGenerateContent?alt=sse"):
        name = rig.name()
        path = f"/v1beta/models/{name}:{method}"
        upstream.script(path, *calls)
        return name, upstream.seen[path]

    return made


def post(
    served, model, *, method="streamGenerateContent?alt=sse", contents=ASK, headers=None, **more
):
    body = {"contents": contents, **more}
    return web.post(f"{served.url}/v1beta/models/{model}:{method}", json=body, headers=headers, timeout=MOST_S)  # fmt: skip


def events(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def text_of(found, thought=None):
    return "".join(
        part.get("text", "")
        for one in found
        for part in one["candidates"][0]["content"]["parts"]
        if part.get("thought") is thought
    )


def test_a_stream_without_a_loop_arrives_byte_for_byte(gemini, script):
    model, seen = script(said(*PROSE))
    answer = post(gemini, model, headers={"x-goog-api-key": "of-the-client"})
    assert answer.content == b"".join(said(*PROSE))
    assert answer.headers["x-millgate-guard"] == "on"
    assert seen[0].headers["x-goog-api-key"] == "of-the-client"
    assert json.loads(seen[0].body) == {"contents": ASK}
    assert (gemini.calls[-1].model, gemini.calls[-1].input_tokens, gemini.calls[-1].output_tokens) == (model, 10, 5)  # fmt: skip


def test_a_loop_is_cut_and_the_stream_goes_on(gemini, script):
    model, seen = script(said(*LOOP), said("All is well.", usage=(70, 9), id="r2"))
    answer = post(gemini, model, generationConfig=CONFIG)
    found = events(answer)
    assert text_of(found).startswith(TEXT + UNIT)
    assert text_of(found).endswith("All is well.")
    assert text_of(found).count(UNIT) <= 3
    assert {one["responseId"] for one in found} == {"r1"}
    assert [one["candidates"][0].get("finishReason") for one in found if one["candidates"][0].get("finishReason")] == ["STOP"]  # fmt: skip
    usage = found[-1]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["candidatesTokenCount"]) == (70, 9)
    assert usage["millgate"]["candidatesTokenCount"] > 9
    again = seen[1].json
    assert [content["role"] for content in again["contents"]] == ["user", "model", "user"]
    assert again["contents"][0] == ASK[0]
    assert again["contents"][1]["parts"][0]["text"].startswith(TEXT)
    assert again["generationConfig"]["temperature"] > 0.1
    assert again["generationConfig"]["maxOutputTokens"] < 900


def test_a_loop_of_thoughts_asks_for_less_thinking(gemini, script):
    model, seen = script(said(*LOOP, thought=True), said("It is 42."))
    found = events(post(gemini, model, generationConfig=CONFIG))
    assert text_of(found) == "It is 42."
    assert text_of(found, thought=True).count(UNIT) <= 3
    assert seen[1].json["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low"}


def test_a_model_that_keeps_looping_ends_with_a_sentence(gemini, script):
    model, seen = script(said(*LOOP))
    found = events(post(gemini, model))
    assert text_of(found).endswith(CLOSING)
    assert found[-1]["candidates"][0]["finishReason"] == "STOP"
    assert len(seen) == 4


def test_a_whole_answer_is_guarded_too(gemini, script):
    def whole(text, id):
        data = json.loads(event({"text": text}, finish="STOP", usage=(10, 5), id=id)[6:])
        return [json_head(), json.dumps(data).encode()]

    clean, _ = script(whole(TEXT, "r1"), method="generateContent")
    assert post(gemini, clean, method="generateContent").content == whole(TEXT, "r1")[1]
    model, _ = script(whole("".join(LOOP), "r1"), whole("All is well.", "r2"), method="generateContent")  # fmt: skip
    got = post(gemini, model, method="generateContent").json()
    assert got["responseId"] == "r1"
    assert text_of([got]).endswith("All is well.")
    assert text_of([got]).count(UNIT) <= 3


def test_function_calls_pass_as_they_came(gemini, script):
    call = {"functionCall": {"name": "look", "args": {"at": "here"}}, "thoughtSignature": "s"}
    calls = [event({"text": "I look."}), event(call, {"functionCall": {"name": "go", "args": {}}}, finish="STOP")]  # fmt: skip
    model, _ = script(calls)
    assert post(gemini, model).content == b"".join(calls)


def test_an_array_passes_as_it_comes(gemini, script):
    method = "streamGenerateContent"
    body = b"[" + said(*LOOP)[0][6:] + b"]"
    model, _ = script([json_head(), body], method=method)
    answer = post(gemini, model, method=method)
    assert answer.content == body
    assert "alt is not sse" in answer.headers["x-millgate-guard-reason"]


def test_errors_have_googles_form_and_faults_pass(gemini, script):
    bad = post(gemini, "m", contents=[])
    assert (bad.status_code, bad.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    early = [event({"text": "half"})]
    model, _ = script(early)
    assert post(gemini, model).content == b"".join(early)
    broken, _ = script([Head(raw=b""), CLOSE])
    assert post(gemini, broken).json()["error"]["code"] == 502


def test_the_stable_version_stands_for_that_of_the_upstream(gemini, script):
    model, seen = script(said(*LOOP), said("All is well."))
    url = f"{gemini.url}/v1/models/{model}:streamGenerateContent?alt=sse"
    assert text_of(events(web.post(url, json={"contents": ASK}))).endswith("All is well.")
    assert len(seen) == 2


@pytest.mark.parametrize("base", ["/v1", "/v1beta", ""])
def test_a_version_that_the_client_names_is_asked_for_whatever_the_upstream_has(rig, script, base):
    model, seen = script(said(*PROSE))
    up = rig.at()
    other = up.model_copy(update={"url": up.url.removesuffix("/v1") + base})
    served = rig.serve(ProxyPolicy(upstreams={"main": other}))
    assert post(served, model).content == b"".join(said(*PROSE))
    assert len(seen) == 1


def test_other_methods_pass(gemini, script):
    model, seen = script([json_head(), b'{"totalTokens": 3}'], method="countTokens")
    assert post(gemini, model, method="countTokens").json() == {"totalTokens": 3}
    assert len(seen) == 1


def circle(copies):
    contents = list(ASK)
    for _ in range(copies):
        call = {"functionCall": {"name": "look", "args": {"at": "here"}}}
        result = {"functionResponse": {"name": "look", "response": {"output": "nothing here"}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    return contents


def test_circles_get_notes_and_an_end(gemini, script):
    model, seen = script(said("Hm."))
    post(gemini, model, contents=circle(3))
    sent = seen[0].json["contents"]
    assert sent[:-1] == circle(3)[:-1]
    response = sent[-1]["parts"][0]["functionResponse"]["response"]
    assert response["output"] == "nothing here"
    assert "third time" in response["note"]
    ended = events(post(gemini, model, contents=circle(8)))
    assert "going in circles" in text_of(ended)
    assert ended[-1]["candidates"][0]["finishReason"] == "STOP"
    assert len(seen) == 1
