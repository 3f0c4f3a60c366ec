"""Printable: foreign text that cannot move the cursor or hide itself.

Questions, file names, titles and errors come from others. Control characters in them (escape sequences among them) and
marks that reverse the order of letters are shown as `\\u001b`, which is also how JSON writes them.
"""

import re

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with everything in it that a terminal would obey, or could not print, made visible."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
