"""The cache witness: a request that only adds to the last one breaks nothing, and each break is named and blamed."""

import copy
import json
import random

import pytest
from tests.sessions.prompt_cache.watching import Watcher

from millgate.sessions.conversation import Conversation, Conversations, Owner
from millgate.sessions.prompt_cache.difference import Difference
from millgate.sessions.prompt_cache.judgment import CacheCounts, judge
from millgate.sessions.prompt_cache.segments import read_prompt

TOOLS = ("Bash", "Read", "Edit", "Grep")
CLOCK = "You are an agent. The time is 14:31."


def conversation(turns, seed=1):
    """A question, then calls of Read with their results, as Anthropic's API writes them."""
    rng = random.Random(seed)
    words = [f"word{rng.randrange(900)}" for _ in range(400)]
    messages = [{"role": "user", "content": "Mend the parser."}]
    for turn in range(turns):
        messages += [
            {"role": "assistant", "content": [
                {"type": "text", "text": " ".join(rng.sample(words, 20))},
                {"type": "tool_use", "id": f"call_{turn}", "name": "Read", "input": {"file_path": f"src/{turn}.py"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"call_{turn}", "content": " ".join(rng.sample(words, 200))}
            ]},
        ]  # fmt: skip
    return messages


def as_messages(messages):
    """A request of Anthropic's API, with marks on the system prompt and on the last block, as agents set them."""
    messages = copy.deepcopy(messages)
    if isinstance(messages[-1]["content"], str):
        messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]}]
    mark = {"cache_control": {"type": "ephemeral"}}
    messages[-1]["content"][-1] |= mark
    return {
        "model": "claude-opus-4-6",
        "tools": [{"name": name, "description": f"{name} does it.", "input_schema": {}} for name in TOOLS],
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": CLOCK, **mark}],
        "messages": messages,
    }  # fmt: skip


def as_chat(messages):
    """The same as a request of the chat completions API."""
    written = [{"role": "system", "content": CLOCK}]
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            written.append(message)
        elif message["role"] == "assistant":
            call = content[1]
            function = {"name": call["name"], "arguments": json.dumps(call["input"])}
            calls = [{"id": call["id"], "type": "function", "function": function}]
            written.append(
                {"role": "assistant", "content": content[0]["text"], "tool_calls": calls}
            )
        else:
            written.append({"role": "tool", "tool_call_id": content[0]["tool_use_id"], "content": content[0]["content"]})  # fmt: skip
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in TOOLS]
    return {"model": "gpt-5", "tools": tools, "messages": written}


def as_responses(messages):
    """The same as a request of the responses API."""
    items = []
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            items.append({"type": "message", "role": "user", "content": content})
        elif message["role"] == "assistant":
            call = content[1]
            items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": content[0]["text"]}]})  # fmt: skip
            items.append({"type": "function_call", "call_id": call["id"], "name": "Read", "arguments": json.dumps(call["input"])})  # fmt: skip
        else:
            items.append({"type": "function_call_output", "call_id": content[0]["tool_use_id"], "output": content[0]["content"]})  # fmt: skip
    tools = [{"type": "function", "name": name, "parameters": {}} for name in TOOLS]
    return {"model": "gpt-5", "instructions": CLOCK, "tools": tools, "input": items}


APIS = pytest.mark.parametrize("write", [as_messages, as_chat, as_responses])


def messages_of(fields):
    return fields.get("messages") or fields.get("input")


def tell_time(fields):
    text = json.dumps(fields).replace("14:31", "14:32")
    fields |= json.loads(text)


def compact(fields):
    name = "messages" if "messages" in fields else "input"
    first = [m for m in fields[name][:1] if m["role"] == "system"]
    fields[name] = [*first, {"role": "user", "content": "What happened so far: we read files."}]


def drop_marks(fields):
    for block in (*fields["system"], *messages_of(fields)[-1]["content"]):
        block.pop("cache_control", None)


def test_marks_that_are_missing_are_named_and_blamed_on_the_client():
    said, witness = conversation(8), Watcher()
    witness.finish(witness.observe("s", as_messages(said[:13])), CacheCounts(0, 40_000, 3))
    fields = as_messages(said[:15])
    drop_marks(fields)
    observed = witness.observe("s", fields)
    judged = witness.finish(observed, CacheCounts(0, 42_000, 3))
    assert observed[1].difference.change == "mark missing"
    assert (judged.blame, judged.lost) == ("client", 40_000)
    assert judged.reason.startswith("cache_control is missing")


