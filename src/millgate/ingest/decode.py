"""Decode: bytes to text, or the reason why they are not text.

Tried in order: a byte order mark (UTF-8, UTF-16, UTF-32), UTF-8, and Windows-1252 if the bytes look like Western
text. A NUL, or many control characters, mean a binary file, which would fill the store with noise.
"""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_PLAUSIBLE = 0.7  # share of ASCII bytes; French and German prose stand above .9, random bytes at .5
HEAD = 8192  # bytes that are checked for a binary file


class Undecodable(ValueError):
    """Bytes that are not text; the message is the reason."""


def decode(data: bytes) -> str:
    """The text of a file; Undecodable with the reason if there is none."""
    encoding = bom_encoding(data)
    if encoding:
        return _decode_as(data, encoding)
    if is_binary(data[:HEAD]):
        raise Undecodable("binary file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if _looks_western(data):
            return _decode_as(data, "cp1252")
        raise Undecodable(
            f"neither UTF-8 (byte {error.start}) nor another encoding that can be recognized"
        ) from error


def bom_encoding(head: bytes) -> str:
    """The encoding of a byte order mark; empty without one."""
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), "")


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text."""
    if bom_encoding(head):
        return False
    return b"\0" in head or len(_CONTROL.findall(head)) * 50 > len(head)


def _decode_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Undecodable(f"broken {encoding} at byte {error.start}") from error


def _looks_western(data: bytes) -> bool:
    ascii = len(data) - len(data.translate(None, bytes(range(128))))
    return ascii / max(1, len(data)) >= _PLAUSIBLE
