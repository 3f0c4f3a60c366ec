"""Symbols: how much some texts look like code or JSON, by the signs that these are written with."""

from collections.abc import Sequence

_SYMBOLS = b'{}[]()<>=_":;/\\|#*+&%$@^~`'
_SAMPLE = 1000  # characters of a text that show what kind it is
_MANY = 0.12  # share of symbols in JSON (.15); code has .09, Markdown .03, prose .01


def symbols(texts: Sequence[str]) -> float:
    """The share of symbols that code is written with, over the beginnings of some texts."""
    heads = "".join(text[:_SAMPLE] for text in texts)
    raw = heads.encode("utf-8", "surrogatepass")
    others = len(heads) - len(raw) + len(raw.translate(None, _SYMBOLS))
    return 1 - others / len(heads) if heads else 0.0


def likeness_to_code(texts: Sequence[str]) -> float:
    """How much some texts look like code, 0..1: prose hardly, JSON altogether."""
    return min(1.0, symbols(texts) / _MANY)
