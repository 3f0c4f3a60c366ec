"""Languages: which language a text is written in, told by its function words and its letters.

Each function word gives 1/n of a vote to each of the n languages that have it, each letter beyond a-z a whole
one to every language that writes it: so the script decides where it can, and the small words where it cannot.
English wins unless another language clearly does: English rules touch only words of a-z, so they do no harm
to a text of a script without a language here (Chinese, Korean, Thai), to code, or to a bare heading.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import repeat

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

_WORD = compile_late(lambda: rf"(?:[^\W\d_]++|[{marks()}]++)++")
_CACHE = 250_000  # pieces remembered; beyond it the table starts afresh
_LONGEST = 40  # characters; longer pieces are seldom met twice
# What may be a letter or a mark beyond Latin-1: all but punctuation, currencies, arrows, mathematical signs and boxes.
_LATER = compile_late(
    "[^\x00-\xff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u245f\u2500-\u2775]"
)
_ACCENTED = compile_late("[^\x00-\x7f]+")
_SAMPLE = 1000  # characters at the beginning of a text that vote
_UNSPACED = compile_late(f"[{UNSPACED}]+")
# Another language than English needs 1.5 times its votes, 1.5 at least, and .06 a word: of 600 pieces of source
# code 1.7 % then pass for another language, and of 2 000 short English lines one.
_CLEAR = 1.5
_SHARE = 0.06

Votes = dict[str, list[tuple[str, float]]]


@cache
def _votes_of_words() -> Votes:
    """A function word -> what it gives to which languages."""
    speakers: dict[str, list[str]] = defaultdict(list)
    for language in LANGUAGES:
        for word in stopwords(language):
            speakers[word].append(language)
    return {word: [(name, 1 / len(names)) for name in names] for word, names in speakers.items()}


@cache
def _votes_of_letters() -> Votes:
    """A letter -> what it gives to which languages."""
    votes: Votes = defaultdict(list)
    for language, letters in LETTERS.items():
        for letter in letters:
            votes[letter].append((language, 1.0))
    return dict(votes)


@cache
def _foreign_words() -> frozenset[str]:
    """The function words that English does not have."""
    return frozenset(_votes_of_words()) - ENGLISH


@cache
def _votes_for_english() -> dict[str, float]:
    """What each function word of English gives to it."""
    return {
        word: dict(votes)["english"] for word, votes in _votes_of_words().items() if word in ENGLISH
    }


class _Ballot:
    """How many words a piece of text has, and what it gives to which languages; equal ones are one object."""

    __slots__ = ("votes", "words")

    def __init__(self, words: int, votes: tuple[tuple[str, float], ...]) -> None:
        self.words = words
        self.votes = votes


class _Ballots(dict[str, _Ballot]):
    """What stands between two spaces -> its ballot, filled as it is met."""

    def __init__(self) -> None:
        super().__init__()
        self._unique: dict[tuple[int, tuple[tuple[str, float], ...]], _Ballot] = {}

    def __missing__(self, piece: str) -> _Ballot:
        low = fold(piece)
        words = [low] if low.isalpha() else _WORD.findall(low)
        votes = _votes_of_words()
        given = [vote for word in words if word in votes for vote in votes[word]]
        if not low.isascii():
            votes = _votes_of_letters()
            given += [vote for letter in low if letter in votes for vote in votes[letter]]
            given += [("english", float(len(signs))) for signs in _UNSPACED.findall(low)]
        content = len(words), _sum(given) if given else ()
        if len(piece) > _LONGEST:
            return _Ballot(*content)
        if len(self) >= _CACHE:
            self.clear()
            self._unique.clear()
        ballot = self._unique.get(content)
        if ballot is None:
            ballot = self._unique.setdefault(content, _Ballot(*content))
        self[piece] = ballot
        return ballot


_BALLOTS = _Ballots()


@cache
def _latin_letters() -> bytes:
    """The letters of Latin-1 in lower case, a blank for every other byte."""
    signs = map(chr, range(256))
    return bytes(ord(sign.lower()) if _WORD.match(sign) else ord(" ") for sign in signs)


def _cut_latin(text: str) -> str:
    """A text of Latin-1 in lower case, with blanks for all but letters."""
    # cutting bytes is several times faster than a pattern; a soft hyphen parts no word
    return text.encode("latin-1", "replace").translate(_latin_letters(), b"\xad").decode("latin-1")


def detect(text: str, default: str = "english") -> str:
    """The language of a text; English unless another one clearly wins, and the default where nothing speaks."""
    sample = text[:_SAMPLE]
    if not _LATER.search(sample):
        low = _cut_latin(sample)
        found = low.split()
        foreign = sum(map(_foreign_words().__contains__, found))
        if foreign < _CLEAR and sample.isascii():
            return default if ENGLISH.isdisjoint(found) else "english"  # nobody else can win
        foreign += sum(map(len, _ACCENTED.findall(low)))
        english = sum(map(_votes_for_english().get, found, repeat(0.0)))
        if default == "english" and foreign + english < _votes_needed(english, len(found)):
            return default  # nor here: a word that both have gives both the same
    totals = dict.fromkeys(LANGUAGES, 0.0)
    words = 0
    for ballot, times in Counter(map(_BALLOTS.__getitem__, sample.split())).items():
        words += times * ballot.words
        for language, share in ballot.votes:
            totals[language] += times * share
    best = max(totals, key=totals.__getitem__)
    if best == "english":
        return best if totals[best] else default
    return best if totals[best] >= _votes_needed(totals["english"], words) else default


def _votes_needed(english: float, words: int) -> float:
    """The votes that another language needs to win."""
    return max(_CLEAR * max(english, 1.0), _SHARE * words)


def choose(text: str, languages: str) -> str:
    """The language to read a text in where a collection has several, joined by "+" with the commonest first."""
    first, *more = languages.split("+")
    if not more:
        return first
    found = detect(text, default=first)
    return found if found in more else first


def _sum(votes: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The votes that each language gets in all."""
    totals: dict[str, float] = {}
    for language, share in votes:
        totals[language] = totals.get(language, 0.0) + share
    return tuple(totals.items())
