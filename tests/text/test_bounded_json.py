import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.bounded_json import (
    DEEPEST,
    HUGE,
    MOST_BYTES,
    MOST_VALUES,
    has_more_values,
    loads,
    measure,
)


@pytest.mark.parametrize("value", [b"[]", b"{}", b"0", b'""', b'{"a":0}', b"[[0]]"])
def test_a_body_that_would_swell_is_not_parsed(value):
    data = b"[" + (value + b",") * MOST_VALUES + b"0]"
    with pytest.raises(orjson.JSONDecodeError, match="more than 500,000 values"):
        loads(data)


def test_a_long_text_is_parsed_whatever_stands_in_it():
    text = ',[{"\\' * MOST_VALUES
    assert loads(orjson.dumps({"text": text})) == {"text": text}


def test_as_many_values_as_allowed_are_parsed():
    data = b"[0" + b",0" * (MOST_VALUES - 1) + b"]"
    assert len(loads(data)) == MOST_VALUES
    with pytest.raises(orjson.JSONDecodeError):
        loads(data[:-1] + b",0]")


@pytest.mark.parametrize(("open", "close"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_too_deep_to_be_written_again_is_not_read(open, close):
    deepest = DEEPEST // (open.count("[") + open.count("{"))
    data = f'["{"[" * 999}", {open * (deepest - 1)}0{close * (deepest - 1)}]'.encode()
    assert orjson.dumps(loads(data))
    with pytest.raises(orjson.JSONDecodeError, match="deeper than 200"):
        loads(f"{open * (deepest + 1)}0{close * (deepest + 1)}".encode())


TEXT = st.text(alphabet='",\\[{a\n', max_size=8)
VALUES = st.recursive(
    st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


def count(value):
    """Commas and opening brackets outside strings in compact JSON."""
    if isinstance(value, dict):
        return max(1, len(value)) + sum(map(count, value.values()))
    if isinstance(value, list):
        return max(1, len(value)) + sum(map(count, value))
    return 0


@given(VALUES, st.integers(16, 24))
def test_values_are_counted_outside_strings_only(value, piece):
    data, held = orjson.dumps(value), count(value)
    assert not has_more_values(data, held, piece=piece)
    assert has_more_values(data, held - 1, piece=piece)


LONG_TEXT = "the tide turns " * (MOST_BYTES // 4 // 15)


@pytest.mark.parametrize("sign", ["\N{GRINNING FACE}", "\\ud83d\\ude00"])
def test_a_text_that_one_sign_makes_four_times_as_large_is_not_parsed(sign):
    data = f'{{"text": "{LONG_TEXT}{sign}"}}'.encode()
    with pytest.raises(orjson.JSONDecodeError, match="more than 83,886,080 bytes"):
        loads(data)


def test_a_huge_body_is_parsed_if_its_long_texts_are_narrow():
    value = {"picture": LONG_TEXT, "text": '\N{GRINNING FACE} \\ "quoted" ł', "n": [1, -2.5, 2**63]}
    data = orjson.dumps(value)
    assert len(data) > HUGE
    assert loads(data) == value


@pytest.mark.parametrize(
    "wrong",
    [b"18446744073709551616", b"-9223372036854775809", b"[1e999]", b"NaN", b'"\\ud800"', b'"\xff"', b"1,", b"[" * 250 + b"]" * 250],
)  # fmt: skip
def test_what_a_short_body_may_not_hold_a_huge_one_may_not_either(wrong):
    with pytest.raises(orjson.JSONDecodeError):
        loads(b'{"a": "%b", "b": %b}' % (b"x" * HUGE, wrong))


SIGNS = st.text(alphabet='a"\\\n\x7féł漢한\ud7ff\N{GRINNING FACE}', max_size=30)


@given(st.lists(SIGNS, max_size=6), st.booleans(), st.integers(16, 40))
def test_a_body_is_measured_with_its_texts_as_wide_as_they_are(texts, ascii, piece):
    data = json.dumps(texts, ensure_ascii=ascii).encode()
    wide = [len(text) * width(text) for text in texts]
    rest = measure(data, piece=piece) - len(data) - 120 * max(1, len(texts))
    signs = 8 * len(texts) + 8  # quotes, and what stands between texts
    assert sum(wide) <= rest <= sum(wide) + signs + (len(data) if b"\\" in data else 0)


def width(text):
    highest = max(map(ord, text), default=0)
    return 1 if highest < 256 else 2 if highest < 65536 else 4
