"""A recorded session as the guard would have met it: one conversation a session, one turn a response."""

import json

from millgate.sessions.xray.files import read_conversations
from millgate.transcript.parts import read


def write(path, *lines):
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def kinds(conversation):
    return [[part.kind for part in read(message)] for message in conversation.messages]


def block(number, response):
    content = [{"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"n": number}}]
    return {"type": "assistant", "sessionId": "s1", "message": {"role": "assistant", "id": response, "content": content}}  # fmt: skip


def test_lines_of_one_response_are_one_turn_and_those_of_another_are_not(tmp_path):
    path = write(tmp_path / "x.jsonl", block(1, "r1"), block(2, "r1"), block(3, "r2"))
    found, skipped = read_conversations(path)
    assert kinds(found["s1"]) == [["call"], ["call"], ["call"]]
    assert found["s1"].continues == {1}
    assert skipped == 0


def test_a_log_without_sessions_is_named_by_its_file(tmp_path):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    found, _ = read_conversations(write(tmp_path / "talk.jsonl", *messages))
    assert list(found) == ["talk"]
    assert kinds(found["talk"]) == [["human"], ["text"]]


def test_a_request_replaces_what_it_repeats(tmp_path):
    first = {"messages": [{"role": "user", "content": "hi"}]}
    second = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}  # fmt: skip
    found, _ = read_conversations(write(tmp_path / "log.jsonl", first, second))
    (conversation,) = found.values()
    assert kinds(conversation) == [["human"], ["text"]]


def test_a_file_without_messages_has_no_conversation(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"type": "summary"}\nnot json\n')
    assert read_conversations(path) == ({}, 1)
