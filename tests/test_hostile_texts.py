"""Texts and questions that no one meant to ask: defined, never slow, never an exception."""

import base64
import random

import pytest

from millgate import Millgate

DICE = random.Random(5)
BASE64 = base64.b64encode(DICE.randbytes(9000)).decode()
MINIFIED = "".join(f"function a{n}(b,c){{return b[{n}]+c.d{n}||null}};" for n in range(400))
MILLION = " ".join(f"w{n:x}" for n in range(40_000))  # a vocabulary without a repeated word
ROWS = [
    {"id": "one", "text": "x"},
    {"id": "untitled", "title": "", "text": "The harbor of Quito was restored in 1931."},
    {"id": "spaces", "title": "  ", "text": "The council of Quito met in spring."},
    {"id": "base64", "text": BASE64},
    {"id": "minified", "text": MINIFIED},
    {"id": "vocabulary", "text": MILLION},
    {"id": "mixed", "text": "The port of Quito. El puerto de Quito. Порт Кито. 基多的港口。 ท่าเรือ"},
]  # fmt: skip
WORDS = ["".join(DICE.choices("bcdfghjklmnpqrtvz", k=9)) for _ in range(1990)]
QUERIES = {
    "two thousand words": " ".join([*WORDS[:1000], "harbor of Quito", *WORDS[1000:]]),
    "stopwords": "what is it that they are of the and",
    "one character": "x",
    "marks": "?!… ((( ",
    "base64": BASE64[400:480],
    "code": "a17(b,c)",
    "another script": "基多的港口",
    "one word a thousand times": "harbor " * 1000,
}


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add(ROWS)
        yield opened


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("budget", [0, 60, 500, 4000])
def test_any_question_has_a_defined_answer(gate, name, budget):
    context = gate.context(QUERIES[name], budget=budget)
    assert context.token_estimate <= budget
    assert context.degraded == ()
    assert context.chunks or context.fallback_reason


def test_the_needle_is_found_among_two_thousand_words(gate):
    found = [chunk.id for chunk in gate.context(QUERIES["two thousand words"]).chunks]
    assert "untitled" in found


def test_one_rare_word_brings_its_chunk(gate):
    assert gate.context("w9c3f").chunks[0].document == "vocabulary"


def test_a_collection_of_single_characters_answers():
    with Millgate.open(":memory:") as opened:
        opened.add([{"id": letter, "text": letter} for letter in "abcdefgxyz"])
        assert [chunk.id for chunk in opened.context("x").chunks] == ["x"]
