"""Context in requests: the prefix law, what counts as a question, and where its block stands."""

import json
from dataclasses import replace
from itertools import count

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import StoreError
from millgate.gateway import Millgate
from millgate.guard.dialects.chat import ChatDialect, CompletionsDialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.responses import ResponsesDialect
from millgate.service.conversation_state import ConversationState
from millgate.service.proxy.inject import MAX_NEW, MAX_QUERY, find_blocks
from millgate.service.proxy.prepare import Known, Policies, prepare
from millgate.service.proxy.request import parse_request
from millgate.text.tokens import estimate_tokens
from millgate.types import Context, Plan, Report, Request, Strategy, Tier, Trace
from millgate.types.policy import Limits, ProxyPolicy

# Conversations as each API writes them: a turn is a list of messages, and a message of None is no turn of a person


def chat_turn(kind, n):
    match kind:
        case "ask":
            return [{"role": "user", "content": f"Question {n}?"}]
        case "parts":
            return [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:,"}},
                        {"type": "text", "text": f"Question {n}?"},
                    ],
                }
            ]
        case "say":
            return [{"role": "assistant", "content": f"Answer {n}."}]
        case "tool":
            call = {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": f"result {n}"},
            ]
        case "remind":
            return [{"role": "user", "content": f"<system-reminder>note {n}</system-reminder>"}]


def messages_turn(kind, n):
    match kind:
        case "parts":
            return [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "text",
                            "text": f"Question {n}?",
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                }
            ]
        case "tool":
            result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"result {n}"}
            return [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}}],
                },
                {"role": "user", "content": [result]},
            ]
        case "remind":
            result = {
                "type": "tool_result",
                "tool_use_id": f"t{n}",
                "content": [{"type": "text", "text": "ok"}],
            }
            return [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        result,
                        {"type": "text", "text": f"<system-reminder>note {n}</system-reminder>"},
                    ],
                },
            ]
    return chat_turn(kind, n)


def responses_turn(kind, n):
    match kind:
        case "parts":
            return [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": f"Question {n}?"}],
                }
            ]
        case "tool":
            return [
                {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "gAAA"},
                {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": f"c{n}", "output": f"result {n}"},
            ]
        case "remind":
            return [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {
                            "type": "input_text",
                            "text": "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
                        }
                    ],
                }
            ]
    return chat_turn(kind, n)


APIS = {
    "chat": (ChatDialect, "messages", chat_turn),
    "messages": (MessagesDialect, "messages", messages_turn),
    "responses": (ResponsesDialect, "input", responses_turn),
}
KINDS = st.lists(st.sampled_from(["ask", "parts", "say", "tool", "remind"]), max_size=8)


def context(text, request):
    plan = Plan(False, Tier.STUFF, Strategy.RAG, 100)
    return Context(text, (), 7, Trace("trace-1", request, plan), Report())


def changing_gate(heard=None):
    """A gate over a store that changes all the time: no two contexts are alike."""
    numbers = count()

    async def gate(request):
        if heard is not None:
            heard.append(request)
        return context(f"<context {next(numbers)}/>", request)

    return gate


def settled_gate():
    """A gate over a store that does not change: a context depends on its request alone."""

    async def gate(request):
        return context(f"<context {hash((request.query, request.window.texts)) % 9973}/>", request)

    return gate


def asked(api, messages, **headers):
    dialect, name, _ = APIS[api]
    body = orjson.dumps({"model": "m", name: messages})
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return parse_request(pairs, body, dialect(), ProxyPolicy())


async def prepared(request, dialect, gate, conversations):
    blocks, block = await find_blocks(request, dialect, gate, "t", conversations)
    changed = prepare(request, Known(dialect, blocks=[blocks]), Policies()).request
    return changed, block.headers()


async def sent(api, messages, gate, conversations, **headers):
    dialect, request = APIS[api][0](), asked(api, messages, **headers)
    return await prepared(request, dialect, gate, conversations)


def prefix(body, messages):
    """The bytes of a request up to the end of its messages."""
    return body[: body.rindex(b"]}")] if messages else body[: body.rindex(b"[")]


