"""Languages: which language a text is written in, told by its function words and its letters.

Each function word gives 1/n of a vote to each of the n languages that have it, each letter beyond a-z a whole
one to every language that writes it: so the script decides if it can, and the function words if it cannot.
English wins unless another language clearly does: English rules touch only words of a-z, so they do no harm
to a text of a script without a language here (Chinese, Korean, Thai), to code, or to a bare heading.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from millgate.text.hashes import hash_slices
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import UNSPACED, fold, marks
from millgate.text.stopwords import ENGLISH, SPACED, stopwords

LETTERS: dict[str, str] = {name: known["letters"] for name, known in SPACED.items()}
"""Every language told apart -> its letters beyond a-z."""

LANGUAGES = tuple(LETTERS)
_COLUMNS = {name: column for column, name in enumerate(LANGUAGES)}

# Of languages with as many votes the one that more people write wins: a few words of Russian may have only letters
# that Bulgarian, Ukrainian and Serbian have too.
_MOST_WRITTEN = (
    "english", "spanish", "french", "german", "portuguese", "russian", "arabic", "hindi", "italian", "turkish",
    "polish", "persian", "hebrew", "swedish", "danish", "czech",
)  # fmt: skip
_BY_WRITERS = (*_MOST_WRITTEN, *(name for name in LANGUAGES if name not in _MOST_WRITTEN))

_WORD = lazy_compile(lambda: rf"(?:[^\W\d_]++|[{marks()}]++)++")
# What may be a letter or a mark beyond Latin-1: all but punctuation, currencies, arrows, mathematical signs and boxes.
_LATER = lazy_compile(
    "[^\x00-\xff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u245f\u2500-\u2775]"
)
_SAMPLE = 1000  # characters at the beginning of a text that vote, or show whether it is code
_TEXTS = 500  # that vote at a time: some 30 MB
_SYMBOLS = b'{}[]()<>=_":;/\\|#*+&%$@^~`'
_MANY = 0.12  # share of symbols in JSON (.15); code has .09, Markdown .03, prose .01
_UNSPACED = lazy_compile(f"[{UNSPACED}]+")
# Another language than English needs 1.5 times its votes, 1.5 at least, and .06 a word: of 600 pieces of source
# code 1.7 % then pass for another language, and of 2 000 short English lines one.
_CLEAR = 1.5
_SHARE = 0.06
_ROUNDING = 1e-6  # more than votes are rounded by
_PREFIX = np.uint64(48)  # bits behind those by which hashes are found

Votes = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@cache
def _speakers() -> dict[str, list[str]]:
    """The languages that have each function word."""
    speakers: dict[str, list[str]] = defaultdict(list)
    for language in LANGUAGES:
        for word in stopwords(language):
            speakers[word].append(language)
    return dict(speakers)


@cache
def _votes_of_words() -> tuple[dict[str, int], Votes]:
    """A function word -> its row, from 1 on; and the rows: what a word gives to each language."""
    votes = np.zeros((len(_speakers()) + 1, len(LANGUAGES)))
    counts = list(map(len, _speakers().values()))
    rows = np.repeat(np.arange(1, len(votes)), counts)
    columns = [_COLUMNS[name] for names in _speakers().values() for name in names]
    votes[rows, columns] = 1 / np.repeat(counts, counts)
    return {word: row for row, word in enumerate(_speakers(), 1)}, votes


@cache
def _votes_of_letters() -> tuple[dict[str, int], Votes]:
    """The same for letters; the last row is for signs of unspaced scripts."""
    letters = dict.fromkeys("".join(LETTERS.values()))
    votes = np.zeros((len(letters) + 2, len(LANGUAGES)))
    rows = {letter: row for row, letter in enumerate(letters, 1)}
    for column, own in enumerate(LETTERS.values()):
        votes[[rows[letter] for letter in own], column] = 1.0
    votes[-1, LANGUAGES.index("english")] = 1.0
    return rows, votes


class _Characters:
    """Which characters make words, and which row of the letters' votes each has; filled as characters are met."""

    def __init__(self) -> None:
        self._kinds = np.zeros(0x110000, np.uint8)  # 0 not met, 1 of a word, 2 not
        self._rows = np.zeros(0x110000, np.uint16)

    def read(self, codes: npt.NDArray[np.uint32]) -> tuple[Bools, npt.NDArray[np.uint16]]:
        """Whether each character makes words, and its row, 0 if it has none."""
        kinds = self._kinds[codes]
        new = codes[kinds == 0]
        if len(new):
            self._meet(np.unique(new).tolist())
            kinds = self._kinds[codes]
        return kinds == 1, self._rows[codes]

    def _meet(self, codes: list[int]) -> None:
        rows, votes = _votes_of_letters()
        for code in codes:
            sign = chr(code)
            self._rows[code] = rows.get(sign, 0)
            if _UNSPACED.match(sign):
                self._rows[code] = len(votes) - 1
            self._kinds[code] = 1 if _WORD.match(sign) else 2


