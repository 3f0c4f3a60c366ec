"""Cutting a stream of bytes into events, however it was cut up before."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import UpstreamError
from headgate.service.proxy.sse import Splitter, encode, payload

LINES = st.sampled_from(
    ["data: {}", "data:1", ": comment", "event: x", "id: 7", "data: ü🌊", "retry"]
)
EVENTS = st.lists(st.lists(LINES, min_size=1, max_size=4), max_size=6)
BREAKS = st.sampled_from(["\n", "\r\n", "\r"])


@given(EVENTS, BREAKS, st.data())
def test_no_byte_is_lost_and_no_split_changes_what_is_said(events, line, data):
    stream = "".join(line.join(lines) + line * 2 for lines in events).encode()
    whole = Splitter()
    expected = [payload(e) for e in [*whole.feed(stream), whole.end()]]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter, out = Splitter(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += splitter.feed(stream[start:end])
    out.append(splitter.end())
    assert b"".join(out) == stream
    assert [p for e in out if (p := payload(e))] == [p for p in expected if p]


@given(EVENTS, BREAKS)
def test_each_event_is_found(events, line):
    stream = "".join(line.join(lines) + line * 2 for lines in events).encode()
    assert len(Splitter().feed(stream)) == len(events)


def test_data_on_several_lines_is_one():
    assert payload(b'data: {"a":\ndata: 1}\n\n') == b'{"a":\n1}'
    assert json.loads(payload(encode({"a": "ü\n"}, name="x"))) == {"a": "ü\n"}


def test_an_event_without_end_is_an_error_that_names_the_limit():
    splitter = Splitter(max_bytes=1000)
    assert splitter.feed(b"x" * 900) == []
    with pytest.raises(UpstreamError, match="max_event_bytes 1000"):
        splitter.feed(b"x" * 200)
