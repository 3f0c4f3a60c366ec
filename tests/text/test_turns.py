"""Turns: one chat in every dress has one speaker, one date and one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.turns import TurnParts, add_head, part, split_turns


@pytest.mark.parametrize(
    ("text", "date", "speaker"),
    [
        ("[1:56 pm on 8 May, 2023] Ann Lee: hi there", "1:56 pm on 8 May, 2023", "Ann Lee"),
        ("[8 May] ann: hi there", "8 May", "ann"),
        ("12/03/2023, 21:14 - Ann: hi there", "12/03/2023, 21:14", "Ann"),
        ("12/3/23, 9:14 PM - Ann: hi there", "12/3/23, 9:14 PM", "Ann"),
        ("[12.03.23, 21:14:05] Ann: hi there", "12.03.23, 21:14:05", "Ann"),
        ("2023-03-12T21:14:05Z Ann: hi there", "2023-03-12T21:14:05Z", "Ann"),
        ("<ann> hi there", "", "ann"),
        ("[21:14] <ann> hi there", "21:14", "ann"),
        ("**Ann:** hi there", "", "Ann"),
        ("**Ann**: hi there", "", "Ann"),
        ("Ann (21:14): hi there", "21:14", "Ann"),
        ("Ann, [12.03.23 21:14]:\nhi there", "12.03.23 21:14", "Ann"),
        ("Ann — 03/12/2023 9:14 PM\nhi there", "03/12/2023 9:14 PM", "Ann"),
        ("user: hi there", "", "user"),
        ("user:\n\nhi there", "", "user"),
        ("Ann:\nhi there", "", "Ann"),
        ("Иван: hi there", "", "Иван"),
        ("田中：hi there", "", "田中"),
        ("[3 May] hi there", "3 May", ""),
        ("hi there", "", ""),
    ],
)
def test_a_head_in_any_dress(text, date, speaker):
    assert part(text)[:3] == (date, speaker, "hi there")


@pytest.mark.parametrize(
    "head",
    ["[1 May]", "[May 1st]", "[8. März, 2023]", "[3 de mayo]", "[5月8日]", "[2023-03-12]", "12.03.2023", "3/12/23", "[21:14]"],
)  # fmt: skip
def test_a_speaker_with_a_time_is_certain(head):
    assert part(f"{head} Ann: hi").certain
    assert not part(f"{head} hi").certain


@pytest.mark.parametrize("head", ["<ann>", "user:", "Assistant:", "**AI:**", "Ann (9:30 am):"])
def test_a_head_in_angle_brackets_or_by_a_role_is_certain(head):
    assert part(f"{head} hi").certain


@pytest.mark.parametrize(
    "head",
    ["Ann:", "**Ann:**", "[core] Added:", "[1.2.0] Fixed:", "[JIRA-12] Bug:", "[Issue 12] Bug:", "Added (v1.2):", "Fixed (#7):"],
)  # fmt: skip
def test_what_may_be_a_label_is_not_certain(head):
    assert part(f"{head} hi").speaker
    assert not part(f"{head} hi").certain


def test_a_text_that_is_said_to_be_a_document_has_no_head():
    text = "[8 May] Ann: hi"
    assert part(text, {"kind": "documents", "role": "user"}) == TurnParts("", "", text)


def test_a_changelog_is_no_chat_log_though_its_entries_name_their_parts():
    assert list(split_turns("[core] Added: a table\n[ui] Fixed: a button\n" * 9)) == []


@pytest.mark.parametrize(
    "text",
    [
        "<p>hello</p>",
        "https://example.org",
        "3.14 is pi",
        "def foo(x): return x",
        '{"name": 1}',
        "2021 was a year",
        "12:30 lunch",
        "The results (see below): we found",
        "Erroneous code example:\n\nlet x = 1;",
        "",
    ],
)
def test_what_is_no_head_stays(text):
    assert part(text) == TurnParts("", "", text)


def test_metadata_tell_speaker_and_time():
    declared = part("hi", {"speaker": "Ann", "time": 1_683_500_000})
    assert declared == TurnParts("22:53 on 7 May, 2023", "Ann", "hi", declared=True)
    assert part("hi", {"role": "assistant"}).speaker == "assistant"
    assert part("hi", {"kind": "conversation"}) == TurnParts("", "", "hi", declared=True)


@pytest.mark.parametrize(
    "metadata",
    [{"role": "editor"}, {"author": "Ann"}, {"speaker": 7}, {"kind": "report"}, {"time": 5}],
)
def test_other_metadata_tell_nothing(metadata):
    assert part("hi", metadata) == TurnParts("", "", "hi")


@pytest.mark.parametrize("time", [1e30, float("nan"), True, [], {}])
def test_a_time_that_is_none_is_left_out(time):
    assert part("hi", {"speaker": "Ann", "time": time}).date == ""


def test_the_head_that_metadata_tell_can_be_written_out():
    metadata = {"speaker": "Ann", "date": "3 May"}
    assert add_head("hi", metadata) == "[3 May] Ann: hi"
    assert add_head("Ann: hi", metadata) == "Ann: hi"
    assert add_head("hi", {}) == "hi"


LOG = "".join(
    f"12/03/2023, 21:1{n} - {'Ann' if n % 2 else 'Bo'}: line {n}\nand more\n" for n in range(8)
)


def test_a_chat_log_is_known_by_its_lines():
    starts = split_turns(LOG)
    assert len(starts) == 8
    assert all(LOG[start:].startswith("12/03/2023") for start in starts)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028", "\n\n"])
def test_the_turns_of_a_long_log_begin_where_their_lines_do(end):
    line = f"user: hi{end}"
    assert list(split_turns(line * 20_000)) == list(range(0, 20_000 * len(line), len(line)))


def test_roles_without_dates_make_a_chat_log_and_other_numbered_heads_do_not():
    talk = "user: hi there\nassistant: hello\n"
    assert list(split_turns(talk * 2)) == [0, 15, 32, 47]
    assert list(split_turns("Anna 1: hi there\nBen 2: hello\n" * 4)) == []
    assert list(split_turns("<Ann> hi there\n<Ben> hello\n" * 2)) != []


def test_half_of_the_lines_of_a_chat_log_are_heads_and_each_speaker_has_two():
    head, other = "user: hi\n", "more words of it\n"
    assert len(split_turns((head + other) * 4)) == 4
    assert list(split_turns((head + other) * 4 + other)) == []
    assert list(split_turns("user: hi\nassistant: a\nsystem: b\n" * 2)) != []
    assert list(split_turns("user: hi\nassistant: a\nuser: c\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nversion: b\n" * 20,
        "Note: this\nExample: that\n" * 20,
        "Just prose, and more of it.\n" * 20,
        "<p> one\n<p> two\n<b> x</b>\n" * 1,
        "User: hi",
        "",
    ],
)
def test_other_texts_are_no_chat_logs(text):
    assert list(split_turns(text)) == []


@given(st.text(max_size=200))
def test_a_text_is_never_lost(text):
    turn = part(text)
    assert text.endswith(turn.body)
    starts = list(split_turns(text))
    assert starts == sorted(set(starts))


@pytest.mark.parametrize(
    "text",
    ["a" * 10**6, "1" * 10**6, "[" * 10**6, "<" + "a " * 10**6, "1:1" * 10**6, "a (1" * 10**5],
)
def test_hostile_text_ends(text):
    assert part(text).body
