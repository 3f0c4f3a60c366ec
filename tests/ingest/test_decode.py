"""Bytes to text, or the reason why not."""

import random

import pytest

from millgate.ingest.decode import Undecodable, decode

PROSE = "Déjà vu à l'école: où êtes-vous? Größe und Maß. " * 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_survives_its_encoding(encoding):
    assert decode(PROSE.encode(encoding)) == PROSE


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary"),
        (random.Random(1).randbytes(3000).replace(b"\0", b"\1"), "binary"),
        ("日本語の文章です。".encode("shift_jis") * 20, "neither UTF-8"),
        (b"\xff\xfea", "broken utf-16"),
        (b"\xef\xbb\xbf\xff", "broken utf-8"),
    ],
)
def test_what_is_no_text_says_why(data, says):
    with pytest.raises(Undecodable, match=says):
        decode(data)
