"""How the model is asked to go on: with changed sampling, or by words alone; and what it is shown of the answer."""

import pytest

from millgate.guard import Guard, Piece
from millgate.guard.channels import REASONING
from millgate.guard.policy import SAMPLING
from millgate.guard.resume import (
    ANSWER_NOW,
    FINISH,
    NUDGE,
    OPENING,
    RETRY,
    TURNS,
    TURNS_BY_WORDS,
    SentText,
    next_call,
)
from millgate.testing import ScriptedModel

ASK = ({"role": "user", "content": "Tell me."},)
TEXT = "One thing. Another thing, and again and again and"
ONSET = TEXT.index("and again")


def words(attempt, text=TEXT, onset=ONSET, **more):
    return next_call(ASK, text, onset=onset, attempt=attempt, sampling=(), **more)


def test_the_ladder_goes_back_then_asks_for_an_end():
    calls = [words(attempt) for attempt in (1, 2, 3, 4)]
    assert [call.messages[-1]["content"] for call in calls] == [NUDGE, FINISH, FINISH, FINISH]
    histories = [call.messages[-2]["content"] for call in calls]
    assert histories == ["One thing. ", "One thing. ", TEXT, TEXT]
    assert all(call.sampling is None for call in calls)
    assert [call.steering for call in calls] == [*TURNS_BY_WORDS, TURNS_BY_WORDS[-1]]


def test_the_last_try_shows_the_model_only_how_a_long_answer_begins():
    text = "It begins so. " + "Something new each time, number %d. " * 20 % tuple(range(20))
    looped = text + "and and and"
    histories = [words(n, looped, len(text)).messages[-2]["content"] for n in (1, 2, 3)]
    assert histories[:2] == [text, text]
    assert text.startswith(histories[2])
    assert 200 < len(histories[2]) <= OPENING
    assert histories[2].endswith(". ")


def test_with_sampling_the_history_is_what_the_client_has():
    call = next_call(ASK, TEXT, onset=ONSET, attempt=1)
    assert [m["content"] for m in call.messages] == ["Tell me.", TEXT, TURNS[0]]
    assert call.sampling == SAMPLING[0]


@pytest.mark.parametrize(
    ("text", "onset", "kept"),
    [
        ("A line\nand and and", 7, "A line\n"),
        ("A sentence. and and", 11, "A sentence. "),  # the blank counts as part of the loop
        ("no end here, and and", 13, "no end here, "),
        ("whole", None, "whole"),
    ],
)
def test_what_stands_before_the_loop(text, onset, kept):
    assert words(1, text, onset).messages[-2]["content"] == kept


def test_of_an_answer_that_begins_with_its_loop_nothing_is_shown():
    assert words(1, "and and and", 0).messages == (
        {"role": "user", "content": f"Tell me.\n\n{NUDGE}"},
    )


def test_a_loop_in_the_reasoning_is_answered_with_answer_now_on_every_try():
    for sampling in ((), SAMPLING):
        call = next_call(ASK, "", reasoning=True, attempt=2, sampling=sampling)
        assert call.messages[-1]["content"].endswith(ANSWER_NOW)
        assert call.answer_now


def test_what_is_delivered_whole_is_asked_for_again_with_new_sampling_or_with_words():
    assert next_call(ASK, "", whole=True, attempt=1, how="restart").messages == ASK
    assert words(1, "", None, whole=True, how="restart").messages[-1]["content"].endswith(RETRY)


def test_a_turn_joins_the_parts_of_a_user_message_in_their_own_type():
    for kind in ("text", "input_text"):
        message = {"role": "user", "content": [{"type": kind, "text": "Tell me."}]}
        call = next_call((message,), "", attempt=1)
        assert [part["type"] for part in call.messages[0]["content"]] == [kind, kind]


def test_a_part_whose_type_is_no_name_is_left_to_the_upstream():
    message = {"role": "user", "content": [{"type": ["text"], "text": "Tell me."}]}
    call = next_call((message,), "", attempt=1)
    assert call.messages[0]["content"][1]["type"] == "text"


async def test_a_generate_without_sampling_is_resumed_by_words():
    unit = "He lifted the first board and looked at the water below him for a while. "
    seen = []
    scripts = iter([["He went out. ", *[unit] * 30], ["Then he went home."]])

    async def generate(messages):
        seen.append(messages)
        for text in next(scripts):
            yield text

    text = "".join([piece async for piece in Guard(generate).stream("Tell me.")])
    assert text.endswith("Then he went home.")
    assert seen[1][-1]["content"] == NUDGE
    assert seen[1][-2]["content"] == "He went out. "


async def test_reasoning_that_loops_leads_to_an_answer():
    unit = "Wait, I should look at it once more from the beginning, to be sure. "
    thought = [Piece(REASONING, unit) for _ in range(30)]
    model = ScriptedModel([thought, ["42."]])
    guard = Guard(model)
    pieces = [piece async for piece in guard.stream("How many?")]
    assert pieces[-1] == "42."
    assert model.calls[1].messages[-1]["content"].endswith(ANSWER_NOW)


def sent(*parts):
    text = SentText()
    for part in parts:
        text.parts.append(part)
    return text


def test_the_model_is_shown_what_was_sent():
    text = sent("The keeper ", "went out.")
    assert str(text) == text.shown() == "The keeper went out."
    assert text.shown(10) == "The keeper"
    assert (text.last, SentText().last) == (".", "")


def test_a_loop_cut_at_its_onset_is_not_shown_and_what_follows_is():
    text = sent("It began. ", "fofofo")
    text.omit_from(10)
    text.parts.append("It went on. ")
    text.parts.append("baba")
    assert str(text) == "It began. fofofoIt went on. baba"
    assert text.shown() == "It began. It went on. baba"
    text.omit_from(28)
    assert text.shown() == "It began. It went on. "
    assert len(text.shown(28)) == 22


def test_an_earlier_onset_takes_a_later_one_in():
    text = sent("It began. ", "fofofo")
    text.omit_from(10)
    text.parts.append("more")
    text.omit_from(3)
    assert text.shown() == "It "
