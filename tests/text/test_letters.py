"""Letters: word characters and capitals of every script, and the cut of scripts without spaces."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.letters import capitals, fold, marks, replace_surrogates, signs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("İstanbul", "istanbul"),
        ("ΑΘΗΝΑ", "Αθήνα"),
        ("كِتَاب", "كتاب"),
        ("كتـــاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("cafe\u0301", "café"),
        ("soft\u00adware", "software"),
        ("क्\u200dष", "क्ष"),
    ],
)
def test_what_may_be_written_or_not_makes_no_difference(one, other):
    assert fold(one) == fold(other)


def test_the_vowel_signs_of_hindi_stay():
    assert fold("हिन्दी") == "हिन्दी"
    assert re.fullmatch(rf"[\w{marks()}]+", "हिन्दी")


@pytest.mark.parametrize("letter", "AÄŞİŁČЖΩԱÉ")
def test_capitals_are_capitals_in_every_alphabet(letter):
    assert re.fullmatch(f"[{capitals()}]", letter)
    assert not re.fullmatch(f"[{capitals()}]", letter.lower()[0])


@pytest.mark.parametrize("letter", "aßहあ中한ıªא")
def test_letters_without_case_are_no_capitals(letter):
    assert not re.fullmatch(f"[{capitals()}]", letter)


def test_chinese_becomes_pairs_of_characters():
    assert signs("北京大学") == ["北京", "京大", "大学"]


def test_thai_becomes_pairs_of_consonants_with_their_vowels():
    assert signs("ประเทศไทย") == ["ประ", "ระเท", "เทศ", "ศไท", "ไทย"]


def test_a_single_sign_stays_alone():
    assert signs("水") == ["水"]
    assert signs("ไม่") == ["ไม่"]


@given(st.text(st.characters(min_codepoint=0x0E00, max_codepoint=0x17FF), min_size=1, max_size=50))
def test_pairs_of_signs_hold_every_character(run):
    assert set("".join(signs(run))) == set(run)


def test_half_a_pair_is_replaced_and_all_else_stays():
    assert replace_surrogates("plain") == "plain"
    assert replace_surrogates("ü😀\ud83d!\udcff") == "ü😀\ufffd!\ufffd"
    assert replace_surrogates("ok\udcff").encode() == "ok\ufffd".encode()
