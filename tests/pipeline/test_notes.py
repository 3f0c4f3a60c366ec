"""Notes: every code has its sentence, and a stored note is the note."""

import string

import pytest

from millgate.stores.codec import decode, encode
from millgate.types.notes import SENTENCES, Fate, Note, NoteCode, Stage


def needs(code):
    """The numbers that the sentence of a code is made of."""
    names = {name for _, name, _, _ in string.Formatter().parse(SENTENCES[code]) if name}
    return names - {"subject"}


def test_every_code_has_a_sentence_of_its_own():
    assert set(SENTENCES) == set(NoteCode)
    assert len(set(SENTENCES.values())) == len(NoteCode)


@pytest.mark.parametrize("code", NoteCode)
def test_a_note_reads_as_a_sentence_and_survives_the_store(code):
    numbers = dict.fromkeys(needs(code), 0.5) | {"more": 1.0}
    note = Note(Stage.GATE, Fate.DROP, code, 0.25, numbers, "someone")
    assert note.reason
    assert "{" not in note.reason
    assert decode(Note, encode(note)) == note


def test_numbers_are_rounded_for_the_reader_only():
    note = Note(Stage.GATE, Fate.DROP, NoteCode.BOILERPLATE, 0.5, {"ratio": 0.12345})
    assert note.reason == "boilerplate, compresses to 0.12"
    assert note.numbers["ratio"] == 0.12345


def test_a_note_is_printed_with_its_reason():
    note = Note(Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, 0.25, {"tokens": 24.0})
    assert repr(note) == "<Note gate drop 0.250: no room for 24 tokens>"