@pytest.mark.parametrize("api", APIS)
@given(kinds=KINDS, restarts=st.sets(st.integers(0, 12)), settled=st.booleans())
async def test_each_request_begins_with_the_bytes_of_the_one_before_it(
    api, kinds, restarts, settled
):
    turn = APIS[api][2]
    turns = [turn("ask", 0), *(turn(kind, n) for n, kind in enumerate(kinds, 1))]
    # With a store that changes, what was added is conversations; with one that does not, it may be forgotten.
    gate, conversations = settled_gate() if settled else changing_gate(), ConversationState()
    before, messages = b"", []
    for number, more in enumerate(turns):
        if settled and number in restarts:
            conversations = ConversationState()
        messages = [*messages, *more]
        request, _ = await sent(api, messages, gate, conversations)
        assert request.body.startswith(before)
        assert request.body.count(b"<context ") == sum(
            k in ("ask", "parts") for k in ["ask", *kinds[:number]]
        )
        before = prefix(request.body, messages)


@pytest.mark.parametrize("api", APIS)
async def test_fifty_tool_calls_keep_the_block_where_it_was(api):
    turn, conversations, gate = APIS[api][2], ConversationState(), changing_gate()
    messages, before = turn("ask", 0), b""
    for n in range(1, 51):
        request, _ = await sent(api, messages, gate, conversations)
        assert request.body.startswith(before)
        assert request.body.count(b"<context 0/>") == 1
        assert request.body.index(b"<context 0/>") < request.body.index(b"Question 0?")
        before = prefix(request.body, messages)
        messages = [*messages, *turn("tool", n)]


@pytest.mark.parametrize("api", APIS)
async def test_notes_and_rollbacks_build_on_the_messages_with_their_blocks(api):
    dialect, name, turn = APIS[api]
    request, _ = await sent(api, turn("ask", 0), changing_gate(), ConversationState())
    assert list(request.messages) == json.loads(request.body)[name]
    again = request.with_messages([*request.messages, *turn("say", 1)], dialect())
    assert again.body.count(b"<context 0/>") == 1


async def test_another_worker_and_a_restart_add_the_same_block(tmp_path):
    messages = chat_turn("ask", 0)
    one = ConversationState(tmp_path / "proxy.db")
    first, _ = await sent("chat", messages, changing_gate(), one)
    other = ConversationState(tmp_path / "proxy.db")
    second, told = await sent("chat", [*messages, *chat_turn("tool", 1)], changing_gate(), other)
    one.close()
    after = ConversationState(tmp_path / "proxy.db")
    third, _ = await sent("chat", messages, changing_gate(), after)
    other.close()
    after.close()
    assert second.body.startswith(prefix(first.body, messages))
    assert third.body == first.body
    assert told["x-millgate-trace"] == "trace-1"
    assert (tmp_path / "proxy.db").stat().st_mode & 0o077 == 0


async def test_two_workers_at_once_agree_on_the_first_block(tmp_path):
    one, two = ConversationState(tmp_path / "proxy.db"), ConversationState(tmp_path / "proxy.db")
    assert await one.get(b"k") is None
    assert await two.get(b"k") is None
    assert await one.put(b"k", b"first") == b"first"
    assert await two.put(b"k", b"second") == b"first"
    one.close()
    two.close()


async def test_a_file_that_cannot_be_used_is_told_and_memory_goes_on(tmp_path):
    conversations = ConversationState(tmp_path / "no such folder" / "proxy.db")
    gate = changing_gate()
    first, told = await sent("chat", chat_turn("ask", 0), gate, conversations)
    again, _ = await sent("chat", chat_turn("ask", 0), gate, conversations)
    assert again.body == first.body
    assert told["x-millgate-degraded"].startswith("remembered:")


async def test_other_options_tenants_and_conversations_have_blocks_of_their_own():
    conversations, gate = ConversationState(), changing_gate()
    ask = chat_turn("ask", 0)
    bodies = {(await sent("chat", ask, gate, conversations, **headers))[0].body
              for headers in ({}, {"x_millgate_budget": "77"}, {"x_millgate_collection": "docs"}, {"x_millgate_session": "s"})}  # fmt: skip
    blocks, _ = await find_blocks(
        asked("chat", ask), ChatDialect(), gate, "another tenant", conversations
    )
    bodies.add(
        prepare(asked("chat", ask), Known(ChatDialect(), blocks=[blocks]), Policies()).request.body
    )
    assert len(bodies) == 5