@pytest.mark.parametrize("name", ["system", "instructions"])
def test_a_system_prompt_that_changed_is_told_with_the_line_that_stands_there_now(name):
    witness = Watcher()
    text = "You are an agent.\nThe time is 14:31.\nBe brief."
    ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], name: text}
    witness.finish(witness.observe("s", ask), None)
    found = witness.observe("s", {**ask, name: text.replace("14:31", "14:32")})[1].difference
    assert found.describe() == 'system block 1 ("You are an agent. The ti…") was changed: line 2 is now "The time is 14:32."'  # fmt: skip
    longer = witness.observe("s", {**ask, name: f"{text}\nMore."})[1].difference
    assert longer.describe().endswith("was changed")


def test_a_block_or_a_line_of_blanks_is_not_quoted():
    witness = Watcher()
    ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    witness.finish(witness.observe("s", {**ask, "system": " \nBe brief.\n"}), None)
    found = witness.observe("s", {**ask, "system": " \n\n"})[1].difference
    assert '""' not in found.describe()
    witness.finish(witness.observe("t", {**ask, "system": " \n"}), None)
    found = witness.observe("t", {**ask, "system": "Be brief."})[1].difference
    assert found.describe().startswith("system block 1 was changed")


@APIS
def test_a_compaction_is_the_reason_before_any_parameter(write):
    said, witness = conversation(8), Watcher()
    witness.finish(witness.observe("s", write(said[:15])), CacheCounts(0, 40_000, 3))
    fields = write(said[:15])
    compact(fields)
    fields["tool_choice"] = {"type": "any"}
    assert witness.observe("s", fields)[1].difference.change == "compacted"


def test_a_compaction_that_was_noticed_is_the_reason_whatever_else_changed():
    said, witness = conversation(8), Watcher()
    witness.finish(witness.observe("s", as_messages(said[:15])), CacheCounts(0, 40_000, 3))
    fields = as_messages(said[:15])
    messages_of(fields)[2] = {"role": "user", "content": [{"type": "text", "text": "So far: ..."}]}
    tell_time(fields)
    found = witness.observe("s", fields, is_compacted=True)[1].difference
    assert found.describe().startswith("the client compacted the window, from message 1")


def test_a_client_that_never_marks_is_told_with_each_call_and_one_that_lets_the_service_mark_is_not():
    said, witness = conversation(8), Watcher()
    for end in (11, 13, 15):
        fields = as_messages(said[:end])
        drop_marks(fields)
        judged = witness.finish(witness.observe("s", fields), CacheCounts(0, 0, 9_000 + end, False))
    assert (judged.blame, judged.lost) == ("client", 9_013)
    assert "nothing is marked with cache_control" in judged.reason
    fields["cache_control"] = {"type": "ephemeral"}
    judged = witness.finish(witness.observe("s", fields), CacheCounts(0, 0, 9_015, False))
    assert not judged.is_break


def test_marks_that_stay_missing_are_told_as_long_as_they_are_missing():
    said, witness = conversation(8), Watcher()
    witness.finish(witness.observe("s", as_messages(said[:11])), CacheCounts(0, 9_000, 3, False))
    for end, reason in ((13, "cache_control is missing"), (15, "nothing is marked")):
        fields = as_messages(said[:end])
        drop_marks(fields)
        judged = witness.finish(witness.observe("s", fields), CacheCounts(0, 0, 9_100, False))
        assert judged.reason.startswith(reason)


def test_a_message_that_changed_is_told_with_what_stands_there_now():
    witness = Watcher()
    said = [{"role": "user", "content": f"This is part {n}."} for n in range(6)]
    witness.finish(witness.observe("s", {"model": "m", "messages": said}), None)
    said[3] = {"role": "user", "content": "Another part."}
    found = witness.observe("s", {"model": "m", "messages": said})[1].difference
    assert found.describe() == 'message 4 (user: "This is part 3.") was changed, now user: "Another part."'  # fmt: skip


