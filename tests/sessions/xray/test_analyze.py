"""What filled the window: found in the files of agents and in logs, in bounded memory, whatever the lines hold."""

import json

import pytest
from bench.fixtures.sessions import MadeCall, Turn, looping_session, render

from millgate.sessions.xray.files import find
from millgate.sessions.xray.page import page
from millgate.sessions.xray.session import MOST_WINDOWS, analyze

PROSE = " ".join(f"word{n} stands here" for n in range(300))


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return path


def claude(messages, **more):
    """Messages as Claude Code writes them: one line a block, with the response's id."""
    lines = []
    for number, message in enumerate(messages):
        blocks = message["content"]
        for block in blocks if isinstance(blocks, list) else [None]:
            said = {**message, "content": blocks if block is None else [block]}
            if message["role"] == "assistant":
                said |= {"id": f"msg_{number}", "usage": {"input_tokens": 100 + number}}
            lines.append({"type": message["role"], "message": said, "sessionId": "s1", **more})
    return lines


def one(path):
    found = analyze([path])
    assert len(found.sessions) == 1
    return found.sessions[0]


def calls(*made):
    return [
        Turn(human="go"),
        *(Turn(calls=(MadeCall(*call),)) for call in made),
        Turn(text="Done."),
    ]


def read(path="a.py", text=PROSE):
    return ("Read", {"file_path": path}, text)


def test_results_are_counted_by_tool(tmp_path):
    session = calls(read(), ("Bash", {"command": "ls"}, "a.py"))
    found = one(write(tmp_path / "x.jsonl", claude(render(session, "messages"))))
    assert [(use.tool, use.calls) for use in found.tools] == [("Read", 1), ("Bash", 1)]
    assert found.tools[0].tokens > 500
    assert found.turns == 3
    assert found.by_kind["result"] == sum(use.tokens for use in found.tools)
    assert [window.reported for window in found.windows] == [101, 103, 105]


def test_what_stood_there_already_is_measured_word_for_word(tmp_path):
    session = calls(read(), ("Bash", {"command": "cat a.py"}, "Here it is:\n" + PROSE))
    found = one(write(tmp_path / "x.jsonl", claude(render(session, "messages"))))
    again = {use.tool: use.repeated / use.tokens for use in found.tools}
    assert again["Read"] == 0
    assert again["Bash"] > 0.95
    assert found.windows[-1].repeated > 500


def test_a_read_is_stale_after_a_later_edit(tmp_path):
    edit = ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "ok")
    session = calls(read(), read("b.py", "other"), edit)
    found = one(write(tmp_path / "x.jsonl", claude(render(session, "messages"))))
    assert found.stale == found.tools[0].stale > 500
    assert (
        one(write(tmp_path / "y.jsonl", claude(render(calls(edit, read()), "messages")))).stale == 0
    )


def test_a_patch_makes_shell_reads_stale(tmp_path):
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch"
    made = [
        ("shell", {"command": ["bash", "-lc", "sed -n 1,200p src/a.py"]}, PROSE),
        ("apply_patch", {"input": patch}, "Success"),
    ]
    items = render(calls(*made), "responses")
    lines = [{"type": "response_item", "payload": item, "timestamp": "t"} for item in items]
    usage = {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 4321}}}
    lines.append({"type": "event_msg", "payload": usage})
    meta = {"type": "session_meta", "payload": {"id": "c", "instructions": "Be brief."}}
    found = one(write(tmp_path / "rollout-1.jsonl", [meta, *lines]))
    assert found.stale > 500
    assert found.windows[-1].reported == 4321
    assert found.by_kind["system"] > 0


def codex(*items):
    return [{"type": "response_item", "payload": item, "timestamp": "t"} for item in items]


def developer(text):
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}  # fmt: skip


def test_base_instructions_that_codex_writes_twice_count_once(tmp_path):
    meta = {"type": "session_meta", "payload": {"id": "c", "base_instructions": {"text": PROSE}}}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}  # fmt: skip
    twice = one(write(tmp_path / "rollout-1.jsonl", [meta, *codex(developer(PROSE), answer)]))
    once = one(write(tmp_path / "rollout-2.jsonl", [meta, *codex(answer)]))
    assert (twice.added, twice.repeated, twice.turns) == (once.added, 0, 1)

    compacted = {"type": "compacted", "payload": {"replacement_history": []}}
    lines = [meta, *codex(developer(PROSE), answer), compacted, *codex(developer(PROSE), answer)]
    again = one(write(tmp_path / "rollout-3.jsonl", lines))
    assert again.added == 2 * once.added, "a compacted window gets them anew"


