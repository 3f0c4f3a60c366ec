"""A loop is cut and the answer goes on in the same stream; a model that always loops costs four calls and no more.

Of an endless loop the client gets at most 400 characters, and every count says so. Each API, streamed and whole,
through `millgate serve` and through `millgate wrap`, as an agent meets them.
"""

import json
import os
import subprocess
import sys

import pytest
from tests.proxy import web
from tests.proxy.conftest import ProxyRig
from tests.proxy.upstream import (
    DONE,
    answer,
    completion,
    json_head,
    message_item,
    pieces_of,
    response_answer,
    response_stream,
    said,
    told,
)
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.guard.resume import CLOSING
from millgate.service.app import create
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy

LEAD = "The final output is calculated as follows. The stall begins "
AFTER = "The sum of both columns is nine hundred and twelve."
NAMED_LOOPS = ["fo", "do", "therefore, "]
TOLD = {"millgate_guard_stalls_total": 4, "millgate_guard_rollbacks_total": 3, "millgate_guard_failed_total": 1,
        "millgate_guard_recovered_total": 0}  # fmt: skip


def body(*fields):
    return [json_head(), json.dumps(dict(fields)).encode()]


def messages_answer(text):
    block, usage = [{"type": "text", "text": text}], {"input_tokens": 10, "output_tokens": 5}
    return body(("id", "m"), ("type", "message"), ("role", "assistant"), ("model", "up"), ("content", block),
                ("stop_reason", "end_turn"), ("stop_sequence", None), ("usage", usage))  # fmt: skip


def completion_answer(text):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
    return body(("id", "c"), ("object", "text_completion"), ("created", 1), ("model", "up"), ("choices", [choice]))  # fmt: skip


def gemini_answer(text, finish="STOP"):
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": finish, "index": 0}  # fmt: skip
    return {"candidates": [candidate], "modelVersion": "up", "responseId": "r"}


def gemini_stream(*texts):
    return [f"data: {json.dumps(gemini_answer(text, None))}\r\n\r\n".encode() for text in texts]


def ask_of(question):
    return {"messages": [{"role": "user", "content": question}], "max_tokens": 4000}


# By API: the path, the fields of a question, and how the model answers it, streamed and whole.
APIS = {
    "chat": ("/v1/chat/completions", ask_of, said, answer),
    "messages": ("/v1/messages", ask_of, told, messages_answer),
    "responses": ("/v1/responses", lambda q: {"input": q}, lambda *t: response_stream(texts=t), lambda t: response_answer(message_item(t))),
    "completions": ("/v1/completions", lambda q: {"prompt": q}, lambda *t: [*map(completion, t), DONE], completion_answer),
    "gemini": ("/v1beta/models/", lambda q: {"contents": [{"role": "user", "parts": [{"text": q}]}]}, gemini_stream, lambda t: body(*gemini_answer(t).items())),
}  # fmt: skip
CASES = [(api, streamed) for api in APIS for streamed in (True, False)]


def request_of(api, streamed, model):
    """The path and the body of a question; no two are alike."""
    path, fields, *_ = APIS[api]
    if api == "gemini":
        method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        return f"{path}{model}:{method}", fields(f"What comes out of {model}?")
    return path, {"model": model, "stream": streamed, **fields(f"What comes out of {model}?")}