@APIS
def test_a_subagent_of_the_same_session_breaks_nothing(write):
    said, witness = conversation(6), Watcher()
    witness.finish(witness.observe("s", write(said[:5])), CacheCounts(0, 9_000, 0))
    other = write([{"role": "user", "content": "Search for the tests."}])
    tell_time(other)
    assert witness.finish(witness.observe("s", other), CacheCounts(0, 3_000, 0)) is None
    judged = witness.finish(witness.observe("s", write(said[:7])), CacheCounts(9_000, 500, 0))
    assert not judged.is_break


def test_a_title_by_another_model_is_no_change_of_the_model():
    said, witness = conversation(2), Watcher()
    title = as_chat(said[:1]) | {"model": "small"}
    witness.finish(witness.observe("s", title), None)
    assert witness.observe("s", as_chat(said[:1]))[1].difference is None


def test_a_change_of_millgates_own_is_blamed_on_millgate():
    said, witness = conversation(4), Watcher()
    sent = as_chat(said[:3])
    witness.finish(witness.observe("s", sent), CacheCounts(0, 9_000, 0))
    fields = as_chat(said[:5])
    changed = copy.deepcopy(fields)
    messages_of(changed)[1]["content"] += " A note."
    observed = witness.observe("s", fields, sent=changed)
    assert witness.finish(observed, CacheCounts(0, 9_900, 0)).blame == "millgate"


def test_an_equal_beginning_that_was_not_read_is_blamed_on_time_or_the_provider():
    now = 1_000.0
    witness = Watcher(clock=lambda: now)
    said = conversation(6)
    for end, later, blame in ((3, 0, None), (5, 20, "provider"), (7, 320, "time")):
        now += later
        observed = witness.observe("s", as_messages(said[:end]))
        judged = witness.finish(observed, CacheCounts(0, 10_000, 3))
        assert (judged and judged.blame) == blame


def test_a_recording_without_requests_is_judged_by_its_counts():
    last = CacheCounts(100_000, 11_000, 3)
    hit = judge(last, CacheCounts(110_000, 900, 3), gap_s=4, ttl_s=300, is_known=False)
    assert not hit.is_break
    cut = judge(last, CacheCounts(21_460, 90_000, 3), gap_s=4, ttl_s=300, is_known=False)
    assert (cut.blame, cut.lost) == ("client", 89_540)
    cold = judge(last, CacheCounts(0, 111_000, 3), gap_s=4 * 3600, ttl_s=3600, is_known=False)
    assert cold.blame == "time"
    assert "4.0 h" in cold.reason


def test_a_change_after_a_long_pause_is_told_with_the_pause_and_blamed_by_what_was_still_read():
    last, change = (
        CacheCounts(0, 100_000, 0, is_automatic=False),
        Difference("model", "the model (a to b)"),
    )
    told = "the model (a to b) changed; and the last call was 20 min ago, and the cache keeps it for 5 min"
    for read, blame in ((0, "time"), (30_000, "client")):
        now = CacheCounts(read, 100_000 - read, 0, is_automatic=False)
        judged = judge(last, now, gap_s=1_200, ttl_s=300, difference=change)
        assert (judged.blame, judged.reason) == (blame, told)


def test_what_is_remembered_is_bounded_and_each_tenant_pays_for_its_own():
    conversations = Conversations(max_bytes=300_000)
    quiet, busy = Owner("quiet"), Owner("busy")
    for number in range(200):
        prompt = read_prompt(as_messages(conversation(6, seed=number)))
        owner = quiet if number < 3 else busy
        conversations.remember(owner, Conversation(f"session {number}", prompt, prompt), None)
    assert conversations.bytes <= 300_000
    assert all(conversations.of_session(quiet, f"session {number}") for number in range(3))
    assert not conversations.of_session(busy, "session 3")
    (last,) = conversations.of_session(busy, "session 199")
    assert max(len(segment.name) for segment in last.sent.segments) < 100


def test_a_session_that_is_resumed_under_another_name_goes_on():
    conversations, said = Conversations(), conversation(6)
    first = read_prompt(as_messages(said[:5]))
    conversations.remember(Owner("t"), Conversation("monday", first, first), None)
    resumed, other = read_prompt(as_messages(said[:7])), read_prompt(as_messages(conversation(6, seed=2)))  # fmt: skip
    assert conversations.find(Owner("t"), "tuesday", resumed).session == "monday"
    assert conversations.find(Owner("t"), "tuesday", other) is None
    assert conversations.find(Owner("t", "another key"), "tuesday", resumed) is None
