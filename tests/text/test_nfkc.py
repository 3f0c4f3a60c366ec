"""NFKC: the same result as of the whole text at once, in time that grows with the text."""

import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import grows_faster

from millgate.text import letters, terms
from millgate.text import nfkc as module
from millgate.text.nfkc import MAX_MARKS, PIECE, nfc, nfkc
from millgate.text.words import fold, normal, tokens

FROZEN = unicodedata.ucd_3_2_0
MARKS = "\u0315\u0300\u05b0"
MIXED = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(MARKS + "ﬁ①ｶﾞ각ㅏ，（Ａ"))


@given(MIXED)
def test_it_is_the_form_of_the_frozen_tables(text):
    assert nfkc(text, 10_000) == FROZEN.normalize("NFKC", text)


@pytest.mark.parametrize(
    "unit", ["e\u0301 ", "ｶﾞ", "가나 ", "ﬁ漢", "हिन्दी ", "\u1100\u1161\u11a8", "漢，（Ａ"]
)
def test_pieces_join_as_the_whole_text_would(unit):
    text = unit * (3 * PIECE // len(unit))
    assert nfkc(text, len(text) * 20) == FROZEN.normalize("NFKC", text)


def test_a_run_of_marks_is_cut_to_thirty():
    assert nfkc("a" + MARKS[0] * 100 + "b", 1000) == "a" + MARKS[0] * MAX_MARKS + "b"
    assert nfkc("a" + MARKS[0] * MAX_MARKS, 1000) == "a" + MARKS[0] * MAX_MARKS


def test_the_result_is_bounded_while_it_grows():
    assert len(nfkc("\ufdfa" * 100_000, 1_000)) == 1_000


@pytest.mark.parametrize("work", [fold, normal, tokens, nfc, letters.fold, terms.words])
@pytest.mark.parametrize("unit", [MARKS, "\uff9e\u0301", "\u0f73\u0300", "\U0001e8d0\U0001e944"])
def test_marks_of_falling_class_cost_no_more_than_other_text(work, unit):
    assert not grows_faster(work, lambda size: (unit * size)[: 8 * size])


def test_every_mark_is_known():
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.combining(unicodedata.normalize("NFKD", char)[0]):
            assert module._may_hold_long_run(char * 31), hex(code)
            assert module._long_run().search(char * 31), hex(code)


def test_no_piece_begins_with_a_character_that_joins_the_one_before():
    joining = {
        c for code in range(sys.maxunicode + 1) for c in FROZEN.normalize("NFD", chr(code))[1:]
    }
    for code in range(sys.maxunicode + 1):
        if module._STARTER.match(chr(code)):
            assert FROZEN.normalize("NFKD", chr(code))[0] not in joining, hex(code)


@given(MIXED)
def test_nfc_is_that_of_this_python(text):
    assert nfc(text) == unicodedata.normalize("NFC", text)


def test_no_other_module_normalizes_at_once():
    calls = re.compile(r"unicodedata\.(ucd_3_2_0\.)?(is_)?normalize")
    package = Path(module.__file__).parents[1]
    using = {file.name for file in package.rglob("*.py") if calls.search(file.read_text("utf-8"))}
    assert using == {"nfkc.py"}
