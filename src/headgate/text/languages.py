"""Languages: which language a text is written in, told by its function words and its letters.

Each function word gives 1/n of a vote to each of the n languages that have it, each letter beyond a-z a whole
one to every language that writes it: so the script decides where it can, and the small words where it cannot.
English wins unless another language clearly does: English rules touch only words of a-z, so they do no harm
to a text of a script without a language here (Chinese, Korean, Thai), to code, or to a bare heading.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from headgate.text.late_pattern import compile_late
from headgate.text.letters import UNSPACED, fold, marks
from headgate.text.stopwords import ENGLISH, stopwords

_CYRILLIC = "абвгдежзийклмнопрстуфхцчш"
_DEVANAGARI = "".join(map(chr, range(0x900, 0x950)))
_HEBREW = "אבגדהוזחטיכלמנסעפצקרשתםןץףך"
_PERSIAN = "ءآأؤئابپتثجچحخدذرزژسشصضطظعغفقکگلمنوی"

LETTERS: dict[str, str] = {
    "english": "",
    "arabic": "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي",
    "armenian": "".join(map(chr, range(0x561, 0x588))),
    "basque": "ñüç",
    "bengali": "".join(map(chr, range(0x980, 0x9D0))),
    "bulgarian": _CYRILLIC + "щъьюя",
    "catalan": "àçéèíïóòúü",
    "czech": "áčďéěíňóřšťúůýž",
    "danish": "æøåé",
    "dutch": "éëïóöè",
    "esperanto": "ĉĝĥĵŝŭ",
    "estonian": "äöõüšž",
    "finnish": "äöå",
    "french": "àâæçéèêëîïôœùûüÿ",
    "german": "äöüß",
    "greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "hebrew": _HEBREW,
    "hindi": _DEVANAGARI.replace("ळ", ""),
    "hungarian": "áéíóöőúüű",
    "indonesian": "",
    "irish": "áéíóú",
    "italian": "àèéìòù",
    "latvian": "āčēģīķļņšūž",
    "lithuanian": "ąčęėįšųūž",
    "marathi": _DEVANAGARI,
    "nepali": _DEVANAGARI.replace("ळ", "").replace("\u093c", ""),
    "norwegian": "æøåéòô",
    "persian": _PERSIAN + "ه",
    "polish": "ąćęłńóśźż",
    "portuguese": "áâãàçéêíóôõú",
    "romanian": "ăâîșțşţ",
    "russian": _CYRILLIC + "ёщъыьэюя",
    "serbian": "čćđšžабвгдежзиклмнопрстуфхцчшђјљњћџ",
    "sesotho": "š",
    "slovak": "áäčďéíĺľňóôŕšťúýž",
    "slovenian": "čšž",
    "spanish": "áéíñóúü",
    "swedish": "åäöé",
    "tamil": "".join(map(chr, range(0xB80, 0xBD0))),
    "turkish": "çğıöşüâî",
    "ukrainian": _CYRILLIC + "ґєіїщьюя",
    "urdu": _PERSIAN + "ٹڈڑںہھے",
    "vietnamese": "ăâđêôơưàảãáạằẳẵắặầẩẫấậèẻẽéẹềểễếệìỉĩíịòỏõóọồổỗốộờởỡớợùủũúụừửữứựỳỷỹýỵ",
    "yiddish": _HEBREW + "װױײ",
}
"""Every language told apart -> its letters beyond a-z. The order is stored with an index: append only."""

LANGUAGES = tuple(LETTERS)
_COLUMNS = {name: column for column, name in enumerate(LANGUAGES)}

# Of languages with as many votes the one that more people write wins: a few words of Russian may have only letters
# that Bulgarian, Ukrainian and Serbian have too.
_MOST_WRITTEN = (
    "english", "spanish", "french", "german", "portuguese", "russian", "arabic", "hindi", "italian", "turkish",
    "polish", "persian", "hebrew", "swedish", "danish", "czech",
)  # fmt: skip
_BY_WRITERS = (*_MOST_WRITTEN, *(name for name in LANGUAGES if name not in _MOST_WRITTEN))

_WORD = compile_late(lambda: rf"(?:[^\W\d_]++|[{marks()}]++)++")
# What may be a letter or a mark beyond Latin-1: all but punctuation, currencies, arrows, mathematical signs and boxes.
_LATER = compile_late(
    "[^\x00-\xff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u245f\u2500-\u2775]"
)
_ACCENTED = compile_late("[^\x00-\x7f]+")
_SAMPLE = 1000  # characters at the beginning of a text that vote, or show whether it is code
_TEXTS = 500  # that vote at a time: some 30 MB
_SYMBOLS = b'{}[]()<>=_":;/\\|#*+&%$@^~`'
_MANY = 0.12  # share of symbols in JSON (.15); code has .09, Markdown .03, prose .01
_UNSPACED = compile_late(f"[{UNSPACED}]+")
# Another language than English needs 1.5 times its votes, 1.5 at least, and .06 a word: of 600 pieces of source
# code 1.7 % then pass for another language, and of 2 000 short English lines one.
_CLEAR = 1.5
_SHARE = 0.06
_ROUNDING = 1e-6  # more than votes are rounded by

Votes = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@cache
def _speakers() -> dict[str, list[str]]:
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


@cache
def _foreign_words() -> frozenset[str]:
    return frozenset(_speakers()) - ENGLISH


@cache
def _english_words_beside(default: str) -> frozenset[str]:
    """The function words of English that speak against the default: those it does not have, as Dutch has "in"."""
    return ENGLISH if default == "english" else ENGLISH - stopwords(default)


@cache
def _votes_for_english() -> dict[str, float]:
    return {word: 1 / len(names) for word, names in _speakers().items() if word in ENGLISH}


class _Characters:
    """Which characters make words, and which row of the letters' votes each has; filled as characters are met."""

    def __init__(self) -> None:
        self._kinds = np.zeros(0x110000, np.uint8)  # 0 not met, 1 of a word, 2 not
        self._rows = np.zeros(0x110000, np.uint16)

    def read(self, codes: npt.NDArray[np.uint32]) -> tuple[Bools, npt.NDArray[np.uint16]]:
        """Whether each character makes words, and its row, 0 where it has none."""
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


