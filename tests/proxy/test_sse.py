"""Cutting a stream of bytes into events, however it was cut up before."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import UpstreamError
from millgate.service.proxy.sse import (
    MOST_LINES,
    Splitter,
    encode,
    encode_data,
    parse,
    payload,
)

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


def test_an_unfinished_event_is_pending_until_it_ends():
    splitter = Splitter()
    assert splitter.feed(b"x" * 50) == []
    assert splitter.pending == 50
    assert splitter.feed(b"\n\nda") == [b"x" * 50 + b"\n\n"]
    assert splitter.pending == 2
    assert splitter.end() == b"da"
    assert (splitter.pending, splitter.end()) == (0, b"")


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: one\n\n", b"one"),
        (b"data:one\n\n", b"one"),
        (b"data: one\r\n\r\n", b"one"),
        (b"data: one\rdata: two\r\r", b"one\ntwo"),
        (b"event: x\ndata: one\n\n", b"one"),
        (b": comment\n\n", b""),
    ],
)
def test_the_data_of_an_event_are_its_data_lines(event, data):
    assert payload(event) == data


def test_an_event_is_written_with_its_name_if_there_is_one():
    assert encode({"a": 1}) == b'data: {"a":1}\n\n'
    assert encode({"a": 1}, name="x") == b'event: x\ndata: {"a":1}\n\n'
    assert (encode_data(b""), encode_data(b"[DONE]")) == (b"", b"data: [DONE]\n\n")


@pytest.mark.parametrize(("data", "said"), [(b"", "not JSON: (nothing)"), (b"{", "not JSON: {"), (b"[1]", "not an object: [1]")])  # fmt: skip
def test_what_is_no_object_is_shown_by_its_beginning(data, said):
    with pytest.raises(UpstreamError, match=re.escape(said)):
        parse(data)


@pytest.mark.parametrize("parts", [[b"a\n\n", b"b\n\n"], [b"a\n", b"\nb\n\n"], [b"a\r", b"\n\r\nb\r\n\r\n"], [b"a\n\nb\n\n"]])  # fmt: skip
def test_events_that_come_in_any_parts_are_two(parts):
    splitter = Splitter()
    events = [event for part in parts for event in splitter.feed(part)]
    assert [event.strip() for event in events] == [b"a", b"b"]
    assert b"".join(events) == b"".join(parts)


@pytest.mark.parametrize("line", [b":a\n", b"data:a\n", b"\n:", b"data:\r", b"x\r\n"])
def test_an_event_of_too_many_lines_is_not_taken_apart(line):
    with pytest.raises(UpstreamError, match="lines"):
        payload(line * (3 * MOST_LINES) + b"\n\n")


def test_an_event_of_many_lines_is_read():
    event = b"".join(b"data: %d\n" % n for n in range(MOST_LINES)) + b"\n"
    assert payload(event).split(b"\n") == [b"%d" % n for n in range(MOST_LINES)]