@pytest.mark.parametrize("api", APIS)
async def test_the_question_is_found_through_tool_results_and_reminders(api):
    turn, heard = APIS[api][2], []
    messages = [*turn("ask", 0), *turn("tool", 1), *turn("remind", 2), *turn("tool", 3)]
    await sent(api, messages, changing_gate(heard), ConversationState())
    assert [request.query for request in heard] == ["Question 0?"]


REPLIES = ["continue", "go on", "Fix it.", "weiter", "yes, do it", "do that!", "继续", "да"]


def spoken(*texts):
    """A conversation in chat's format: a person and the model, in turns."""
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


@pytest.mark.parametrize("reply", REPLIES)
async def test_a_reply_adds_nothing_to_the_context_of_the_question_before_it(reply):
    heard, conversations = [], ConversationState()
    talk = spoken("How do refunds work?", "Like this.", reply, "Done.", reply)
    request, told = await sent("chat", talk, changing_gate(heard), conversations)
    assert [one.query for one in heard] == ["How do refunds work?"]
    assert request.fields["messages"][1:] == talk[1:]
    assert told["x-millgate-context-tokens"] == "0"
    assert "asks for nothing" in told["x-millgate-context-reason"]
    longer = [*talk, *spoken("What is a parcel?")]
    again, told = await sent("chat", longer, changing_gate(heard), conversations)
    assert heard[-1].query == "What is a parcel?"
    assert again.body.startswith(prefix(request.body, talk))
    assert "x-millgate-context-reason" not in told


async def test_a_reply_brings_the_context_that_its_question_missed_and_no_other():
    heard, failing = [], iter([True, False])

    async def gate(request):
        heard.append(request.query)
        if next(failing, False):
            raise StoreError("the store is gone")
        return context("<context/>", request)

    talk = spoken("How do refunds work?", "?", "go on", "?", "more", "?", "fix it")
    await sent("chat", talk, gate, ConversationState())
    assert heard == ["How do refunds work?", "How do refunds work?"]


async def test_a_question_that_points_back_is_looked_up_with_the_one_before_it():
    heard = []
    talk = spoken(
        "How do refunds work?", "Like this.", "thanks", "Sure.", "and which items are excluded?"
    )
    await sent("chat", talk, changing_gate(heard), ConversationState())
    first = "How do refunds work?"
    assert [one.query for one in heard] == [first, f"{first}\nand which items are excluded?"]


async def test_what_is_hardly_likely_to_help_is_not_added_unasked():
    async def gate(request):
        made = context("<context/>", request)
        return replace(made, confidences={"a": 0.02, "b": 0.06})

    talk = spoken("run the tests")
    request, told = await sent("chat", talk, gate, ConversationState())
    assert request.fields["messages"] == talk
    assert told["x-millgate-trace"] == "trace-1"
    assert "a chance of 0.06" in told["x-millgate-context-reason"]


@pytest.mark.parametrize(
    "said", ["hello", "Thanks!", "yes", "ok", "/compact", "Good morning, everyone", "…"]
)
async def test_a_greeting_and_a_command_bring_no_context(said):
    heard, conversations = [], ConversationState()
    talk = spoken(said, "Hi.", "How do refunds work?", "So.", said, "!", "continue")
    await sent("chat", talk[:1], changing_gate(heard), conversations)
    request, _ = await sent("chat", talk[:5], changing_gate(heard), conversations)
    assert [one.query for one in heard] == ["How do refunds work?"]
    assert request.fields["messages"][-1] == talk[4]
    await sent("chat", talk, changing_gate(heard), conversations)  # it is about the question
    assert len(heard) == 1


@pytest.mark.parametrize(
    "said",
    [
        "refund policy",
        "postgres?",
        "how do I deploy",
        "fix tests/test_inject.py",
        "怎么部署",
        "x" * 99,
    ],
)
async def test_what_names_more_or_asks_is_looked_up_by_itself(said):
    heard = []
    await sent("chat", spoken("Why?", "So.", said), changing_gate(heard), ConversationState())
    assert heard[-1].query == said


async def test_a_first_message_is_looked_up_if_it_names_something():
    heard = []
    for said in ("continue", "ferry"):
        await sent("chat", spoken(said), changing_gate(heard), ConversationState())
    assert [one.query for one in heard] == ["ferry"]