def test_tools_that_codex_sends_as_a_message_count(tmp_path):
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"name": "exec", "description": PROSE}]}  # fmt: skip
    found = one(write(tmp_path / "rollout-1.jsonl", codex(tools)))
    logged = one(write(tmp_path / "log.jsonl", [{"input": [tools, developer("Be brief.")]}]))
    told = one(write(tmp_path / "rollout-2.jsonl", codex(developer(PROSE))))
    assert found.by_kind["system"] > told.by_kind["system"]
    assert logged.by_kind["system"] > found.by_kind["system"]


def test_loops_are_found_with_their_cost(tmp_path):
    session, _ = looping_session(3, period=2, copies=5, lead=0)
    found = one(write(tmp_path / "x.jsonl", claude(render(session, "messages"))))
    assert [(loop.period, loop.copies) for loop in found.loops] == [(2, 5)]
    assert found.loops[0].tokens > 0
    assert (found.loops[0].first_turn, found.loops[0].last_turn) == (1, 10)


def test_parallel_calls_on_separate_lines_are_one_turn(tmp_path):
    both = Turn(
        calls=(MadeCall("Read", {"file_path": "a"}, "1"), MadeCall("Read", {"file_path": "b"}, "2"))
    )
    found = one(write(tmp_path / "x.jsonl", claude(render([both] * 3, "messages"))))
    assert found.turns == 3
    assert [(loop.period, loop.copies) for loop in found.loops] == [(2, 3)]


def test_a_compaction_says_what_was_dropped_and_what_was_fetched_again(tmp_path):
    before = claude(render(calls(read(), ("Bash", {"command": "make"}, PROSE)), "messages"))
    cut = {"type": "system", "subtype": "compact_boundary", "sessionId": "s1", "compactMetadata": {"preTokens": 9000}}  # fmt: skip
    summary = {"type": "user", "isCompactSummary": True, "sessionId": "s1", "message": {"role": "user", "content": "So far: read a.py."}}  # fmt: skip
    after = claude(render(calls(read()), "messages"))
    for line in after:
        line["message"]["id"] = "after " + str(line["message"].get("id"))
    found = one(write(tmp_path / "x.jsonl", [*before, cut, summary, *after]))
    (made,) = found.compactions
    assert made.before == 9000
    assert 0 < made.after < 100
    assert made.dropped["Read"] > 500
    assert made.fetched_again == made.dropped["Read"]


def test_the_page_says_what_a_compaction_lost(tmp_path):
    messages = [
        {"role": "user", "content": "Never touch db/migrations."},
        *render(calls(*(read(f"src/{n}.py") for n in range(20))), "messages"),
    ]
    cut = {"type": "system", "subtype": "compact_boundary", "sessionId": "s1", "compactMetadata": {"preTokens": 9000}}  # fmt: skip
    summary = {"type": "user", "isCompactSummary": True, "sessionId": "s1", "message": {"role": "user", "content": "So far: nothing."}}  # fmt: skip
    last = {"role": "assistant", "content": "I go on."}
    path = write(tmp_path / "x.jsonl", [*claude(messages), cut, summary, *claude([last])])
    assert "1 of 1 instruction and 20 of 20 paths are gone." in page(analyze([path]))


def test_a_subagent_has_a_window_of_its_own(tmp_path):
    main = claude(render(calls(read()), "messages"))
    side = claude(render(calls(read()), "messages"), isSidechain=True, agentId="k")
    found = analyze([write(tmp_path / "x.jsonl", [*main, *side])])
    assert sorted(session.name for session in found.sessions) == ["s1", "s1/k"]
    assert found.repeated == 0


def test_a_log_of_messages_is_one_session(tmp_path):
    for api in ("chat", "messages", "responses"):
        found = one(write(tmp_path / f"{api}.jsonl", render(calls(read(), read("b.py")), api)))
        assert found.turns == 3
        assert found.tools[0].repeated > 500


