"""Surrogates: halves of a pair, which Python's texts may hold alone and UTF-8 cannot.

They come from file names and arguments in another encoding, and from JSON that escapes one half. What is stored or sent
is UTF-8.
"""

import re

_HALF = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD in place of every half of a surrogate pair."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)
