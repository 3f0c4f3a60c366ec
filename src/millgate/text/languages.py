"""Languages: which language a text is written in, told by its function words and its letters.

Each function word gives 1/n of a vote to each of the n languages that have it, each letter beyond a-z a whole
one to every language that writes it: so the script decides if it can, and the function words if it cannot.
English wins unless another language clearly does: English rules touch only words of a-z, so they do no harm
to a text of a script without a language here (Chinese, Korean, Thai), to code, or to a bare heading.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache, lru_cache

from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import UNSPACED, fold, marks
from millgate.text.stopwords import SPACED, stopwords

LETTERS: dict[str, str] = {name: known["letters"] for name, known in SPACED.items()}
"""Every language told apart -> its letters beyond a-z."""

LANGUAGES = tuple(LETTERS)

# Of languages with as many votes the one that more people write wins: a few words of Russian may have only letters
# that Bulgarian, Ukrainian and Serbian have too.
_MOST_WRITTEN = (
    "english", "spanish", "french", "german", "portuguese", "russian", "arabic", "hindi", "italian", "turkish",
    "polish", "persian", "hebrew", "swedish", "danish", "czech",
)  # fmt: skip
_BY_WRITERS = (*_MOST_WRITTEN, *(name for name in LANGUAGES if name not in _MOST_WRITTEN))

_WORD = lazy_compile(lambda: rf"(?:[^\W\d_]++|[{marks()}]++)++")
_PLAIN_WORD = lazy_compile("[a-z]+")  # the same in ASCII, three times faster
_SAMPLE = 1000  # characters at the beginning of a text that vote, or show whether it is code
_SYMBOLS = b'{}[]()<>=_":;/\\|#*+&%$@^~`'
_MANY = 0.12  # share of symbols in JSON (.15); code has .09, Markdown .03, prose .01
_UNSPACED = lazy_compile(f"[{UNSPACED}]")
# Another language than English needs 1.5 times its votes, 1.5 at least, and .06 a word: of 600 pieces of source
# code 1.7 % then pass for another language, and of 2 000 short English lines one.
_CLEAR = 1.5
_SHARE = 0.06


_VOTE = 1 << 40  # whole numbers, so that languages which got the same in another order stay equal

Voters = dict[str, tuple[int, tuple[str, ...]]]
"""What a ballot gives to each of some languages."""


@cache
def _voters() -> tuple[Voters, Voters]:
    """Function words, and letters beyond a-z."""
    speakers: dict[str, list[str]] = defaultdict(list)
    for language in LANGUAGES:
        for word in stopwords(language):
            speakers[word].append(language)
    letters = {
        letter: (_VOTE, tuple(name for name in LANGUAGES if letter in LETTERS[name]))
        for letter in "".join(LETTERS.values())
    }
    return {word: (_VOTE // len(own), tuple(own)) for word, own in speakers.items()}, letters


def detect_all(
    texts: Sequence[str], default: str = "english", among: Sequence[str] = _BY_WRITERS
) -> list[str]:
    """The languages of texts: English unless another one clearly wins, and the default if no word gives a vote.

    Of those it may be `among`, the first wins if several have as many votes.
    """
    return [_detect(fold(text[:_SAMPLE]), default, among) for text in texts]


@cache
def _shared_words() -> dict[str, tuple[int, int]]:
    """What a function word gives to English, and what it can give to any other language."""
    return {
        word: (share * ("english" in own), share * (own != ("english",)))
        for word, (share, own) in _voters()[0].items()
    }


def _detect(text: str, default: str, among: Sequence[str]) -> str:
    words = (_PLAIN_WORD if text.isascii() else _WORD).findall(text)
    if default == "english" and text.isascii():  # most texts: no other language can win
        shared = _shared_words()
        known = [shared[word] for word in words if word in shared]
        english, others = (sum(given) for given in zip((0, 0), *known, strict=True))
        if others <= (_CLEAR * max(english / _VOTE, 1.0) - 1e-9) * _VOTE:
            return default
    votes = dict.fromkeys(LANGUAGES, 0)
    ballots = [words] if text.isascii() else [words, text]
    for voters, given in zip(_voters(), map(Counter[str], ballots), strict=False):
        for ballot in given.keys() & voters.keys():
            share, languages = voters[ballot]
            for language in languages:
                votes[language] += share * given[ballot]
    if not text.isascii():
        votes["english"] += _VOTE * len(_UNSPACED.findall(text))
    best = max(among, key=votes.__getitem__)
    needed = max(_CLEAR * max(votes["english"] / _VOTE, 1.0), _SHARE * len(words))
    sure = votes[best] > (0 if best == "english" else (needed - 1e-9) * _VOTE)
    return best if sure else default


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
