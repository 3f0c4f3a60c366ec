"""Sessions as Gemini CLI, OpenCode and pi write them: every part counts once, and usage is the provider's."""

import json
import sqlite3
from contextlib import closing

from millgate.sessions.xray.files import read_conversations
from millgate.sessions.xray.session import analyze
from millgate.transcript.parts import read as read_parts

FILE = "/work/a.txt"
LINE = "The gate of the north channel opens at dawn.\n"
GEMINI_CALL = {
    "id": "read_file_1", "name": "read_file", "args": {"file_path": FILE}, "status": "success",
    "result": [{"functionResponse": {"id": "read_file_1", "name": "read_file", "response": {"output": LINE}}}],
}  # fmt: skip
GEMINI_TURN = {
    "id": "m2", "timestamp": "2026-11-18T12:00:01Z", "type": "gemini", "content": "",
    "thoughts": [{"subject": "Reading", "description": "I look first."}],
    "tokens": {"input": 18500, "output": 15, "cached": 0, "total": 18515}, "model": "gemini-3",
}  # fmt: skip
GEMINI_HEAD = {"sessionId": "s-1", "projectHash": "abc", "startTime": "2026-11-18T12:00:00Z"}
GEMINI_ANSWER = {
    "id": "m4", "type": "gemini", "content": "At dawn.", "thoughts": [],
    "tokens": {"input": 19500, "output": 5, "cached": 0, "total": 19505},
}  # fmt: skip
GEMINI_USER = {"id": "m1", "type": "user", "content": [{"text": "when does the gate open?"}]}


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def gemini_lines(*, apart):
    results = {"id": "m3", "type": "user", "content": GEMINI_CALL["result"]}
    return [
        GEMINI_HEAD,
        {"$set": {"messages": [{"id": "m0", "type": "user", "content": [{"text": "<session_context>\nlinux\n</session_context>"}]}]}},
        GEMINI_USER,
        GEMINI_TURN,
        {"$set": {"lastUpdated": "2026-11-18T12:00:02Z"}},
        {**GEMINI_TURN, "toolCalls": [GEMINI_CALL]},
        *([results] if apart else []),
        GEMINI_ANSWER,
        {"id": "m5", "type": "info", "content": "a note of the program"},
    ]  # fmt: skip


def test_a_message_that_gemini_writes_again_counts_once(tmp_path):
    for apart in (True, False):
        path = write(tmp_path / "session.jsonl", *gemini_lines(apart=apart))
        found = analyze([path])
        (session,) = found.sessions
        assert (session.name, session.turns, session.peak) == ("s-1", 2, 19_500)
        (tool,) = session.tools
        assert (tool.tool, tool.calls) == ("read_file", 1)
        assert 5 < tool.tokens < 30
        assert session.by_kind["thinking"] > 0
        assert found.passed_over == {"info": 1}


def test_an_older_session_of_gemini_is_one_document(tmp_path):
    turn = {**GEMINI_TURN, "toolCalls": [GEMINI_CALL]}
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps({**GEMINI_HEAD, "messages": [GEMINI_USER, turn, GEMINI_ANSWER]}))
    (session,) = analyze([path]).sessions
    assert (session.turns, session.peak, session.tools[0].calls) == (2, 19_500, 1)


def opencode(path, *messages):
    """A database with the tables that hold a session; each message is its data and its parts."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")  # fmt: skip
        database.execute("CREATE TABLE part (id TEXT, message_id TEXT, data TEXT)")
        for at, (data, *parts) in enumerate(messages):
            database.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (f"msg_{at}", at, json.dumps(data)))  # fmt: skip
            for n, part in enumerate(parts):
                database.execute("INSERT INTO part VALUES (?, ?, ?)", (f"prt_{at}_{n}", f"msg_{at}", json.dumps(part)))  # fmt: skip
        database.commit()
    return path


READ = {
    "type": "tool", "tool": "read", "callID": "toolu_1",
    "state": {"status": "completed", "input": {"filePath": FILE}, "output": LINE},
}  # fmt: skip
USAGE = {"input": 1200, "output": 5, "reasoning": 0, "cache": {"write": 0, "read": 18300}}
OPENCODE = (
    ({"role": "user"}, {"type": "text", "text": "when does the gate open?"}),
    ({"role": "assistant", "tokens": USAGE}, {"type": "step-start"}, {"type": "reasoning", "text": "I look."}, READ),
    ({"role": "assistant", "tokens": {**USAGE, "input": 1300}}, {"type": "text", "text": "At dawn."}),
)  # fmt: skip


def test_opencode_keeps_its_sessions_in_a_database(tmp_path):
    path = opencode(tmp_path / "opencode.db", *OPENCODE)
    before = path.read_bytes()
    found = analyze([path])
    (session,) = found.sessions
    assert (session.name, session.turns, session.peak) == ("ses_1", 2, 19_600)
    assert 19_000 < session.unrecorded < 19_600
    assert [(use.tool, use.calls) for use in session.tools] == [("read", 1)]
    assert session.by_kind["thinking"] > 0
    assert (found.skipped, found.unread, path.read_bytes()) == (0, (), before)
    conversations, _ = read_conversations(path)
    parts = [part for message in conversations["ses_1"].messages for part in read_parts(message)]
    assert [part.kind for part in parts] == ["human", "thinking", "call", "result", "text"]


def test_a_database_that_is_none_of_opencodes_is_told(tmp_path):
    other, broken = tmp_path / "opencode.db", tmp_path / "b.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE a (b)")
    broken.write_bytes(b"not a database" * 100)
    found = analyze([other, broken])
    assert (found.sessions, found.skipped) == ((), 2)
    assert found.unread == (str(other), str(broken))


def test_pi_writes_messages_of_its_own_shape(tmp_path):
    usage = {"input": 1100, "output": 25, "cacheRead": 18300, "cacheWrite": 100}
    call = {"type": "toolCall", "id": "toolu_1", "name": "read", "arguments": {"path": FILE}}
    result = {"role": "toolResult", "toolCallId": "toolu_1", "toolName": "read", "content": [{"type": "text", "text": LINE}]}  # fmt: skip
    path = write(
        tmp_path / "pi.jsonl",
        {"type": "session", "version": 3, "id": "p-1", "cwd": "/work"},
        {"type": "model_change", "id": "a", "modelId": "m"},
        {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "when?"}]}},
        {"type": "message", "message": {"role": "assistant", "content": [call], "usage": usage}},
        {"type": "message", "message": result},
        {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "At dawn."}], "usage": usage}},
        {"type": "compaction", "summary": "It opens at dawn.", "tokensBefore": 19_500},
    )  # fmt: skip
    found = analyze([path])
    (session,) = found.sessions
    assert (session.name, session.turns, session.peak) == ("p-1", 2, 19_500)
    assert [(use.tool, use.calls) for use in session.tools] == [("read", 1)]
    assert [cut.before for cut in session.compactions] == [19_500]
    assert found.passed_over == {"model_change": 1}


def test_what_was_not_understood_is_told(tmp_path):
    path = write(tmp_path / "a.jsonl", {"type": "novelty", "subtype": "x"}, [1], {"a": 1}, {"a": 2})
    found = analyze([path])
    assert found.passed_over == {"novelty/x": 1, "a list": 1, "without a type": 2}
    assert found.unread == (str(path),)
