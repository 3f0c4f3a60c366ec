"""Meant: the name that a misspelt one was probably meant to be."""

from collections.abc import Iterable

_ALIKE = 0.6  # the least similarity, difflib's own default
CLOSE = 0.8  # from which a name is taken for a slip though it may be right: "stoer" and "store" are at .8


def nearest(name: str, known: Iterable[str], *, alike: float = _ALIKE) -> str:
    """The known name that is most like this one; empty if none is alike."""
    from difflib import get_close_matches  # noqa: PLC0415  (only slips need it, and --help stays instant)

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=alike)), "")


def did_you_mean(name: str, known: Iterable[str], *, alike: float = _ALIKE) -> str:
    """The question that names what was probably meant; empty if nothing is alike."""
    close = nearest(name, known, alike=alike)
    return f"did you mean {close}?" if close else ""
