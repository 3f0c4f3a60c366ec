"""What kind of collection it is: turns or texts, and in which languages; every bound from both sides."""

from dataclasses import replace

import numpy as np
import pytest

from millgate import Millgate
from millgate.errors import InputError
from millgate.index.collection_kind import Heads, alternate, is_conversation, name_languages
from millgate.text.languages import LANGUAGES

TALK = Heads(10, declared=0, with_speaker=10, certain=10, lines=np.array([5, 5]), short=10)
NO_TALK = Heads(10, declared=0, with_speaker=0, certain=0, lines=np.array([], int), short=0)
SUBJECTS = ("parser", "cache", "login", "export", "index", "table", "server", "button", "theme", "report", "invoice", "search")  # fmt: skip


def votes(**counts):
    return np.array([counts.get(language, 0) for language in LANGUAGES])


def is_talk(heads, **changed):
    """Whether these heads make a conversation, where nobody takes turns."""
    return is_conversation(replace(heads, **changed), lambda: False)


def open_with(heads, **said):
    """A gate with one row a head, each about something else."""
    gate = Millgate.open(":memory:")
    subjects = (SUBJECTS[at % len(SUBJECTS)] for at in range(len(heads)))
    rows = [
        f"{head} the {subject} of yesterday" for head, subject in zip(heads, subjects, strict=True)
    ]
    gate.add([{"id": str(at), "text": text} for at, text in enumerate(rows)], **said)
    return gate


def test_four_declared_turns_of_five_make_a_conversation():
    assert is_talk(NO_TALK, declared=8)
    assert not is_talk(NO_TALK, declared=7)
    assert not is_talk(NO_TALK, count=0)


def test_four_texts_of_five_that_open_with_a_speaker_make_a_conversation():
    assert is_talk(TALK, with_speaker=8)
    assert not is_talk(TALK, with_speaker=7)


def test_four_heads_of_five_that_can_hardly_be_labels_are_speakers():
    assert is_talk(TALK, certain=8)
    assert not is_talk(TALK, certain=7)
    assert is_conversation(replace(TALK, certain=7), lambda: True)


def test_a_label_that_opens_nearly_every_text_is_no_speaker():
    assert not is_talk(TALK, lines=np.array([10]))
    assert is_talk(TALK, lines=np.array([9, 1]))


def test_records_are_no_conversation_though_each_line_could_be_a_turn():
    rows = [f"Package: tool-{n}\nVersion: {n}.1\nSection: {n % 7}" for n in range(30)]
    rows += ["Source: tool-1", "Tag: made-of::audio"]
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": str(n), "text": text} for n, text in enumerate(rows)])
        assert not gate.index("main").conversational


def test_eight_speakers_are_few_and_so_is_one_for_twenty_lines():
    assert is_talk(TALK, lines=np.ones(8))
    assert not is_talk(TALK, lines=np.ones(9))
    long = replace(TALK, count=400, with_speaker=400, certain=400, short=400)
    assert is_talk(long, lines=np.ones(20))
    assert not is_talk(long, lines=np.ones(21))


def test_half_of_a_conversation_is_short():
    assert is_talk(TALK, short=5)
    assert not is_talk(TALK, short=4)


@pytest.mark.parametrize(
    "labels",
    [
        ("Added:", "Fixed:"),
        ("Bug:", "Task:"),
        ("Q:", "A:"),
        ("**Question:**", "**Answer:**"),
        ("[core] Added:", "[ui] Fixed:"),
        ("Added (1.2):", "Fixed (1.3):"),
        ("Προσθήκη:", "Διόρθωση:"),
        ("新增：", "修复："),
        ("Title:", "Author:", "Abstract:"),
        ("Added:", "Changed:", "Fixed:", "Removed:"),
    ],
)
@pytest.mark.parametrize("many", [1, 20])
def test_labels_are_no_speakers(labels, many):
    in_turn = [labels[at % len(labels)] for at in range(12 * many)]
    for heads in (in_turn, sorted(in_turn)):
        with open_with(heads) as gate:
            assert not gate.index("main").conversational
            shown = gate.context("what about the invoice?", budget=4000).chunks
            assert shown
            assert all("invoice" in chunk.text for chunk in shown)


