"""The normal form, tokens and spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.words import (
    MAX_CHARS,
    MAX_RUN,
    SPAN,
    cut,
    fold,
    normal,
    plain,
    split_spans,
    tokens,
)

PROSE = st.text(alphabet=st.sampled_from("ab Z_*`~#>|-+=:.,%$5\n[]()é漢ß\xa0…İ️"), max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  Hello\t\n  World ", "hello world"),
        ("ﬁne ＦＵＬＬ Ⅳ", "fine full iv"),
        ("price\xa0up…", "price up..."),
        ("# Head\n\n> quoted\n- item\n* other", "head quoted item other"),
        (
            "**bold** and *it* and _em_ and `code` and ~~gone~~",
            "bold and it and em and code and gone",
        ),
        ("[a link](http://x.y/z)", "a link http://x.y/z"),
        ("| a | b |\n|---|:--|\n| c | d |", "a b c d"),
        (
            "keep snake_case, __init__, a*b, 2**8 and C#",
            "keep snake_case, __init__, a*b, 2**8 and c#",
        ),
        ("~5 km, #tag, x = -3", "~5 km, #tag, x = -3"),
    ],
)
def test_the_normal_form_keeps_content_and_drops_dress(text, expected):
    assert normal(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("... !?", []),
        ("Hello, world. Don't", ["hello", "world", "don", "t"]),
        ("my_func(x) __init__ _em_ foo-bar", ["my_func", "x", "__init__", "em", "foo", "bar"]),
        ("-5 +3.5 1,000 50% $7 10-20", ["-5", "+3.5", "1,000", "50%", "$7", "10", "20"]),
        ("漢字かな2024年", ["漢", "字", "か", "な", "2024", "年"]),
        ("한국 ไทย", ["한", "국", "ไ", "ท", "ย"]),
        ("naïve Straße Привет", ["naïve", "straße", "привет"]),
        ("good👍👎", ["good", "👍", "👎"]),
        ("a\x00b\x07c", ["a", "b", "c"]),
        ("\ud800x", ["\ud800x"]),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_a_long_run_is_cut_into_several_tokens():
    assert [len(t) for t in tokens("x" * 70)] == [MAX_RUN, MAX_RUN, 6]


@given(PROSE.filter(lambda text: "5" not in text))
def test_removing_markdown_never_changes_a_word(text):
    assert tokens(plain(fold(text))) == tokens(fold(text))


@given(st.text())
def test_any_text_has_a_normal_form_without_loose_space(text):
    form = normal(text)
    assert form == " ".join(form.split())


@pytest.mark.slow
def test_the_length_is_capped_before_and_after_normalization():
    assert len(fold("a" * (MAX_CHARS + 1))) == MAX_CHARS
    assert len(fold("ﷺ" * MAX_CHARS)) == MAX_CHARS


def test_a_text_of_letters_that_become_eighteen_is_not_read_eighteen_times_as_long():
    assert len(fold("ﷺ" * 50)) == 50 * 18
    assert len(fold("ﷺ" * 5_000)) < 10_000


@pytest.mark.parametrize("mark", ["*", "`", "~", "_", "[", "[a](", "#", "|", "- "])
def test_a_long_row_of_marks_takes_linear_work(mark):
    assert "z" in normal("a" + mark * 200_000 + "z")


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, []), (1, [1]), (190, [190]), (220, [220]), (221, [190, 31]), (570, [190, 190, 190])],
)
def test_spans_hold_190_tokens_and_the_last_takes_a_short_rest(count, sizes):
    assert [len(tokens(s)) for s in split_spans("word " * count)] == sizes


@given(PROSE.map(lambda s: s * 40))
def test_spans_lose_nothing(text):
    assert [t for s in split_spans(text) for t in tokens(s)] == tokens(text) or not tokens(text)


def test_a_word_without_end_is_cut_in_pieces():
    pieces = list(cut("ა" * 2_000_000, 100_000))
    assert max(map(len, pieces)) < 700_000
    assert "".join(pieces) == "ა" * 2_000_000


def test_a_text_that_expands_stays_bounded():
    expanding = "\ufdfa" * 600_000
    assert len(fold(expanding)) < 2 * len(expanding)


@pytest.mark.parametrize("line", ["one  *two*\n", "* one ", "# a | b\n\n"])
def test_a_long_text_has_the_normal_form_of_its_lines(line):
    count = 2_500_000 // len(line)
    expected = normal(line) if "\n" in line else plain(line * 2)[len(plain(line)) + 1 :]
    assert normal(line * count).split() == [*normal(line).split()] + expected.split() * (count - 1)


@pytest.mark.parametrize("unit", ["* ", "word ", "漢字", "snake_case-3.5%\n", "x" * 33 + " "])
def test_spans_of_a_long_text_are_those_of_the_whole(unit):
    text = unit * (150_000 // len(unit))
    held = [len(tokens(span)) for span in split_spans(text)]
    assert sum(held) == len(tokens(text))
    assert set(held[:-1]) <= {SPAN}