def test_a_log_of_requests_counts_each_message_once(tmp_path):
    messages = render(calls(read(), read("b.py", "x")), "chat")
    ends = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    lines = [
        {
            "request": {"model": "m", "messages": messages[:end]},
            "response": {"choices": [{"message": messages[end]}], "usage": {"prompt_tokens": 7}},
        }
        for end in ends
    ]
    found = one(write(tmp_path / "x.jsonl", lines))
    assert found.turns == 3
    assert found.tools[0].calls == 2
    assert found.repeated == 0
    assert found.windows[0].reported == 7


def test_a_request_that_shrank_was_compacted(tmp_path):
    messages = render(calls(read(), read("b.py")), "chat")
    other = [{"role": "user", "content": "something else"}]
    lines = [
        {"messages": messages[:5]},
        {"messages": [messages[0], messages[-1]]},
        {"messages": other},
    ]
    found = analyze([write(tmp_path / "x.jsonl", lines)])
    assert len(found.sessions) == 2
    (made,) = found.sessions[0].compactions
    assert made.dropped["Read"] > 500


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"user","mess', "\x00\x01", "[]", "3", "null", '"x"', "{}", "[" * 5000, '{"type": ["x"], "payload": {}}',
        '{"type":"user","message":{"role":"user","content":[3,null,{"type":["x"]}]}}',
        '{"type":"assistant","message":{"role":"assistant","content":{"a":1},"usage":{"input_tokens":"x"}}}',
        '{"type":"response_item","payload":{"type":"function_call_output","output":{"a":[1]}}}',
        '{"type":"event_msg","payload":{"info":{"last_token_usage":3}}}', '{"messages": [1, null, {"role": 3}]}',
        '{"type":"compacted","payload":{"replacement_history":[1]}}', '{"role":"tool","content":{"deep":' + "[" * 500 + "]" * 500 + "}}",
    ],
)  # fmt: skip
def test_a_hostile_line_never_breaks_the_rest(tmp_path, line):
    good = claude(render(calls(read()), "messages"))
    found = analyze([write(tmp_path / "x.jsonl", [line, *good, line])])
    session = max(found.sessions, key=lambda session: session.added)
    assert session.tools[0].tool == "Read"


def test_half_written_lines_are_skipped_and_counted(tmp_path):
    good = claude(render(calls(read()), "messages"))
    path = write(tmp_path / "x.jsonl", ['{"type":"user","mess', *good])
    with path.open("ab") as file:
        file.write(b'{"type":"assistant","message":{"role":"assi\xff')
    found = analyze([path])
    assert (found.skipped, found.lines) == (2, len(good))


def test_a_line_beyond_the_limit_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("millgate.sessions.xray.files.MAX_LINE", 20_000)
    good = claude(render(calls(read()), "messages"))
    found = analyze([write(tmp_path / "x.jsonl", [json.dumps({"x": "y" * 50_000}), *good])])
    assert found.skipped == 1
    assert found.sessions[0].tools[0].tool == "Read"


def test_windows_of_a_long_session_are_thinned_out(tmp_path):
    made = [("Bash", {"command": f"run {n}"}, "x") for n in range(3 * MOST_WINDOWS)]
    found = one(write(tmp_path / "x.jsonl", render(calls(*made), "chat")))
    assert found.turns == 3 * MOST_WINDOWS + 1
    assert len(found.windows) <= 2 * MOST_WINDOWS
    turns = [window.turn for window in found.windows]
    assert turns == sorted(set(turns))


def test_an_image_counts_as_an_image(tmp_path):
    use = {"type": "tool_use", "id": "t", "name": "Screenshot", "input": {}}
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    messages = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    found = one(write(tmp_path / "x.jsonl", claude(messages)))
    assert found.tools[0].tokens == 1500


def test_sessions_are_found_where_agents_keep_them(tmp_path):
    one_file = write(tmp_path / ".claude/projects/p/a.jsonl", ["{}"])
    other = write(tmp_path / ".codex/sessions/2026/11/15/rollout-b.jsonl", ["{}"])
    write(tmp_path / ".claude/projects/p/notes.txt", ["{}"])
    assert set(find(None, home=tmp_path)) == {one_file, other}


def test_the_page_needs_nothing_and_trusts_nothing(tmp_path):
    evil = "<script>alert(1)</script>"
    loop = calls(*[(evil, {"x": evil}, evil)] * 3)
    path = write(tmp_path / "<b>.jsonl", claude(render(loop, "messages"), sessionId=evil))
    html = page(analyze([path]))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "http://" not in html
    assert "https://" not in html
    assert "default-src 'none'" in html
    assert "<b>.jsonl" not in html
