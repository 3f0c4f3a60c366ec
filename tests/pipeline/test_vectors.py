"""What only an embedder finds is shown: the question and the text that answers it share no word."""

import numpy as np
import pytest

from millgate import Millgate

MEANINGS = (
    {"automobile", "car", "brakes", "mechanic", "repair", "fixed"},
    {"physicians", "treat", "doctor", "clinic", "sick"},
    {"kids", "children", "young", "puppies"},
    {"puppies", "dog"},
    {"expenses", "dollars", "invoice", "paid"},
)


class Thesaurus:
    """An embedder that knows a few meanings; letters beyond ASCII tell it nothing."""

    name, dimension = "thesaurus", len(MEANINGS) + 1

    def embed(self, texts):
        return np.array([self.meaning(text) for text in texts], np.float32)

    def meaning(self, text):
        words = {word.strip(".?").lower() for word in text.split() if word.isascii()}
        found = np.array([*(len(words & meaning) for meaning in MEANINGS), 0.2 * bool(words)])
        return found / max(np.linalg.norm(found), 1e-9)


OTHERS = [
    f"{subject} {what} number {n}."
    for n in range(12)
    for subject, what in (
        ("The committee read the minutes of meeting", "and moved on"),
        ("Invoice", "was paid by the office in"),
        ("The server restarted after update", "without"),
        ("Parliament passed the act", "in its session"),
        ("The choir sang hymn", "from the green book"),
    )
]
PAIRS = [
    ("automobile repair expenses", "Our mechanic fixed the brakes of this car for forty dollars."),
    ("Which physicians treat kids?", "A doctor at the clinic looks after sick children."),
    ("puppies", "Her dog had four young ones last week."),
]


def rows(*texts):
    return [{"id": f"r{n}", "text": text} for n, text in enumerate(texts)]


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(":memory:", embedder=Thesaurus()) as opened:
        opened.add(rows(*OTHERS, *(text for _, text in PAIRS)))
        yield opened


@pytest.fixture(scope="module")
def plain():
    with Millgate.open(":memory:") as opened:
        opened.add(rows(*OTHERS, *(text for _, text in PAIRS)))
        yield opened


@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_an_answer_that_shares_no_word_with_the_question_is_shown(gate, plain, question, answer):
    assert answer in gate.context(question, budget=300).text
    assert not plain.context(question, budget=300).chunks


@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_words_that_match_elsewhere_do_not_hide_it(gate, question, answer):
    assert answer in gate.context(f"{question} number office", budget=300).text


def test_a_question_that_the_embedder_cannot_read_is_asked_by_words_alone(gate, plain):
    assert gate.embed("한") is None
    question = "한국 파리"
    assert gate.context(question, budget=300).text == plain.context(question, budget=300).text
    assert "hymn" in gate.context("한국 hymn", budget=300).text