@cache
def _characters() -> _Characters:
    return _Characters()


@cache
def _latin_letters() -> bytes:
    """The letters of Latin-1 in lower case, a blank for every other byte."""
    signs = map(chr, range(256))
    return bytes(ord(sign.lower()) if _WORD.match(sign) else ord(" ") for sign in signs)


def detect_all(
    texts: Sequence[str], default: str = "english", among: Sequence[str] = _BY_WRITERS
) -> list[str]:
    """The languages of texts: English unless another one clearly wins, and the default if no word gives a vote.

    Of those it may be `among`, the first wins if several have as many votes. Ten times faster than one by one if
    they are not English.
    """
    if not texts:
        return []  # the tables of words take a tenth of a second to make
    samples = [text[:_SAMPLE] for text in texts]
    if default == "english":
        found = _detect_english(samples)
    else:
        found = [_detect_plain(sample, default) for sample in samples]
    open_ = [at for at, language in enumerate(found) if not language]
    for begin in range(0, len(open_), _TEXTS):
        some = open_[begin : begin + _TEXTS]
        elected = _elect([samples[at] for at in some], default, among)
        for at, language in zip(some, elected, strict=True):
            found[at] = language
    return found


def _detect_english(samples: Sequence[str]) -> list[str]:
    """English for each text of Latin-1 if no other language can win, and "" for any other."""
    latin = [one if one.isascii() or not _LATER.search(one) else "" for one in samples]
    # a soft hyphen parts no word
    cut = [one if one.isascii() else one.replace("\xad", "") for one in latin]
    # cutting bytes is several times faster than a pattern
    raw = "\n".join(["", *cut, ""]).encode("latin-1", "replace").translate(_latin_letters())
    signs = np.frombuffer(raw, np.uint8)
    edges = np.flatnonzero(np.diff(signs == ord(" "))) + 1
    begins, ends = edges[::2], edges[1::2]
    stops = 1 + np.cumsum([len(one) + 1 for one in cut])
    words = np.diff(begins.searchsorted(stops), prepend=0)
    keys, firsts, votes = _votes_by_key()
    hashes = hash_slices(raw, begins, ends - begins)
    at = firsts[hashes >> _PREFIX]
    while (below := keys[at] < hashes).any():
        at += below
    known = np.flatnonzero(keys[at] == hashes)
    owner = np.repeat(np.arange(len(cut)), words)[known]
    foreign, shared, english = (np.bincount(owner, one[at[known]], len(cut)) for one in votes)
    accents = np.diff(np.flatnonzero(signs >= 0x80).searchsorted(stops), prepend=0)
    plain = np.fromiter(map(str.isascii, cut), bool, len(cut))
    # a word that English has may give another language as much, if that has it too
    needed = np.maximum(_CLEAR * np.maximum(english, 1.0), _SHARE * words) - _ROUNDING
    sure = (foreign + accents + shared < needed) | (plain & (foreign < _CLEAR))
    return [
        "english" if one and own == sample else ""
        for one, own, sample in zip(sure.tolist(), latin, samples, strict=True)
    ]


@cache
def _votes_by_key() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], Votes]:
    """The hashes of all function words of Latin-1, sorted, and the largest of all; where those of each prefix begin;
    and what each word gives: to others than English, to English and others, to English.
    """
    words = [word for word in _speakers() if not _LATER.search(word)]
    lengths = np.array(list(map(len, words)))
    hashes = hash_slices("".join(words).encode("latin-1"), np.cumsum(lengths) - lengths, lengths)
    keys = np.append(hashes, ~np.uint64(0))
    order = keys.argsort()
    keys = keys[order]
    english = np.array([*((word in ENGLISH) / len(_speakers()[word]) for word in words), 0.0])
    votes = np.stack([english == 0, english * (english < 1), english])
    firsts = keys.searchsorted(np.arange(1 << 16, dtype=np.uint64) << _PREFIX)
    return keys, firsts, votes[:, order]