def script(rig, api, streamed, model, unit, *then):
    """A model that loops whenever it is asked, or goes on so when it is asked again: what it is asked."""
    stream, whole = APIS[api][2:]
    name = request_of(api, streamed, model)[0] if api == "gemini" else model
    texts = (LEAD + unit * (10_000 // len(unit)), *then)
    rig.upstream.script(
        name, *(stream(*pieces_of(text, 4)) if streamed else whole(text) for text in texts)
    )
    return rig.upstream.seen[name]


def texts_in(value):
    """What a client shows of an answer or an event, whatever the API."""
    if isinstance(value, list):
        return "".join(map(texts_in, value))
    if not isinstance(value, dict) or value.get("type", "").endswith((".done", ".completed")):
        return ""
    own = value.get("text") or value.get("content") or value.get("delta")
    if isinstance(own, str):
        return own
    inside = (
        "choices",
        "message",
        "delta",
        "content",
        "parts",
        "candidates",
        "output",
        "content_block",
    )
    return "".join(texts_in(value[name]) for name in inside if name in value)  # fmt: skip


def shown(reply):
    """What the client has of a reply."""
    if not reply.lstrip().startswith(("data:", "event:")):
        return texts_in(json.loads(reply))
    lines = (
        line.removeprefix("data: ") for line in reply.splitlines() if line.startswith("data: {")
    )
    return "".join(texts_in(json.loads(line)) for line in lines)  # fmt: skip


def check(reply, seen):
    """It ended after the allowed calls, in our words, and with little of the loop."""
    text = shown(reply)
    assert len(seen) == 4
    assert text.startswith(LEAD[:-1])
    assert text.endswith(CLOSING)
    assert len(text) - len(LEAD) - len(CLOSING) <= 400


@pytest.fixture(scope="module")
def rig():
    rig = ProxyRig()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def service(rig):
    """A served gate, and its address."""
    main = rig.at(idle_s=30, answer_s=30)
    beta = {"url": main.url.removesuffix("/v1") + "/v1beta", "models": ("gemini-*",)}
    policy = ProxyPolicy(upstreams={"gemini": main.model_copy(update=beta), "main": main})
    with Millgate.open(settings=Settings(store=":memory:", proxy=policy)) as gate:
        url, stop = rig.app(create(gate))
        yield url
        stop()


def counts(url):
    lines = web.get(f"{url}/metrics").text.splitlines()
    return {name: float(line.split()[1]) for name in TOLD for line in lines if line.startswith(f"{name} ")}  # fmt: skip


@pytest.mark.parametrize(("api", "streamed"), CASES)
def test_behind_serve_a_loop_is_cut_and_the_answer_goes_on_in_the_same_stream(
    rig, service, api, streamed
):
    model = f"{api}-{rig.name()}"
    seen = script(rig, api, streamed, model, "therefore, ", AFTER)
    path, fields = request_of(api, streamed, model)
    got = web.post(service + path, json=fields, timeout=MOST_S)
    text = shown(got.text)
    assert (got.status_code, len(seen)) == (200, 2)
    assert text.startswith(LEAD[:-1])
    assert text.rstrip().endswith(AFTER)
    assert len(text) - len(LEAD) - len(AFTER) <= 400


def test_the_guard_can_be_switched_off_for_a_request(rig, service):
    model = f"chat-{rig.name()}"
    script(rig, "chat", True, model, "therefore, ")
    path, fields = request_of("chat", True, model)
    off = {"x-millgate-guard": "off"}
    got = web.post(service + path, json=fields, headers=off, timeout=MOST_S)
    assert shown(got.text).count("therefore, ") == 10_000 // len("therefore, ")


@pytest.mark.parametrize("unit", NAMED_LOOPS)
@pytest.mark.parametrize(("api", "streamed"), CASES)
def test_behind_serve_an_endless_loop_fails_after_four_calls_and_is_counted(
    rig, service, api, streamed, unit
):
    model = f"{api}-{rig.name()}"
    seen, before = script(rig, api, streamed, model, unit), counts(service)
    path, fields = request_of(api, streamed, model)
    got = web.post(service + path, json=fields, timeout=MOST_S)
    assert got.status_code == 200
    check(got.text, seen)
    if not streamed:
        assert got.headers["x-millgate-rollbacks"] == "3"
    after = counts(service)
    assert {name: after[name] - before[name] for name in TOLD} == TOLD
    trace = web.get(f"{service}/v1/traces/{got.headers['x-millgate-call']}").json()
    (facts,) = (step["facts"] for step in trace["steps"] if step["stage"] == "model")
    assert (facts["outcome"], facts["rollbacks"]) == ("failed", 3)
    assert "passed_on" not in facts


AGENT = """
import json, sys, os
import httpx2
base = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
for path, fields in json.loads(sys.argv[1]):
    got = httpx2.post(base + path, json=fields, timeout=300, trust_env=False)
    print(json.dumps(got.text))
"""


@pytest.mark.slow
def test_inside_wrap_an_endless_loop_fails_after_four_calls_on_every_api(rig, tmp_path):
    asked, seen = [], []
    for number, (api, streamed) in enumerate(CASES):
        model = f"{api}-{rig.name()}"
        seen.append(script(rig, api, streamed, model, NAMED_LOOPS[number % 3]))
        asked.append(request_of(api, streamed, model))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path),
               "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"http://127.0.0.1:{rig.upstream.port}/v1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-P", "-m", "millgate", "wrap", "--patience", "60", "--",
         sys.executable, "-P", "-c", AGENT, json.dumps(asked)],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=MOST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    for reply, calls in zip(replies, seen, strict=True):
        check(reply, calls)
    assert "40 loops cut from 10 answers, 10 kept looping" in done.stderr
    assert "recovered" not in done.stderr
