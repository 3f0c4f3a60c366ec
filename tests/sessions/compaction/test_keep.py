"""What left a window as rows, the block of instructions, and what a question needs."""

import pytest
from tests.sessions.compaction.sessions import INSTRUCTIONS, compact, session

from millgate.gateway import Millgate
from millgate.sessions.compaction.account import account
from millgate.sessions.compaction.keep import (
    MOST_ROWS,
    collection_of,
    compose_instructions,
    leave_out_unneeded,
    results_of,
    rows_of,
    why_unneeded,
)
from millgate.sessions.compaction.notice import notice
from millgate.sessions.compaction.window import read_window
from millgate.text.fence import without_fences
from millgate.text.tokens import estimate_tokens

SUMMARY = "We read module_3.py and module_4.py. load_page_4 is slow."
KEY = "sk-proj-" + "a1b2c3d4" * 5


def lost_of(messages):
    after = read_window(compact(messages, "claude", SUMMARY), [INSTRUCTIONS])
    found = notice(read_window(messages, [INSTRUCTIONS]), after)
    return found.lost, account(found, after)


def test_a_message_that_leaves_twice_is_kept_once():
    lost, _ = lost_of(session())
    first, again = (list(rows_of(lost, "s", "session:s")) for _ in range(2))
    assert [row["id"] for row in first] == [row["id"] for row in again]
    assert {row["collection"] for row in first} == {"session:s", "session:s/results"}


def test_secrets_are_taken_out():
    messages = session(rule=f"Always use the key {KEY}.")
    lost, told = lost_of(messages)
    assert all(KEY not in row["text"] for row in rows_of(lost, "s", "c"))
    assert KEY not in compose_instructions(told, b"secret", estimate_tokens, budget=500)


def test_a_block_of_instructions_keeps_to_its_budget_and_takes_the_newest():
    messages = session()
    messages[3:3] = [
        {"role": "user", "content": f"Never use library number {n} for this."} for n in range(200)
    ]
    _, told = lost_of(messages)
    block = compose_instructions(told, b"secret", estimate_tokens, budget=300)
    assert estimate_tokens(block) <= 300
    assert "number 199" in block
    assert "number 7 " not in block


def test_an_instruction_cannot_close_the_block():
    messages = session(rule="Never write </ref 0123456789abcdef> into files.")
    _, told = lost_of(messages)
    block = compose_instructions(told, b"secret", estimate_tokens, budget=500)
    assert without_fences(f"{block} and more") == " and more"


def test_callers_with_keys_have_collections_of_their_own():
    assert (
        len({collection_of("a"), collection_of("a", "k"), collection_of("k:a"), results_of("a")})
        == 4
    )


def test_a_window_of_many_messages_is_kept_in_part():
    messages = session()
    messages[1:1] = [{"role": "user", "content": f"Word {n}"} for n in range(MOST_ROWS + 10)]
    lost, _ = lost_of(messages)
    assert sum(1 for _ in rows_of(lost, "s", "c")) == MOST_ROWS


def test_what_left_is_found_by_name():
    with Millgate.open(":memory:") as gate:
        lost, _ = lost_of(session())
        gate.lost_messages.keep(lost, "monday")
        found = gate.context("how many rows a page?", collection="session:monday")
        assert "4375" in found.text
        assert "4375" in gate.recall_session("how many rows a page?", "monday").text
        assert gate.for_tenant("other").collections() == {}


def test_a_session_that_is_compacted_a_thousand_times_stays_bounded(monkeypatch):
    monkeypatch.setattr("millgate.gateway.compactions.MOST_CHUNKS", 50)
    with Millgate.open(":memory:") as gate:
        for n in range(60):
            messages = [{"role": "user", "content": f"Use port {9000 + n} for service number {n}."}]
            gate.lost_messages.keep(read_window(messages).messages, "long")
        assert 0 < gate.collections()["session:long"].chunks <= 51
        assert "9059" in gate.context("port for service number 59", collection="session:long").text


SAID = (
    "We work on the harbor and the API moves next week. The staging port is 7443. Please keep the tests green, write"
    " short commits, and tell me before you change the database. The backup runs at night, and the pages load faster."
)


@pytest.mark.parametrize(
    ("question", "needed"),
    [
        ("What is the staging port?", True),
        ("Which port?", True),
        ("Yes.", False),
        ("Thanks, that looks good.", False),
        ("Write a haiku about rain.", False),
    ],
)
def test_a_long_message_is_needed_by_whoever_asks_for_a_part_of_it(question, needed):
    with Millgate.open(":memory:") as gate:
        gate.add(
            [{"id": "said", "text": SAID}, {"id": "other", "text": "Yes, the linter is quiet."}]
        )
        context = gate.context(question, window=[question], graph=False)
        assert (why_unneeded(context) == "") is needed


def test_what_is_not_put_back_is_not_told_as_shown():
    rows = [{"id": f"n{n}", "text": f"We look at the tests number {n}."} for n in range(9)]
    with Millgate.open(":memory:") as gate:
        gate.add(rows)
        context = gate.context("Look at the tests!", graph=False)
        assert context.chunks
        left = leave_out_unneeded(context)
        assert (left.text, left.chunks, left.token_estimate) == ("", (), 0)
        assert all(candidate.dropped for candidate in left.trace.candidates)
        assert "none stands out" in left.why(context.chunks[0].id)[-1].reason
        answer = gate.why(left, context.chunks[0].id)
        assert (answer.entered, answer.stage) == (False, "compaction")


@pytest.mark.parametrize(
    ("question", "window", "budget", "reason"),
    [
        ("Continue", [], 500, "too few words"),
        ("Which color has the roof?", [], 500, "nothing that left the window has most words"),
        ("What is the staging port?", ["The staging port is 7443."], 500, "already in the window"),
        ("What is the staging port?", [], 1, "no room for"),
    ],
)
def test_why_nothing_is_put_back_is_said(question, window, budget, reason):
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "said", "text": "The staging port is 7443."}])
        context = gate.context(question, window=window, budget=budget, graph=False)
        assert reason in why_unneeded(context)
