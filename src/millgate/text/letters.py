"""Letters: which characters make words, and how the words of every script are cut and compared.

A word character is a letter, a digit or a combining mark, as Unicode has it (the vowel signs of Hindi are
marks). Some scripts put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese; Korean glues
particles to its words. `signs` cuts these into overlapping pairs of signs, where a sign of the Indic kind is a
consonant with its vowels. `fold` gives the form in which words are compared.
"""

import unicodedata
from collections import defaultdict
from functools import cache
from itertools import chain, pairwise

from millgate.text.lazy_pattern import lazy_compile
from millgate.text.nfkc import nfc


@cache
def _characters() -> tuple[str, str]:
    """All marks, and all capitals, beyond ASCII, as ranges; reading the tables takes some milliseconds."""
    # the blocks left out, of ideographs and Hangul, hold letters without marks and without case
    blocks = chain(range(0x80, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x11000))
    kinds: dict[str, list[int]] = defaultdict(list)
    for code in blocks:
        kinds[unicodedata.category(chr(code))].append(code)
    marks = sorted(kinds["Mn"] + kinds["Mc"] + kinds["Me"])
    return _ranges(marks), _ranges(sorted(kinds["Lu"] + kinds["Lt"]))


def _ranges(codes: list[int]) -> str:
    """Ascending code points as ranges: a pattern tries each one beyond U+FFFF separately."""
    runs: list[list[int]] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in runs)


def marks() -> str:
    """The inside of a character class of all combining marks."""
    return _characters()[0]


def capitals() -> str:
    """The inside of a character class of all capitals."""
    return "A-Z" + _characters()[1]


_INDIC = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
_EAST = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # kana, Han
_HANGUL = "\u1100-\u11ff\uac00-\ud7a3"
UNSPACED = f"{_INDIC}{_EAST}{_HANGUL}"
"""The inside of a character class of scripts whose words are cut into pairs of signs."""

# A vowel written before its consonant, the consonant, then stacked consonants, vowels and tones.
_SIGN = lazy_compile(
    lambda: (
        "[\u0e40-\u0e44\u0ec0-\u0ec4]?"
        "[^\u0e40-\u0e44\u0ec0-\u0ec4]"
        f"(?:[\u17d2\u1039].|[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3{marks()}])*+"
        "|."
    )
)
_IS_INDIC = lazy_compile(f"[{_INDIC}]")

# Written or not, these do not change a word: vowel points of Hebrew and Arabic, the stretching of Arabic
# letters, joiners between Indic letters, the soft hyphen, and the dot that lower() leaves over a Turkish i.
_OPTIONAL = lazy_compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0640"
    "\u00ad\u200d]|(?<=[\u0900-\u0dff])\u200c|(?<=i)\u0307"
)
_ACCENTS = str.maketrans("άέήίόύώϊϋΐΰς", "αεηιουωιυιυσ")  # Greek capitals are written without
# few words have any of these, and fewer are Greek
_FOLDABLE = lazy_compile("[\u0591-\u06ed\u00ad\u200c\u200d\u0307\u0390-\u03ce]")
_GREEK = lazy_compile("[\u0390-\u03ce]")
_HALF = lazy_compile("[\ud800-\udfff]")


def fold(text: str) -> str:
    """Lower case, composed, and without what may be left out: the form in which words are compared."""
    low = text.lower()
    if low.isascii():
        return low
    low = nfc(low)
    if _FOLDABLE.search(low):
        low = _OPTIONAL.sub("", low)
        return low.translate(_ACCENTS) if _GREEK.search(low) else low
    return low


def signs(run: str) -> list[str]:
    """A run of an unspaced script as overlapping pairs of signs; a single sign stays alone."""
    found = _SIGN.findall(run) if _IS_INDIC.match(run) else run
    return [left + right for left, right in pairwise(found)] if len(found) > 1 else [run]


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair: UTF-8 has none, file names and escaped JSON may."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)