def test_a_shuffled_list_does_not_take_turns():
    drawn = np.random.default_rng(5).integers(1, 5, 400).astype(np.uint64)
    assert not alternate(drawn)
    assert not alternate(np.sort(drawn))


def test_three_who_come_and_go_take_turns_and_three_in_rotation_do_not():
    talk = [1, 2, 1, 3, 2, 1, 2, 3, 1, 2, 3, 2, 1, 3, 1, 2, 1, 2, 3, 1, 3, 2, 1, 2]
    assert alternate(np.array(talk, np.uint64))
    assert not alternate(np.array([1, 2, 3] * 8, np.uint64))
    assert not alternate(np.array(talk[:8], np.uint64)), "too few to tell"
    assert not alternate(np.array([1, 1, 1], np.uint64))
    assert not alternate(np.array([0, 1, 0, 2], np.uint64))


def test_a_meeting_is_known_by_its_turns_though_its_heads_are_common_words():
    who = ["Manager", "Designer", "Marketing"]
    talk = "010212010201210102120102012101021201020121"
    with open_with([f"{who[int(at)]}: about" for at in talk]) as gate:
        assert gate.index("main").conversational


def test_two_who_call_each_other_by_name_speak():
    lines = ["Did you see the lake, Bob?", "Yes, and it was cold, Ann.", "Take the boat", "I will"]
    with Millgate.open(":memory:") as gate:
        texts = [f"{'Ann' if at % 2 == 0 else 'Bob'}: {lines[at % 4]} {at}" for at in range(12)]
        gate.add([{"id": str(at), "text": text} for at, text in enumerate(texts)])
        assert gate.index("main").conversational


@pytest.mark.parametrize(
    "heads", [("[8 May] Ann:", "[9 May] Bob:"), ("<ann>", "<bob>"), ("user:", "assistant:")]
)
def test_a_head_with_a_time_in_angle_brackets_or_by_a_role_is_a_speaker(heads):
    with open_with([heads[at % 2] for at in range(12)]) as gate:
        assert gate.index("main").conversational


def test_what_is_said_to_be_documents_is_no_conversation():
    heads = ["[8 May 2023, 21:14] Ann:", "[8 May 2023, 21:15] Bob:"] * 6
    with open_with(heads, kind="documents") as gate:
        assert not gate.index("main").conversational
    with Millgate.open(":memory:") as gate:
        gate.add_stream("\n".join(f"{head} words" for head in heads).encode(), kind="documents")
        assert gate.collections()["main"].chunks == 1, "it is not cut at its turns"
        assert not gate.index("main").conversational


def test_rows_that_name_a_role_are_none_if_they_are_said_to_be_documents():
    with Millgate.open(":memory:") as gate:
        gate.add([{"text": f"part {n}", "role": "user"} for n in range(9)], kind="documents")
        assert not gate.index("main").conversational


def test_an_unknown_kind_is_refused():
    with (
        Millgate.open(":memory:") as gate,
        pytest.raises(InputError, match='"conversation" or "documents"'),
    ):
        gate.add([{"text": "words"}], kind="chat")


def test_one_chunk_in_another_language_is_a_quotation_and_two_are_not():
    assert name_languages(votes(english=10, german=1), 11) == "english"
    assert name_languages(votes(english=10, german=2), 12) == "english+german"


def test_in_a_large_collection_a_language_needs_one_chunk_of_a_hundred():
    assert name_languages(votes(english=992, german=8), 1000) == "english"
    assert name_languages(votes(english=990, german=10), 1000) == "english+german"


def test_the_commonest_language_comes_first_and_stands_alone_if_all_are_rare():
    assert name_languages(votes(english=3, german=5), 8) == "german+english"
    assert name_languages(votes(german=1), 1) == "german"