def _detect_plain(sample: str, default: str) -> str:
    """The language of a text of ASCII if only English or the default can win; "" for any other text."""
    if not sample.isascii():
        return ""
    found = sample.encode().translate(_latin_letters()).decode().split()
    if sum(word in _speakers() and word not in ENGLISH for word in found) >= _CLEAR:
        return ""
    # function words of English that the default has too, as Dutch has "in", do not speak against it
    return default if (ENGLISH - stopwords(default)).isdisjoint(found) else "english"


def _elect(samples: Sequence[str], default: str, among: Sequence[str]) -> list[str]:
    """The language that wins in each text."""
    votes, words = _count_votes([fold(sample) for sample in samples])
    english = LANGUAGES.index("english")
    columns = np.array([LANGUAGES.index(name) for name in among])
    best = columns[votes[:, columns].argmax(1)].tolist()
    found = []
    for own, first, count in zip(votes.tolist(), best, words, strict=True):
        needed = 1e-9 if first == english else _votes_needed(own[english], count)
        found.append(LANGUAGES[first] if own[first] >= needed else default)
    return found


def _count_votes(texts: Sequence[str]) -> tuple[Votes, list[int]]:
    """The votes of each language in each text, and the number of words in each text."""
    ends = np.cumsum([len(text) + 1 for text in texts])
    joined = "".join([f"{text}\n" for text in texts])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4").copy()
    in_words, letters = _characters().read(codes)
    codes[~in_words] = ord(" ")
    codes[ends - 1] = ord("\n")
    lines = codes.tobytes().decode("utf-32-le", "surrogatepass").split("\n")[:-1]
    split = [line.split() for line in lines]
    rows, shares = _votes_of_words()
    given = [list(filter(None, map(rows.get, words))) for words in split]
    votes = _add_rows(shares, list(chain.from_iterable(given)), list(map(len, given)))
    votes += _count_letters(letters, ends)
    # rounded, so that languages which got the same in another order stay equal
    return votes.round(9), list(map(len, split))


def _add_rows(rows: Votes, which: list[int], counts: list[int]) -> Votes:
    """The sum of the rows of each text; the rows of all texts stand end to end."""
    # a row of zeros before each text, since a sum of no rows is the next row
    begins = np.cumsum([0, *(count + 1 for count in counts[:-1])])
    padded = np.insert(np.array(which, np.int64), begins - np.arange(len(counts)), 0)
    return np.add.reduceat(rows[padded], begins, axis=0)


def _count_letters(rows: npt.NDArray[np.uint16], ends: npt.NDArray[np.int64]) -> Votes:
    """The votes that letters give in each text; texts stand end to end, and `rows` is 0 for letters without a vote."""
    shares = _votes_of_letters()[1]
    at = np.flatnonzero(rows)
    used = np.flatnonzero(np.bincount(rows[at], minlength=len(shares)))
    column = np.zeros(len(shares), np.int64)
    column[used] = np.arange(len(used))
    texts = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    cells = texts[at] * len(used) + column[rows[at]]
    counts = np.bincount(cells, minlength=len(ends) * len(used))
    return counts.reshape(len(ends), len(used)).astype(np.float64) @ shares[used]


def _votes_needed(english: float, words: int) -> float:
    """The votes that a language other than English needs to win."""
    return max(_CLEAR * max(english, 1.0), _SHARE * words)


def choose(text: str, languages: str) -> str:
    """The language to read a text in if a collection has several, joined by "+" with the commonest first."""
    # a query is asked for several times; the vote looks at no more of a text than that
    return _choose(text[:_SAMPLE], languages) if "+" in languages else languages


@lru_cache(maxsize=256)
def _choose(sample: str, languages: str) -> str:
    return choose_all([sample], languages)[0]


def choose_all(texts: Sequence[str], languages: str) -> list[str]:
    """The languages to read many texts in; faster than one by one."""
    first, *more = languages.split("+")
    if not more:
        return [first] * len(texts)
    elected = detect_all(texts, default=first, among=(first, *more))
    return [found if found in more else first for found in elected]


def symbols(texts: Sequence[str]) -> float:
    """The share of symbols that code is written with, over the beginnings of some texts."""
    heads = "".join(text[:_SAMPLE] for text in texts)
    raw = heads.encode("utf-8", "surrogatepass")
    others = len(heads) - len(raw) + len(raw.translate(None, _SYMBOLS))
    return 1 - others / len(heads) if heads else 0.0


def likeness_to_code(texts: Sequence[str]) -> float:
    """How much some texts look like code, 0..1: prose hardly, JSON altogether."""
    return min(1.0, symbols(texts) / _MANY)
