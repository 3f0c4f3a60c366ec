"""Request bodies that a client has compressed: read plain, passed on plain, and bounded whatever they hold."""

import gzip
import json
import zlib

import pytest
import zstandard
from tests.proxy import web
from tests.proxy.upstream import PROSE, said
from tests.waiting import MOST_S

from millgate.errors import LimitError
from millgate.guard.dialects.dialect import InvalidRequest
from millgate.service.proxy.request import unpack

BODY = b'{"model": "m"}' * 50
PACKED = {
    "gzip": gzip.compress(BODY),
    "X-GZIP": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
    "zstd": zstandard.compress(BODY),
    "identity, zstd": zstandard.compress(BODY),
    "identity": BODY,
    "": BODY,
}


@pytest.mark.parametrize("coding", PACKED)
def test_a_known_coding_is_undone(coding):
    headers = [(b"Content-Encoding", coding.encode()), (b"x", b"y")]
    rest, body = unpack(headers, PACKED[coding], limit=len(BODY))
    assert body == BODY
    assert (b"x", b"y") in rest
    assert all(value.lower() in (b"identity", b"", b"y") for _, value in rest)


@pytest.mark.parametrize("coding", ["br", "zstd, br", "gzip, gzip"])
def test_an_unknown_coding_stays_as_it_is_and_so_do_several(coding):
    headers = [(b"content-encoding", coding.encode())]
    assert unpack(headers, b"xyz", limit=9) == (headers, b"xyz")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_body_that_is_damaged_or_too_large_is_refused(coding):
    headers = [(b"content-encoding", coding.encode())]
    with pytest.raises(InvalidRequest, match=coding):
        unpack(headers, b"not packed", limit=10_000)
    with pytest.raises(LimitError, match="body_bytes"):
        unpack(headers, PACKED[coding], limit=len(BODY) - 1)
    bomb = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[coding]
    with pytest.raises(LimitError):
        unpack(headers, bomb(b"\0" * 50_000_000), limit=1000)


def test_a_packed_request_reaches_the_upstream_plain(rig, served, upstream):
    model = rig.script(said(*PROSE))
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()  # fmt: skip
    headers = {"content-encoding": "zstd", "content-type": "application/json"}
    answer = web.post(f"{served.url}/v1/chat/completions", content=zstandard.compress(body), headers=headers)  # fmt: skip
    assert answer.content == b"".join(said(*PROSE))
    (seen,) = upstream.seen[model]
    assert seen.body == body
    assert "content-encoding" not in seen.headers


def test_a_websocket_is_refused_so_that_the_client_goes_on_over_http(served):
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x" * 24}  # fmt: skip
    for path in ("/v1/responses", "/v1/realtime"):
        answer = web.get(served.url + path, headers=headers, timeout=MOST_S)
        assert answer.status_code == 426
        assert "HTTP" in answer.json()["error"]["message"]
