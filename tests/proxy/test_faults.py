"""Bad days of an upstream, each with the one outcome a client sees: what it would see without the proxy.

before  nothing was sent yet: a status and an error body        passed  the upstream's own answer, as it came
broken  text was sent: the connection breaks behind it          whole   the stream is complete all the same
"""

import gzip
import json

import httpx2
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
from tests.waiting import MOST_S

from millgate.guard.policy import GuardPolicy
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

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
    "reset in the middle": ([*BEGUN, RESET], "broken", 0, "closed the connection"),
    "closed in the middle": ([*BEGUN, CLOSE], "broken", 0, "closed the connection"),
    "fewer bytes than said": ([LENGTH, *BEGUN, CLOSE], "broken", 0, "closed the connection"),
    "no answer in time": ([Pause(5), *BEGUN], "before", 504, "no answer within"),
    "a stall before the first event": ([Head(), Pause(5)], "before", 504, "sent nothing"),
    "a stall in the middle": ([*BEGUN, Pause(5)], "broken", 0, "sent nothing"),
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
    # what the upstream says itself
    "429": ([json_head(429, **{"retry-after": "7"}), b'{"error": {"message": "slow down", "type": "rate", "code": null}}'], "passed", 429, "slow down"),
    "500": ([json_head(500), b'{"error": {"message": "oops"}}'], "passed", 500, "oops"),
    "401": ([json_head(401), b'{"error": {"message": "no key"}}'], "passed", 401, "no key"),
    "502 in HTML": ([HTML, b"<html>Bad gateway</html>"], "passed", 502, "Bad gateway"),
    "a redirect": ([Head(307, (("location", "http://127.0.0.1:1/"),))], "passed", 307, ""),
    "an error told in the stream": ([*BEGUN, b'data: {"error": {"message": "out of memory", "code": 500}}\n\n', DONE], "passed", 200, "out of memory"),
    "an error told at once": ([b'data: {"error": {"message": "out of memory"}}\n\n'], "passed", 200, "out of memory"),
    # the stream
    "wrong JSON": ([*BEGUN, b'data: {"choices": [\n\n', DONE], "passed", 200, "not JSON"),
    "wrong JSON at once": ([b"data: hello\n\n"], "passed", 200, "not JSON"),
    "not an object": ([*BEGUN, b"data: [1, 2]\n\n"], "passed", 200, "not an object"),
    "a strange shape": ([*BEGUN, b'data: {"choices": ["x"]}\n\n'], "passed", 200, "strange shape"),
    "another strange shape": ([*BEGUN, b'data: {"choices": [{"delta": {"tool_calls": 5}}]}\n\n'], "passed", 200, "strange shape"),
    "half a line": ([*BEGUN, b'data: {"choices": [{"del'], "passed", 200, "not JSON"),
    "an end without a finish": ([*BEGUN], "passed", 200, "before the answer was complete"),
    "nothing at all": ([Head()], "passed", 200, "before the answer was complete"),
    "no DONE": (said(*PROSE)[:-1], "whole", 200, ""),
    "split UTF-8": ([bytes([b]) for b in b"".join(said(*PROSE, "ü世🌊"))], "whole", 200, "ü世🌊"),
    "broken UTF-8": ([*BEGUN, b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'], "passed", 200, "not JSON"),
    "a flood of comments": ([*[b": ping\n\n" * 1000] * 20, *said(*PROSE)], "whole", 200, ""),
    "a flood of empty lines": ([b"\n" * 500_000, *said(*PROSE)], "whole", 200, ""),
    "a huge event": (said(*PROSE, "".join(f"{n} " for n in range(150_000))), "whole", 200, "149999"),
    "an event without end": ([*BEGUN, Endless(b"data: " + b"x" * 65_536)], "broken", 0, "max_stream_bytes"),
    "an endless stream": ([*BEGUN, Endless(chunk({"content": LONG}))], "broken", 0, "max_stream_bytes"),
    "an endless tool call": ([chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": LONG}}]}), Endless(chunk({"tool_calls": [{"index": 0, "function": {"arguments": LONG}}]}))], "broken", 0, "max_stream_bytes"),
    "NUL and control characters": (said(*PROSE, "\x00\x01\x1b[31m"), "whole", 200, ""),
    "a lone surrogate": ([*BEGUN, b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n'], "passed", 200, "not JSON"),
    "deep nesting": ([*BEGUN, b'data: {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"], "passed", 200, "not JSON"),
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
    return web.post(served.url + path, json=body, timeout=MOST_S)


def read_broken(served, model, path="/v1/chat/completions"):
    """What came of a stream that breaks."""
    got = []
    body = {"model": model, "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}  # fmt: skip

    def read(answer):
        for part in answer.iter_bytes():
            got.append(part)  # noqa: PERF402  # what came stays if the rest does not

    with (
        web.stream("POST", served.url + path, json=body, timeout=MOST_S) as answer,
        pytest.raises(httpx2.RemoteProtocolError, match="incomplete"),
    ):
        read(answer)
    return b"".join(got)


@pytest.mark.parametrize(("script", "outcome", "status", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_has_its_outcome(rig, narrow, caplog, script, outcome, status, words):
    if outcome == "broken":
        got = read_broken(narrow, rig.script(script))
        begun = b"".join(s for s in script if isinstance(s, bytes))
        assert got.startswith(begun)
        assert b'"error"' not in got
        assert words in caplog.text
        return
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
    assert TEXT in said_in(answer)
    assert b'"error"' not in answer.content
    assert (last == b"[DONE]") is (DONE in b"".join(s for s in script if isinstance(s, bytes)) or "zip" in str(script[0]).lower())  # fmt: skip


def said_in(answer):
    found = [json.loads(x) for x in ("\n" + answer.text).split("\ndata: ") if x.startswith("{")]
    return "".join(c["delta"].get("content") or "" for f in found for c in f.get("choices", ()))


CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
FRAMED = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in BEGUN)


@pytest.mark.parametrize(
    "script",
    [
        [Head(raw=CHUNKED + FRAMED + b"zz\r\n", chunked=False)],
        [Head(raw=CHUNKED, chunked=False), Pause(0.1), FRAMED + b"zz\r\n"],
        [Head(raw=CHUNKED + FRAMED, chunked=False), Pause(0.1), b"zz\r\n"],
    ],
    ids=["with the head", "with the events", "later"],
)
@pytest.mark.parametrize("end", [Pause(5), CLOSE], ids=["open", "closed"])
def test_garbage_takes_no_event_before_it_and_is_no_bug(rig, narrow, caplog, script, end):
    assert read_broken(narrow, rig.script([*script, end])) == b"".join(BEGUN)
    assert "goes on with what is not HTTP" in caplog.text
    assert "Traceback" not in caplog.text


def test_half_of_a_gzip_is_a_stream_that_ends_too_early(rig, narrow):
    answer = post(narrow, rig.script([PACKED, PACKED_PROSE[:200]]))
    assert answer.status_code == 200
    assert b"".join(said(*PROSE)).startswith(answer.content)


def test_a_retry_hint_reaches_the_client(rig, narrow):
    script, *_ = FAULTS["429"]
    assert post(narrow, rig.script(script)).headers["retry-after"] == "7"


MESSAGES = {
    "an error told in the stream": [
        *told(*PROSE)[:5],
        event("error", error={"type": "overloaded_error", "message": "full"}),
    ],
    "an end without message_stop": told(*PROSE)[:-1],
    "a strange shape": [*told(*PROSE)[:5], event("content_block_delta", index="x")],
    "a strange shape that is not the end": [
        *told(*PROSE)[:5],
        event("content_block_delta", index="x"),
        *told(*PROSE)[5:],
    ],
}


@pytest.mark.parametrize("script", MESSAGES.values(), ids=MESSAGES)
def test_a_fault_in_a_messages_stream_passes_as_it_came(rig, narrow, script):
    answer = post(narrow, rig.script(script), "/v1/messages")
    assert answer.status_code == 200
    assert answer.content == b"".join(script)


def test_a_messages_stream_that_breaks_is_broken_for_the_client(rig, narrow):
    begun = told(*PROSE)[:5]
    got = read_broken(narrow, rig.script([*begun, RESET]), "/v1/messages")
    assert got == b"".join(begun)


@pytest.mark.parametrize("body", [b"pong", b'{"choices": 5}', b"[1]"])
def test_a_whole_answer_that_cannot_be_read_passes_as_it_came(rig, narrow, body):
    model = rig.script([json_head(), body])
    answer = web.post(
        f"{narrow.url}/v1/chat/completions",
        json={"model": model, "messages": [{"role": "user", "content": "Hi"}]},
    )
    assert (answer.status_code, answer.content) == (200, body)


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
