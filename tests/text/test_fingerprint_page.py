"""The algorithm on the page docs/fingerprint.md, which callers in other languages follow, is the one that we use."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.fingerprint import WindowFingerprint, fingerprint

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "fingerprints.json").read_text())


@pytest.fixture(scope="module")
def page():
    """The names that the code on the page defines."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/fingerprint.md").read_text(), re.S | re.M
    )
    (code,) = [block for block in blocks if "def fingerprint(" in block]
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, names)
    return names


def same(page, text):
    ours, theirs = fingerprint(text), page["fingerprint"](text)
    assert theirs["sha256"] == ours.sha256
    assert theirs["simhash64"] == f"{ours.simhash64:016x}"
    assert tuple(theirs["minhash128"]) == ours.minhash128
    assert theirs["token_count"] == ours.token_count


def test_the_page_gives_the_golden_fingerprints(page):
    for row in GOLDEN["texts"]:
        text = row["text"] * row.get("times", 1)
        if len(text) < 5_000:
            same(page, text)


@given(st.text() | st.text("ab _-+$.,%*`~|#[]()1\n水İßﬁ…😀", max_size=80))
def test_the_page_gives_our_fingerprint_of_any_text(page, text):
    same(page, text)


def test_the_page_bounds_what_nfkc_makes_of_a_text_as_we_do(page):
    same(page, "one \ufdfa\u2026 " * 400)  # each of these letters becomes eighteen


@given(st.lists(st.text("abc de.", min_size=1, max_size=60), min_size=2, max_size=4))
def test_the_page_gives_our_payload_of_any_window(page, blocks):
    assert page["window_payload"](blocks) == WindowFingerprint.of(blocks).to_json()


def test_a_payload_without_a_version_is_of_version_one():
    payload = WindowFingerprint.of(["one block", "another block"]).to_json()
    assert payload.pop("version") == 1
    assert WindowFingerprint.from_json(payload).to_json() == {"version": 1, **payload}
