"""Whose words stand in a user message: a person's, or those of the programs around the model."""

import time

import pytest

from millgate.text.fence import fence
from millgate.transcript.words import announces_summary, find_code, find_question

BLOCK = fence("[1] The port is 80.", b"secret")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Why?", "Why?"),
        ("", ""),
        ("  \n", ""),
        ("<b>Why</b> is it so?", "<b>Why</b> is it so?"),
        ("a < b and b > c </b>", "a < b and b > c </b>"),
        ("Why is <div>it</div> so?", "Why is <div>it</div> so?"),
        ("<system-reminder>be brief</system-reminder>", ""),
        ("<system-reminder>be brief</system-reminder> Why?", "Why?"),
        ("Why?\n<system-reminder>be brief</system-reminder>", "Why?"),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", ""),
        ("<context>all of it</context>", ""),
        ("<user_query>Why?</user_query>", "<user_query>Why?</user_query>"),
        ("<task>Why?</task>", "<task>Why?</task>"),
        ("<command-name>/cost</command-name>\n<command-args></command-args>", ""),
        ("<local-command-stdout>$1</local-command-stdout>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("# AGENTS.md instructions for /repo\n\nBe brief.", ""),
        ("Please write a 5-10 word title for the following conversation:\nWhy?", ""),
        ("Write a title for my talk.", "Write a title for my talk."),
        ("Your task is to create a detailed summary of the conversation so far", ""),
        ("This session is being continued from a previous conversation. Summary: x", ""),
        (f"{BLOCK}\n\nWhy?", "Why?"),
        (BLOCK, ""),
    ],
)
def test_only_what_a_person_says_is_a_question(text, question):
    assert find_question(text) == question


def test_a_request_for_a_summary_is_none():
    assert announces_summary("Conversation summary: we chose SQLite.")
    assert not announces_summary("Create a handoff summary of this conversation.")


def test_the_last_block_of_code_counts():
    assert find_code("```sh\nls\n```\nor\n```sh\npwd\n```") == "pwd\n"
    assert find_code("<code>look()</code>") == "look()"
    assert find_code("no code") == ""


@pytest.mark.parametrize("text", ["<a-b>", "</a-b>", "<a-b></a-b>", "<a-b x", "<a-b>\n</c-d>"])
def test_elements_take_time_in_proportion_to_the_text(text):
    def seconds(times):
        start = time.process_time()
        find_question("x" + text * times)
        return time.process_time() - start

    seconds(100)
    assert seconds(16_000) < 0.5