@pytest.mark.parametrize("api", APIS)
async def test_the_window_of_a_question_ends_with_it_and_holds_earlier_blocks(api):
    turn, heard = APIS[api][2], []
    messages = [*turn("ask", 0), *turn("tool", 1), *turn("ask", 2), *turn("tool", 3)]
    await sent(api, messages, changing_gate(heard), ConversationState(), x_millgate_window="8000")
    first, second = heard
    assert first.window.texts == ("Question 0?",)
    assert "<context 0/>" in "".join(second.window.texts)
    assert "result 1" in second.window.texts
    assert "result 3" not in second.window.texts
    assert first.context_budget.used_tokens < second.context_budget.used_tokens


async def test_the_system_prompt_is_part_of_the_window():
    heard = []
    body = orjson.dumps({"model": "m", "system": [{"type": "text", "text": "Be brief."}], "messages": chat_turn("ask", 0)})  # fmt: skip
    request = parse_request([], body, MessagesDialect(), ProxyPolicy())
    await find_blocks(request, MessagesDialect(), changing_gate(heard), "t", ConversationState())
    assert heard[0].window.texts == ("Be brief.", "Question 0?")


@pytest.mark.parametrize(("api", "field", "before", "type"), [
    ("chat", "messages", {"type": "image_url", "image_url": {"url": "data:,"}}, "text"),
    ("messages", "messages", {"type": "tool_result", "tool_use_id": "t", "content": "42"}, "text"),
    ("responses", "input", {"type": "input_image", "image_url": "data:,"}, "input_text"),
])  # fmt: skip
async def test_a_block_stands_in_the_text_of_the_words_and_behind_what_stands_before(
    api, field, before, type
):
    said = {"type": type, "text": "And the ferry?"}
    talk = [{"role": "user", "content": [before, said]}]
    request, _ = await sent(api, talk, changing_gate(), ConversationState())
    changed = {**said, "text": "<context 0/>\n\nAnd the ferry?"}
    assert request.fields[field][0]["content"] == [before, changed]


async def test_a_prompt_is_one_question():
    body = orjson.dumps({"model": "m", "prompt": "Once upon a time"})
    request = parse_request([], body, CompletionsDialect(), ProxyPolicy())
    request, _ = await prepared(request, CompletionsDialect(), changing_gate(), ConversationState())
    assert request.fields["prompt"] == "<context 0/>\n\nOnce upon a time"


async def test_a_gate_that_fails_is_told_and_its_turn_stays_as_it_was_once_it_is_answered():
    calls = count()

    async def failing(request):
        next(calls)
        raise StoreError("the store is gone")

    conversations, ask = ConversationState(), chat_turn("ask", 0)
    request, told = await sent("chat", ask, failing, conversations)
    assert request.fields["messages"] == ask
    assert told["x-millgate-degraded"] == "context: the store is gone"
    answered = [*ask, {"role": "assistant", "content": "I see."}, *chat_turn("ask", 2)]
    again, _ = await sent("chat", answered, changing_gate(), conversations)
    assert again.body.startswith(prefix(request.body, ask))
    assert next(calls) == 1


async def test_a_question_whose_context_failed_is_looked_up_again_while_nothing_stands_behind_it():
    async def failing(request):
        raise StoreError("the store is gone")

    conversations, ask = ConversationState(), chat_turn("ask", 0)
    await sent("chat", ask, failing, conversations)
    first, _ = await sent("chat", ask, changing_gate(), conversations)
    again, _ = await sent("chat", ask, changing_gate(), conversations)
    assert "<context 0/>" in first.body.decode()
    assert again.body == first.body


async def test_a_pasted_file_is_looked_up_by_its_beginning_and_a_limit_costs_no_call():
    heard, long = [], [{"role": "user", "content": "word " * 60_000}]
    await sent("chat", long, changing_gate(heard), ConversationState())
    assert heard[0].query == long[0]["content"][:MAX_QUERY]
    assert Limits().query_chars == MAX_QUERY
    with Millgate.open(":memory:", limits={"query_chars": 10, "window_chars": 10}) as gate:
        request, told = await sent("chat", long, gate.for_tenant("t").acontext_for, ConversationState())  # fmt: skip
    assert request.fields["messages"] == long
    assert told["x-millgate-degraded"].startswith("context: query_chars is 100,000")


