"""Bad days of an upstream, each with the one outcome a client sees.

before  nothing was sent yet: a status and an error body        passed  the upstream's own answer, as it came
after   text was sent: an error event, and no [DONE]            whole   the stream is complete all the same
"""

import gzip
import json

import pytest
from tests.proxy import web
from tests.proxy.upstream import (
    CLOSE,
    DONE,
    PROSE,
    RESET,
    Endless,
    Head,
    Pause,
    chunk,
    event,
    json_head,
    said,
    told,
)

from headgate.guard.policy import GuardPolicy
from headgate.policy import ProxyPolicy, UpstreamPolicy

BEGUN = said(*PROSE)[:-2]
TEXT = "".join(PROSE)
HTML = Head(502, (("content-type", "text/html"),))


def packed(coding):
    return Head(200, (("content-type", "text/event-stream"), ("content-encoding", coding)))


PACKED = packed("gzip")
PACKED_PROSE = gzip.compress(b"".join(said(*PROSE)))
BROTLI = packed("br")
LENGTH = Head(200, (("content-type", "text/event-stream"), ("content-length", "100000")), chunked=False)  # fmt: skip
UNFRAMED = Head(200, (("content-type", "text/event-stream"), ("connection", "close")), chunked=False)  # fmt: skip
EARLY = Head(raw=b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")  # fmt: skip

LONG = " ".join(str(n * n) for n in range(9000))  # nothing repeats within the longest period

FAULTS = {
    # the connection
    "reset before the answer": ([RESET], "before", 502, "upstream_failed"),
    "closed before the answer": ([Head(raw=b""), CLOSE], "before", 502, "closed"),
    "reset in the middle": ([*BEGUN, RESET], "after", 0, "closed the connection"),
    "closed in the middle": ([*BEGUN, CLOSE], "after", 0, "closed the connection"),
    "fewer bytes than said": ([LENGTH, *BEGUN, CLOSE], "after", 0, "closed the connection"),
    "no answer in time": ([Pause(5), *BEGUN], "before", 504, "no answer within"),
    "a stall before the first event": ([Head(), Pause(5)], "before", 504, "sent nothing"),
    "a stall in the middle": ([*BEGUN, Pause(5)], "after", 0, "sent nothing"),
    # the protocol
    "not HTTP": ([Head(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), CLOSE], "before", 502, "not HTTP"),
    "an endless head": ([Head(raw=b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000), Pause(5)], "before", 502, "head"),
    "100 Continue first": ([EARLY, *said(*PROSE)], "whole", 200, ""),
    "an end by closing": ([UNFRAMED, *said(*PROSE)], "whole", 200, ""),
    "bad chunk size": ([*BEGUN, Head(raw=b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), Pause(5)], "before", 502, "not HTTP"),
    "compressed unasked": ([PACKED, gzip.compress(b"".join(said(*PROSE)))], "whole", 200, ""),
    "compressed in capitals": ([packed("GZIP"), PACKED_PROSE], "whole", 200, ""),
    "compressed by an old name": ([packed("x-gzip"), PACKED_PROSE], "whole", 200, ""),
    "compressed twice": ([packed("Gzip, gzip"), gzip.compress(PACKED_PROSE)], "whole", 200, ""),
    "compressed by something else": ([BROTLI, b"xxx"], "passed", 200, ""),
    "half of a gzip": ([PACKED, gzip.compress(b"".join(said(*PROSE)))[:60]], "before", 502, "before the answer was complete"),
    # what the upstream says itself
    "429": ([json_head(429, **{"retry-after": "7"}), b'{"error": {"message": "slow down", "type": "rate", "code": null}}'], "passed", 429, "slow down"),
    "500": ([json_head(500), b'{"error": {"message": "oops"}}'], "passed", 500, "oops"),
    "401": ([json_head(401), b'{"error": {"message": "no key"}}'], "passed", 401, "no key"),
    "502 in HTML": ([HTML, b"<html>Bad gateway</html>"], "passed", 502, "Bad gateway"),
    "a redirect": ([Head(307, (("location", "http://127.0.0.1:1/"),))], "passed", 307, ""),
    "an error told in the stream": ([*BEGUN, b'data: {"error": {"message": "out of memory", "code": 500}}\n\n', DONE], "after", 0, "out of memory"),
    "an error told at once": ([b'data: {"error": {"message": "out of memory"}}\n\n'], "after", 0, "out of memory"),
    # the stream
    "wrong JSON": ([*BEGUN, b'data: {"choices": [\n\n', DONE], "after", 0, "not JSON"),
    "wrong JSON at once": ([b"data: hello\n\n"], "before", 502, "not JSON"),
    "not an object": ([*BEGUN, b"data: [1, 2]\n\n"], "after", 0, "not an object"),
    "a strange shape": ([*BEGUN, b'data: {"choices": ["x"]}\n\n'], "after", 0, "strange shape"),
    "another strange shape": ([*BEGUN, b'data: {"choices": [{"delta": {"tool_calls": 5}}]}\n\n'], "after", 0, "strange shape"),
    "half a line": ([*BEGUN, b'data: {"choices": [{"del'], "after", 0, "not JSON"),
    "an end without a finish": ([*BEGUN], "after", 0, "before the answer was complete"),
    "nothing at all": ([Head()], "before", 502, "before the answer was complete"),
    "no DONE": (said(*PROSE)[:-1], "whole", 200, ""),
    "split UTF-8": ([bytes([b]) for b in b"".join(said(*PROSE, "ü世🌊"))], "whole", 200, "ü世🌊"),
    "broken UTF-8": ([*BEGUN, b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'], "after", 0, "not JSON"),
    "a flood of comments": ([*[b": ping\n\n" * 1000] * 20, *said(*PROSE)], "whole", 200, ""),
    "a flood of empty lines": ([b"\n" * 500_000, *said(*PROSE)], "whole", 200, ""),
    "a huge event": (said(*PROSE, "".join(f"{n} " for n in range(150_000))), "whole", 200, "149999"),
    "an event without end": ([*BEGUN, Endless(b"data: " + b"x" * 65_536)], "after", 0, "max_stream_bytes"),
    "an endless stream": ([*BEGUN, Endless(chunk({"content": LONG}))], "after", 0, "max_stream_bytes"),
    "an endless tool call": ([chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": LONG}}]}), Endless(chunk({"tool_calls": [{"index": 0, "function": {"arguments": LONG}}]}))], "after", 0, "max_stream_bytes"),
    "NUL and control characters": (said(*PROSE, "\x00\x01\x1b[31m"), "whole", 200, ""),
    "a lone surrogate": ([*BEGUN, b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n'], "after", 0, "not JSON"),
    "deep nesting": ([*BEGUN, b'data: {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"], "after", 0, "not JSON"),
}  # fmt: skip


@pytest.fixture(scope="module")
def narrow(rig):
    """A proxy with small limits."""
    up = rig.at(idle_s=2, answer_s=2, connect_s=5)
    limits = {
        "max_event_bytes": 1_500_000,
        "max_stream_bytes": 2_000_000,
        "max_held_bytes": 1_000_000,
    }
    return rig.serve(ProxyPolicy(upstreams={"main": up}, **limits), GuardPolicy(keep_alive_s=30))


def post(served, model, path="/v1/chat/completions"):
    body = {"model": model, "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}  # fmt: skip
    return web.post(served.url + path, json=body, timeout=30)


@pytest.mark.parametrize(("script", "outcome", "status", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_has_its_outcome(rig, narrow, script, outcome, status, words):
    answer = post(narrow, rig.script(script))
    if outcome == "passed":
        assert answer.status_code == status
        assert answer.content == b"".join(s for s in script if isinstance(s, bytes))
        return
    assert words in answer.text
    if outcome == "before":
        assert answer.status_code == status
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return
    assert answer.status_code == 200
    last = answer.content.rstrip().rsplit(b"\ndata: ", 1)[-1].removeprefix(b"data: ")
    if outcome == "whole":
        assert TEXT in said_in(answer)
        assert b'"error"' not in answer.content
        assert (last == b"[DONE]") is (DONE in b"".join(s for s in script if isinstance(s, bytes)) or "zip" in str(script[0]).lower())  # fmt: skip
        return
    assert "error" in json.loads(last)
    assert b"[DONE]" not in answer.content
    assert said_in(answer) == "" or said_in(answer).startswith(TEXT)


def said_in(answer):
    found = [json.loads(x) for x in ("\n" + answer.text).split("\ndata: ") if x.startswith("{")]
    return "".join(c["delta"].get("content") or "" for f in found for c in f.get("choices", ()))


def test_a_retry_hint_reaches_the_client(rig, narrow):
    script, *_ = FAULTS["429"]
    assert post(narrow, rig.script(script)).headers["retry-after"] == "7"


MESSAGES = {
    "reset in the middle": ([*told(*PROSE)[:5], RESET], "closed the connection"),
    "an error told in the stream": (
        [*told(*PROSE)[:5], event("error", error={"type": "overloaded_error", "message": "full"})],
        "full",
    ),
    "an end without message_stop": (told(*PROSE)[:-1], "before the answer was complete"),
    "a strange shape": ([*told(*PROSE)[:5], event("content_block_delta", index="x")], "strange"),
}


@pytest.mark.parametrize(("script", "words"), MESSAGES.values(), ids=MESSAGES)
def test_a_fault_in_a_messages_stream_ends_in_an_error_event(rig, narrow, script, words):
    answer = post(narrow, rig.script(script), "/v1/messages")
    name, data = answer.text.rstrip().rsplit("\n\n", 1)[1].split("\n")
    assert name == "event: error"
    assert words in json.loads(data.removeprefix("data: "))["error"]["message"]
    assert "message_stop" not in answer.text


def test_an_upstream_that_is_not_there_is_a_502(rig):
    policy = ProxyPolicy(upstreams={"gone": UpstreamPolicy(url="http://127.0.0.1:9/v1")})
    answer = post(rig.serve(policy), "any")
    assert answer.status_code == 502
    assert "cannot be reached" in answer.json()["error"]["message"]


def test_a_connection_that_the_server_closed_while_idle_is_opened_anew(rig, narrow):
    closing = Head(200, (("content-type", "text/event-stream"),))
    first = rig.script([closing, *said("one")])
    assert post(narrow, first).status_code == 200
    dying = rig.script([RESET], said("two"))
    answer = post(narrow, dying)
    assert (answer.status_code, said_in(answer)) == (200, "two")
