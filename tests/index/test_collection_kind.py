"""What kind of collection it is: turns or texts, and in which languages; every bound from both sides."""

import numpy as np

from headgate import Headgate
from headgate.index.collection_kind import is_conversation, name_languages
from headgate.text.languages import LANGUAGES

TALK = {"declared": 0, "with_speaker": 10, "speakers": 2, "most_of_one": 5, "short": 10}


def votes(**counts):
    return np.array([counts.get(language, 0) for language in LANGUAGES])


def test_four_declared_turns_of_five_make_a_conversation():
    others = {"with_speaker": 0, "speakers": 0, "most_of_one": 0, "short": 0}
    assert is_conversation(10, declared=8, **others)
    assert not is_conversation(10, declared=7, **others)
    assert not is_conversation(0, declared=0, **others)


def test_four_texts_of_five_that_open_with_a_speaker_make_a_conversation():
    assert is_conversation(10, **TALK | {"with_speaker": 8})
    assert not is_conversation(10, **TALK | {"with_speaker": 7})


def test_nothing_is_no_conversation():
    assert not is_conversation(0, declared=0, with_speaker=0, speakers=2, most_of_one=0, short=0)


def test_a_label_that_opens_nearly_every_text_is_no_speaker():
    assert not is_conversation(10, **TALK | {"speakers": 1, "most_of_one": 10})
    assert not is_conversation(10, **TALK | {"most_of_one": 10})
    assert is_conversation(10, **TALK | {"most_of_one": 9})


def test_records_are_no_conversation_though_each_line_could_be_a_turn():
    rows = [f"Package: tool-{n}\nVersion: {n}.1\nSection: {n % 7}" for n in range(30)]
    rows += ["Source: tool-1", "Tag: made-of::audio"]
    with Headgate.open(":memory:") as gate:
        gate.add([{"id": str(n), "text": text} for n, text in enumerate(rows)])
        assert not gate.index("main").conversational


def test_eight_speakers_are_few_and_so_is_one_for_twenty_lines():
    assert is_conversation(10, **TALK | {"speakers": 8})
    assert not is_conversation(10, **TALK | {"speakers": 9})
    long = {"declared": 0, "with_speaker": 400, "most_of_one": 50, "short": 400}
    assert is_conversation(400, speakers=20, **long)
    assert not is_conversation(400, speakers=21, **long)


def test_half_of_a_conversation_is_short():
    assert is_conversation(10, **TALK | {"short": 5})
    assert not is_conversation(10, **TALK | {"short": 4})


def test_one_chunk_in_another_language_is_a_quotation_and_two_are_not():
    assert name_languages(votes(english=10, german=1), 11) == "english"
    assert name_languages(votes(english=10, german=2), 12) == "english+german"


def test_in_a_large_collection_a_language_needs_one_chunk_of_a_hundred():
    assert name_languages(votes(english=992, german=8), 1000) == "english"
    assert name_languages(votes(english=990, german=10), 1000) == "english+german"


def test_the_commonest_language_comes_first_and_stands_alone_where_all_are_rare():
    assert name_languages(votes(english=3, german=5), 8) == "german+english"
    assert name_languages(votes(german=1), 1) == "german"