async def test_a_long_conversation_that_nobody_remembers_costs_a_bounded_number_of_contexts():
    heard = []
    messages = [m for n in range(3 * MAX_NEW) for m in chat_turn("ask", n)]
    conversations = ConversationState()
    first, _ = await sent("chat", messages, changing_gate(heard), conversations)
    assert len(heard) == MAX_NEW
    assert heard[-1].query == f"Question {3 * MAX_NEW - 1}?"
    again, _ = await sent("chat", messages, changing_gate(heard), conversations)
    assert (again.body, len(heard)) == (first.body, MAX_NEW)


@pytest.mark.parametrize(
    "message", [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " "}]
)
async def test_without_a_question_nothing_is_asked(message):
    async def gate(request):
        raise AssertionError

    request, told = await sent("chat", [message], gate, ConversationState())
    assert json.loads(request.body)["messages"] == [message]
    assert told == {
        "x-millgate-context-tokens": "0",
        "x-millgate-context-reason": "no message is a person's",
    }


@pytest.mark.parametrize(
    ("collection", "reason"),
    [("main", "nothing relevant was found"), ("mian", "nothing is in collection mian (did you mean main?)")],
)  # fmt: skip
async def test_a_question_for_which_nothing_is_found_says_so(collection, reason):
    with Millgate.open(":memory:", tenant="t") as gate:
        gate.add([{"id": "a", "text": "Refunds take five days."}])
        _, told = await sent("chat", spoken("Who sells zebras?"), gate.acontext_for, ConversationState(), x_millgate_collection=collection)  # fmt: skip
    assert told["x-millgate-context-reason"] == reason


async def test_the_gate_hears_the_options():
    heard = []
    options = {"x_millgate_budget": "77", "x_millgate_collection": "docs", "x_millgate_k": "3"}
    await sent("chat", chat_turn("ask", 0), changing_gate(heard), ConversationState(), **options)
    assert heard[0] == Request("Question 0?", budget=77, tenant="t", collection="docs", k=3, window=heard[0].window)  # fmt: skip


async def test_turns_that_the_request_brings_are_not_injected_again():
    talk = [
        {"role": "user", "content": "My sister Ann moved to Lisbon last spring, to the old town."},
        {"role": "assistant", "content": [{"type": "text", "text": "How does Ann like Lisbon?"}]},
        {"role": "user", "content": "Where did Ann move, to Lisbon?"},
    ]
    options = {"x_millgate_collection": "turns"}
    with Millgate.open(":memory:", tenant="t") as gate:
        conversations = ConversationState()
        for spoken in (1, 3):
            gate.add_turns("monday", talk[:spoken])
            request, told = await sent(
                "chat", talk[:spoken], gate.acontext_for, conversations, **options
            )
            assert json.loads(request.body)["messages"] == talk[:spoken]
            assert told["x-millgate-context-tokens"] == "0"
        request, _ = await sent(
            "chat", talk[-1:], gate.acontext_for, ConversationState(), **options
        )
        assert "old town" in json.loads(request.body)["messages"][0]["content"]


async def test_of_a_long_conversation_only_the_blocks_that_it_shows_are_remembered():
    heard, conversations = [], ConversationState()
    messages = [m for n in range(2 * MAX_NEW) for m in chat_turn("ask", n)]
    first, _ = await sent("chat", messages, changing_gate(heard), conversations)
    assert len(conversations._memory) == MAX_NEW
    longer, _ = await sent("chat", [*messages, *chat_turn("ask", 999)], changing_gate(heard), conversations)  # fmt: skip
    assert len(heard) == MAX_NEW + 1, "the questions before those that are known get no block"
    assert longer.fields["messages"][: len(messages)] == first.fields["messages"]


async def test_the_tokens_of_a_window_are_those_of_all_its_texts():
    heard = []
    messages = [m for n in range(4) for m in (*chat_turn("ask", n), *chat_turn("tool", n))]
    await sent(
        "chat", messages, changing_gate(heard), ConversationState(), x_millgate_window="8000"
    )
    for request in heard:
        assert request.context_budget.used_tokens == sum(map(estimate_tokens, request.window.texts))
