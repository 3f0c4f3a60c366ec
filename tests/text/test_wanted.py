"""Wanted: what kind of message a person sends."""

import pytest

from millgate.text.wanted import LEAST_HELD, asks_nothing, continues, is_reply, read_wanted

KINDS = {
    "nothing": ("thanks, looks good", "hi", "ok!", "great job!", "are you sure?", "Danke, passt", "/compact", "", "👍"),
    "reply": ("continue", "no, the other one", "why did you do that?", "fix it", "the second one looks better", "mach weiter"),
    "order": ("rename the variable x to count", "please write a haiku about rain", "Can you sort the imports?", "don't delete the file"),
    "question": ("how do refunds work?", "what is a lease", "Wie lange gilt die Garantie?", "纤毛是用来做什么的？"),
    "statement": ("refund policy", "the build fails with error 17", "Biomaterials show inductive properties."),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])  # fmt: skip
def test_a_message_is_read_by_its_form(kind, text):
    assert read_wanted(text) == kind


def test_who_names_nothing_gets_nothing_and_an_order_needs_most():
    assert LEAST_HELD["nothing"] == LEAST_HELD["reply"] == float("inf")
    assert LEAST_HELD["order"] > LEAST_HELD["statement"] > LEAST_HELD["question"] > 0


@pytest.mark.parametrize("text", ["refund", "night", "team", "love", "what is it", "etc hosts"])
def test_a_word_that_is_searched_for_is_no_courtesy(text):
    assert not asks_nothing(text)


@pytest.mark.parametrize("text", ["and its filter part?", "how many watts does it use?", "what about the price?", "who wrote that?"])  # fmt: skip
def test_a_short_question_that_points_back_continues(text):
    assert continues(text)


@pytest.mark.parametrize(
    "text",
    ["What did Nate think of the ice cream that he made?", "how do refunds work?", "and now rename it", "continue", "thanks"],
)  # fmt: skip
def test_a_question_with_names_or_a_subject_of_its_own_continues_nothing(text):
    assert not continues(text)


def test_a_long_text_is_read_in_no_time_and_is_no_reply():
    text = "continue " * 200_000
    assert read_wanted(text) == "statement"
    assert not is_reply(text)
    assert not asks_nothing(text)
