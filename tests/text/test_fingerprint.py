"""Fingerprints: frozen values, the published rule, and payloads of every kind."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import count_calls

from millgate.errors import InputError
from millgate.published.self_reference import compute_overlaps
from millgate.text.fingerprint import (
    FORMAT_VERSION,
    MAX_SPANS,
    WindowFingerprint,
    fingerprint,
    fingerprints,
)
from millgate.text.hashes import Tokens
from millgate.text.words import tokens

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/fingerprints.json").read_text("ascii"))
ODD = st.text(alphabet=st.sampled_from("aB Z_*`~#>|-+.,%$59\n[](é漢ß\xa0…İ\ufe0f👍ไ\ud800\x00"))


def words(start, stop):
    return " ".join(f"word{i}" for i in range(start, stop))


@pytest.mark.parametrize("row", GOLDEN["texts"], ids=lambda row: ascii(row["text"][:20]))
def test_fingerprints_never_change(row):
    print_ = fingerprint(row["text"] * row["times"])
    assert GOLDEN["version"] == FORMAT_VERSION == print_.version
    assert print_.sha256 == row["sha256"]
    assert f"{print_.simhash64:016x}" == row["simhash64"]
    assert list(print_.minhash128) == row["minhash128"]
    assert [print_.token_count, print_.shingle_count] == row["counts"]


def test_the_window_payload_never_changes():
    assert WindowFingerprint.of([words(0, 300)]).to_json() == GOLDEN["window"]


@given(st.lists(ODD | st.text(), max_size=4))
def test_tokens_are_read_alike_one_by_one_and_all_at_once(texts):
    parts = Tokens.of(texts).split()
    assert [part.size for part in parts] == [len(tokens(text)) for text in texts]
    for text, part in zip(texts, parts, strict=True):
        assert part.tolist() == [Tokens.of([t]).values[0] for t in tokens(text)] or any(
            len(tokens(t)) != 1 for t in tokens(text)
        )


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Hello World", "  hello\n\nworld "),
        ("**Hello** _world_", "hello world"),
        ("ＨＥＬＬＯ world", "hello world"),
    ],
)
def test_dress_does_not_matter(text, other):
    assert fingerprint(text) == fingerprint(other)


def test_identifiers_are_kept():
    assert fingerprint("call my_func").sha256 != fingerprint("call myfunc").sha256
    assert fingerprint("call my_func").simhash64 != fingerprint("call myfunc").simhash64


@pytest.mark.parametrize(
    ("count", "shingles"), [(0, 0), (1, 1), (2, 1), (3, 1), (19, 17), (20, 16), (190, 186)]
)
def test_shingles_have_five_tokens_and_three_in_short_texts(count, shingles):
    print_ = fingerprint(words(0, count))
    assert (print_.token_count, print_.shingle_count) == (count, shingles)


def test_one_at_a_time_equals_all_at_once():
    texts = ["", "a", words(0, 50), "漢字 and more", words(7, 700)]
    assert fingerprints(texts) == [fingerprint(text) for text in texts]


def test_minhash_estimates_jaccard():
    a, b = fingerprint(words(0, 1000)), fingerprint(words(500, 1500))
    same = np.mean([x == y for x, y in zip(a.minhash128, b.minhash128, strict=True)])
    assert same == pytest.approx(1 / 3, abs=0.12)


def test_simhash_sees_through_one_changed_token():
    text = words(0, 190).split()
    apart = [
        (
            fingerprint(" ".join(text)).simhash64 ^ fingerprint(" ".join(edited)).simhash64
        ).bit_count()
        for at in range(0, 190, 10)
        for edited in [[*text[:at], "changed", *text[at + 1 :]]]
    ]
    assert np.mean(np.array(apart) <= 3) >= 0.9


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["one two"], [words(0, 400)], ["a b"] * 30])
def test_a_payload_survives_the_wire(texts):
    window = WindowFingerprint.of(texts)
    again = WindowFingerprint.from_json(json.loads(json.dumps(window.to_json())))
    assert again.to_json() == window.to_json()
    probes = ["", "one two", words(100, 200), words(300, 700)]
    assert compute_overlaps(again, probes).tolist() == compute_overlaps(window, probes).tolist()


def test_a_text_has_spans_of_190_tokens_and_blocks_are_spans():
    assert [s.token_count for s in WindowFingerprint.of([words(0, 500)]).spans] == [190, 190, 120]
    assert [s.token_count for s in WindowFingerprint.of(["a", words(0, 500)]).spans] == [1, 500]


GOOD = WindowFingerprint.of([words(0, 300)]).to_json()


def threes(**fields):
    return {"sketch": {**GOOD["sketch"], "threes": fields}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 2}, "version"),
        ({"version": None}, "version"),
        ({"global_sha256": "abc"}, "global_sha256"),
        ({"global_sha256": 7}, "global_sha256"),
        ({"global_simhash64": "0x12"}, "global_simhash64"),
        ({"global_minhash128": [1] * 127}, "global_minhash128"),
        ({"global_minhash128": [-1] * 128}, "global_minhash128"),
        ({"global_minhash128": [2**32] * 128}, "global_minhash128"),
        ({"global_minhash128": [True] * 128}, "global_minhash128"),
        ({"global_minhash128": "x" * 128}, "global_minhash128"),
        ({"spans": 5}, "spans"),
        ({"spans": [5]}, "spans"),
        ({"spans": "text"}, "spans"),
        ({"spans": [{**GOOD["spans"][0], "sha256": ""}]}, r"spans\[0\].sha256"),
        ({"spans": [{**GOOD["spans"][0], "token_count": -1}]}, r"spans\[0\].token_count"),
        ({"sketch": 5}, "sketch"),
        ({"sketch": {}}, "threes and fives"),
        ({"sketch": {**GOOD["sketch"], "fives": 7}}, "threes and fives"),
        (threes(bits=99, count=0, data=""), "bits"),
        (threes(bits=10, count=0, data="%"), "base64"),
        (threes(bits=10, count=0, data=5), "base64"),
        (threes(bits=10, count=1, data="AQ=="), "16-bit"),
        (threes(bits=10, count=3, data="AQA="), "count"),
        (threes(bits=1, count=1, data="CQA="), "rise"),
        (threes(bits=10, count=2, data="AQAAAA=="), "rise"),
    ],
)
def test_a_payload_of_wrong_form_is_refused_by_name(change, named):
    with pytest.raises(InputError, match=named):
        WindowFingerprint.from_json({**GOOD, **change})


@given(
    st.dictionaries(
        st.sampled_from(list(GOOD)), st.none() | st.integers() | st.text() | st.lists(st.integers())
    )
)
def test_any_payload_is_read_or_refused(change):
    with suppress(InputError):
        assert compute_overlaps(
            WindowFingerprint.from_json({**GOOD, **change}), ["a b c"]
        ).shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("texts", [["block"] * 10_000, ["word " * 900_000]])
def test_a_window_of_many_spans_has_a_payload_that_can_be_sent(texts):
    made = WindowFingerprint.of(texts, sketch=False)
    assert 1_500 <= len(made.spans) <= MAX_SPANS
    assert sum(span.token_count for span in made.spans) == made.whole.token_count
    assert WindowFingerprint.from_json(made.to_json()) == made


def test_many_short_texts_cost_as_much_each_as_few():
    few, many = (count_calls(lambda n=n: fingerprints(["word"] * n)) for n in (300, 1_200))
    assert many < 5 * few
