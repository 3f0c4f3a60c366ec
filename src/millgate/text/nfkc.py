"""NFKC, and NFC, in bounded time: NFKC by the frozen Unicode 3.2 tables, piece by piece.

Sorting a run of combining marks takes time that grows with the square of its length, in C, with the interpreter held.
So runs are first cut to 30 marks, the most that the Stream-Safe Text Format (UAX #15) allows; no language comes near.
The text is then normalized in pieces, each cut before a character that never combines with what stands before it,
which gives the same result as the whole would. The result is bounded as it grows: one character may become eighteen.
"""

import re
import unicodedata
from functools import cache
from itertools import chain

from millgate.text.lazy_pattern import lazy_compile

MAX_MARKS = 30
# characters normalized in one call, or looked at: a text that may need it is normalized to find out
PIECE = 8_192
_FULL_WIDTH = lazy_compile("[\uff01-\uff5e]")  # the signs of ASCII

# Marks by what NFKC makes of them: three Tibetan vowel signs, halfwidth voiced and semi-voiced sound marks.
_LATE_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"
# All of it passes for marks at first: a class of single characters is slow beyond U+FFFF.
_BEYOND = "\U00010000-\U0001ffff"
# Characters that never combine with the one before them: Latin, Greek, Cyrillic, Hebrew and Arabic letters,
# leading Hangul letters and whole syllables, symbols, ideographs, Arabic presentation forms.
_STARTER = lazy_compile(
    "[\x00-\u02ff\u0370-\u0482\u048a-\u0590\u05d0-\u05ea\u0620-\u064a\u1100-\u115e\u1e00-\u20cf"
    "\u2100-\u22ff\u2500-\u2bff\u3400-\u9fff\uac00-\ud7a3\ufb50-\ufdff]"
)


def nfkc(text: str, limit: int) -> str:
    """The text in the form NFKC, at most `limit` characters of it."""
    suspect = _may_hold_long_run(text)
    if not suspect and len(text) <= PIECE:
        return _form(text)[:limit]
    done: list[str] = []
    start, size = 0, 0
    while start < len(text) and size < limit:
        end = _piece_end(text, start)
        piece = text[start:end]
        done.append(_form(_long_run().sub(r"\1", piece) if suspect else piece))
        size += len(done[-1])
        start = end
    return "".join(done)[:limit]


def _form(piece: str) -> str:
    """A piece without long runs of marks in the form NFKC; most pieces have it, and that is told fast."""
    if unicodedata.is_normalized("NFKC", piece):
        return piece
    # in texts of East Asia little else than these is not normal
    narrow = _FULL_WIDTH.sub(lambda sign: chr(ord(sign[0]) - 0xFEE0), piece)
    if narrow != piece and unicodedata.is_normalized("NFKC", narrow):
        return narrow
    return unicodedata.ucd_3_2_0.normalize("NFKC", narrow)


def nfc(text: str) -> str:
    """The text in the form NFC, by this Python's tables."""
    if len(text) > MAX_MARKS and _may_hold_long_run(text):
        text = _long_run().sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


def _piece_end(text: str, start: int) -> int:
    """Where a piece ends: before the first starter after its full size, or a piece later at the latest."""
    if len(text) - start <= PIECE:
        return len(text)
    latest = min(len(text), start + 2 * PIECE)
    found = _STARTER.search(text, start + PIECE, latest)
    return found.start() if found else latest


def _may_hold_long_run(text: str) -> bool:
    """Whether a text has more marks in a row than are allowed, or what may be marks."""
    # of so many in a row every fifth makes a row too, which is looked for in a fifth of the time
    return bool(
        _run_of_marks(MAX_MARKS // 5).search(text[::5])
        and _run_of_marks(MAX_MARKS + 1).search(text)
    )


@cache
def _run_of_marks(count: int) -> re.Pattern[str]:
    """So many marks in a row, or what may be; made once, in milliseconds."""
    mark = f"[{_marks(0x10000)}{_BEYOND}]"
    # a class at the beginning lets the search run from mark to mark; a repeated one does not
    return re.compile(f"{mark}{mark}{{{count - 1}}}")


@cache
def _long_run() -> re.Pattern[str]:
    """More marks in a row than are allowed, exactly; group 1 is what may stay."""
    marks = _marks(0x20000)
    return re.compile(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+")


@cache
def _marks(end: int) -> str:
    """The marks below a code point, by this Python's tables, which also order the younger ones."""
    # ideographs and Hangul, which are left out, have none
    signs = map(chr, chain(range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xF900, end)))
    return "".join(filter(unicodedata.combining, signs)) + _LATE_MARKS
