"""Where injected context goes: behind what stays the same, never between a call and its result."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import StoreError
from headgate.gateway import Headgate
from headgate.policy import ProxyPolicy
from headgate.service.proxy.inject import inject, placed
from headgate.service.proxy.request import ask_of

BLOCK = "<context>...</context>"
USER = {"role": "user", "content": "And now?"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}, {"id": "c2"}]}
RESULTS = [{"role": "tool", "tool_call_id": f"c{n}", "content": "42"} for n in (1, 2)]
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1"}]}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}],
}


def test_it_stands_in_front_of_the_last_words_of_the_user():
    sent = placed([{"role": "system", "content": "Be brief."}, USER], BLOCK)
    assert sent[0] == {"role": "system", "content": "Be brief."}
    assert sent[1] == {"role": "user", "content": f"{BLOCK}\n\nAnd now?"}


def test_parts_of_a_turn_are_kept():
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    sent = placed([{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}], BLOCK)
    assert sent[0]["content"] == [
        {"type": "text", "text": BLOCK},
        image,
        {"type": "text", "text": "What?"},
    ]


def test_it_stands_after_the_results_of_tools():
    assert placed([USER, CALLS, *RESULTS], BLOCK) == [
        USER,
        CALLS,
        *RESULTS,
        {"role": "user", "content": BLOCK},
    ]
    sent = placed([USER, USED, RESULT], BLOCK)
    assert sent[:2] == [USER, USED]
    assert sent[2]["content"] == [*RESULT["content"], {"type": "text", "text": BLOCK}]


def test_it_never_stands_after_a_prefill_or_an_open_call():
    for last in ({"role": "assistant", "content": "Sure:"}, CALLS):
        sent = placed([USER, last], BLOCK)
        assert sent[1] == last
        assert BLOCK in sent[0]["content"]


turns = st.sampled_from(
    [[USER], [{"role": "assistant", "content": "Ah."}], [CALLS, *RESULTS], [USED, RESULT]]
)


@given(
    st.lists(turns, min_size=1, max_size=6).map(
        lambda parts: [USER, *(m for p in parts for m in p)]
    )
)
def test_all_before_the_block_is_as_it_was_and_pairs_stay_together(messages):
    sent = placed(messages, BLOCK)
    at = next(n for n, message in enumerate(sent) if BLOCK in str(message))
    assert sent[:at] == messages[:at]
    assert all(m["role"] in ("user", "assistant", "tool") for m in sent[at:])
    for n, message in enumerate(sent):
        if message == CALLS:
            assert sent[n + 1 : n + 3] == RESULTS
        if message == USED:
            assert sent[n + 1]["content"][0] == RESULT["content"][0]
    assert len(sent) - len(messages) in (0, 1)


def asked(messages, **headers):
    body = orjson.dumps({"model": "m", "messages": messages})
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return ask_of(pairs, body, ProxyPolicy())


async def test_the_gate_hears_the_last_question_and_the_whole_window():
    heard = []

    async def gate(request):
        heard.append(request)
        raise StoreError("the store is gone")

    ask = asked([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One?"}, *[CALLS, *RESULTS], USER],
                x_headgate_budget="77", x_headgate_collection="docs", x_headgate_k="3", x_headgate_window="8000")  # fmt: skip
    same, told = await inject(ask, gate, "tenant-7")
    request = heard[0]
    assert (request.query, request.tenant, request.budget) == ("And now?", "tenant-7", 77)
    assert (request.collection, request.k) == ("docs", 3)
    assert request.window.texts == ("Be brief.", "One?", "42", "42", "And now?")
    assert request.context_budget.context_length == 8000
    assert same is ask
    assert told == {"x-headgate-degraded": "context: the store is gone"}


@pytest.mark.parametrize(
    "messages",
    [[{"role": "system", "content": "Be brief."}], [RESULT], [{"role": "user", "content": " "}]],
)
async def test_without_a_question_nothing_is_asked(messages):
    async def gate(request):
        raise AssertionError

    ask = asked(messages)
    assert (await inject(ask, gate, "t"))[0] is ask


async def test_turns_that_the_request_brings_are_not_injected_again():
    messages = [
        {"role": "user", "content": "My sister Ann moved to Lisbon last spring, to the old town."},
        {"role": "assistant", "content": [{"type": "text", "text": "How does Ann like Lisbon?"}]},
        {"role": "user", "content": "Where did Ann move, to Lisbon?"},
    ]
    with Headgate.open(":memory:") as gate:
        gate.add_turns("monday", messages)
        ask = asked(messages, x_headgate_collection="turns")
        same, told = await inject(ask, gate.acontext_for, gate.tenant)
        assert same is ask
        assert told["x-headgate-context-tokens"] == "0"
        fresh = asked(messages[-1:], x_headgate_collection="turns")
        changed, _ = await inject(fresh, gate.acontext_for, gate.tenant)
        assert "old town" in changed.messages[0]["content"]
