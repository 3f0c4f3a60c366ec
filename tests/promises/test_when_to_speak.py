"""Before a message that wants nothing, nothing is put. A question whose answer is stored gets it.

turns.txt has what people say to agents between questions: thanks, "continue", orders, small talk. The store is the
documentation of this repository.
"""

import re
from pathlib import Path

import pytest

from millgate import Millgate

DOCS = Path(__file__).parents[2] / "docs"
TURNS = Path(__file__).with_name("turns.txt").read_text("utf-8").splitlines()
HEADING = re.compile(r"^#{2,4} +(\S.{10,90})$", re.MULTILINE)


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add(DOCS)
        yield opened


def test_at_most_three_of_a_hundred_turns_that_want_nothing_get_anything(gate):
    spoken = [turn for turn in TURNS if gate.context(turn).is_worth_adding]
    assert len(spoken) <= 0.03 * len(TURNS), spoken


def test_a_heading_is_found_where_it_stands_and_comes_first(gate):
    pages = [page.read_text("utf-8") for page in sorted(DOCS.glob("*.md"))]
    headings = [found.strip("`* ") for page in pages for found in HEADING.findall(page)][::4]
    asked = [heading for heading in headings if len(re.findall(r"\w+", heading)) > 2]
    found = {heading: gate.context(heading, budget=800).texts for heading in asked}
    shown = [heading for heading in asked if _says(found[heading], heading)]
    first = [heading for heading in shown if _says(found[heading][:1], heading)]
    assert len(shown) >= 0.98 * len(asked), set(asked) - set(shown)
    assert len(first) >= 0.95 * len(asked), set(asked) - set(first)


def _says(texts, heading):
    def words(text):
        return " ".join(re.findall(r"\w+", text.lower()))

    return any(words(heading) in words(text) for text in texts)


def test_a_bot_that_is_thanked_says_nothing_and_tells_why():
    with Millgate.open(":memory:") as gate:
        gate.add(
            [
                {
                    "id": "a",
                    "text": "Thanks to the new filter part, the coffee machine X2 brews in 40 seconds.",
                }
            ]
        )
        answer = gate.context("thanks, looks good!")
        assert not answer
        assert "greeting" in answer.fallback_reason


def test_a_follow_up_is_about_what_was_asked_before():
    rows = [
        {"id": "x2", "text": "The coffee machine X2 has a filter part of steel. It is washed once a week."},
        {"id": "pump", "text": "The pool pump P9 has a filter part of paper. It is replaced twice a year."},
    ]  # fmt: skip
    with Millgate.open(":memory:") as gate:
        gate.add(rows)
        asked = [{"role": "user", "content": "How does the pool pump P9 work?"}, {"role": "assistant", "content": "It pumps."}]  # fmt: skip
        assert gate.context("and its filter part?", window=asked).chunks[0].id == "pump"
        asked[0]["content"] = "How does the coffee machine X2 work?"
        assert gate.context("and its filter part?", window=asked).chunks[0].id == "x2"
        assert gate.context("and its filter part?", window=asked, follow=False).trace.request.query == "and its filter part?"  # fmt: skip
