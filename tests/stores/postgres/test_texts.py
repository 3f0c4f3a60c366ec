"""Every text that Python can write as UTF-8 comes back as it was."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.stores.postgres.texts import TextDumper, restore_row

texts = st.text(alphabet=st.one_of(st.sampled_from("\0\x0101ab"), st.characters(codec="utf-8")))


@given(texts)
def test_a_text_comes_back_as_it_was_and_never_holds_nul(text):
    written = bytes(TextDumper(str).dump(text))
    assert b"\0" not in written
    stored = written.decode()
    assert restore_row([stored, [stored, None], None, 7]) == (text, [text, None], None, 7)


def test_a_lone_surrogate_is_refused():
    with pytest.raises(InputError, match="lone surrogate"):
        TextDumper(str).dump("a\ud800")


def test_plain_texts_are_stored_as_they_are():
    assert TextDumper(str).dump("plain 漢 text\n") == "plain 漢 text\n".encode()
    assert psycopg.postgres.types["text"].oid == TextDumper.oid
