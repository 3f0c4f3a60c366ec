"""Whose words a user message holds, and where a block goes in it."""

import pytest

from millgate.guard.dialects.turns import add_block, human_text

RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "42"}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def text(words, kind="text"):
    return {"type": kind, "text": words}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (user("Why?"), "Why?"),
        (user([text("Why?"), text("And how?")]), "Why?\nAnd how?"),
        (user([text("Why?", "input_text")], type="message"), "Why?"),
        (user([RESULT]), ""),
        (user([RESULT, text("Stop, look here.")]), "Stop, look here."),
        (user([text("<system-reminder>be brief</system-reminder>"), text("Why?")]), "Why?"),
        (user("<environment_context>\n<cwd>/x</cwd>\n</environment_context>"), ""),
        (user("<b>Why</b> is it so?"), "<b>Why</b> is it so?"),
        (user("a < b and b > c </b>"), "a < b and b > c </b>"),
        ({"role": "assistant", "content": "Because."}, ""),
        ({"role": "tool", "content": "42"}, ""),
        ({"role": "developer", "content": "Be brief."}, ""),
        ({"type": "function_call_output", "output": "42"}, ""),
        (user(None), ""),
        (user([5, {"type": "image"}]), ""),
    ],
)
def test_only_what_a_person_said_counts(message, words):
    assert human_text(message) == words


def test_a_block_stands_in_front_of_the_words_and_behind_the_results():
    assert add_block(user("Why?"), "<c/>") == user("<c/>\n\nWhy?")
    assert add_block(user([RESULT, text("Why?")]), "<c/>")["content"] == [RESULT, text("<c/>"), text("Why?")]  # fmt: skip
    kept = user([text("Why?", "input_text")], id="x", cache_control={"type": "ephemeral"})
    added = add_block(kept, "<c/>")
    assert added["content"][0] == text("<c/>", "input_text")
    assert {k: v for k, v in added.items() if k != "content"} == {k: v for k, v in kept.items() if k != "content"}  # fmt: skip