def _cut_latin(text: str) -> str:
    """A text of Latin-1 in lower case, with blanks for all but letters."""
    # cutting bytes is several times faster than a pattern; a soft hyphen parts no word
    return text.encode("latin-1", "replace").translate(_latin_letters(), b"\xad").decode("latin-1")


def detect_all(
    texts: Sequence[str], default: str = "english", among: Sequence[str] = _BY_WRITERS
) -> list[str]:
    """The languages of texts: English unless another one clearly wins, and the default where nothing speaks.

    Of those it may be `among`, the first wins where several have as many votes. Ten times faster than one by one where
    they are not English.
    """
    samples = [text[:_SAMPLE] for text in texts]
    found = [_detect_latin(sample, default) for sample in samples]
    open_ = [at for at, language in enumerate(found) if not language]
    for begin in range(0, len(open_), _TEXTS):
        some = open_[begin : begin + _TEXTS]
        elected = _elect([samples[at] for at in some], default, among)
        for at, language in zip(some, elected, strict=True):
            found[at] = language
    return found


def _detect_latin(sample: str, default: str) -> str:
    """The language of a text of Latin-1 where only English or the default can win; "" for any other text."""
    if not sample.isascii() and _LATER.search(sample):
        return ""
    low = _cut_latin(sample)
    found = low.split()
    foreign = sum(map(_foreign_words().__contains__, found))
    if not sample.isascii():
        foreign += sum(map(len, _ACCENTED.findall(low)))
    elif foreign < _CLEAR:
        nobody = default == "english" or _english_words_beside(default).isdisjoint(found)
        return default if nobody else "english"
    given = list(filter(None, map(_votes_for_english().get, found)))
    # a word that English has may give another language as much, where that has it too
    shared = sum(votes for votes in given if votes < 1)
    nobody = foreign + shared < _votes_needed(sum(given), len(found)) - _ROUNDING
    return default if nobody and default == "english" else ""


def _elect(samples: Sequence[str], default: str, among: Sequence[str]) -> list[str]:
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
    # a row of zeros before each text, since a sum of no rows is the next row
    begins = np.cumsum([0, *(count + 1 for count in counts[:-1])])
    padded = np.insert(np.array(which, np.int64), begins - np.arange(len(counts)), 0)
    return np.add.reduceat(rows[padded], begins, axis=0)


def _count_letters(rows: npt.NDArray[np.uint16], ends: npt.NDArray[np.int64]) -> Votes:
    """The votes that the letters of each text give, by their rows; texts stand end to end."""
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
    return max(_CLEAR * max(english, 1.0), _SHARE * words)


def choose(text: str, languages: str) -> str:
    """The language to read a text in where a collection has several, joined by "+" with the commonest first."""
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
