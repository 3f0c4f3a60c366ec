"""Asking words: words of a query that ask for something and name nothing.

"Explain", "list" and "please" say nothing of what a text must hold. Question words with spaces around them are
stopwords; scripts without spaces have none, since their terms are pairs of signs. There every pair that touches an
asking word asks too, the seam to the next word included: of 纤毛是用来做什么的, "what are cilia for", only 纤毛, cilia,
is left.
"""

import re
from functools import cache
from itertools import chain
from string import ascii_lowercase

from headgate.text.languages import choose
from headgate.text.late_pattern import compile_late
from headgate.text.letters import UNSPACED, fold
from headgate.text.stopwords import SPACED, UNSPACED_REQUESTS
from headgate.text.terms import terms

REQUESTS: dict[str, str] = {
    language: known["request_words"]
    for language, known in SPACED.items()
    if "request_words" in known
}
"""Language -> words that ask; of those written with spaces, the ones most people write."""

_UNSPACED = compile_late(f"[{UNSPACED}]")


def asking_terms(query: str, language: str) -> frozenset[int]:
    """The terms that only ask, in the language of a query; where it has no spaces, those of the query itself."""
    found = _requests(choose(query, language))
    if not _UNSPACED.search(query):
        return found
    named = terms(_unspaced_words().sub(" ", fold(query)), language)
    return found | frozenset(terms(query, language)).difference(named)


@cache
def _requests(language: str) -> frozenset[int]:
    # a single letter, as in %d or (c), names nothing either
    return frozenset(terms(f"{REQUESTS.get(language, '')} {' '.join(ascii_lowercase)}", language))


@cache
def _unspaced_words() -> re.Pattern[str]:
    words = chain.from_iterable(map(str.split, UNSPACED_REQUESTS.values()))
    # the longest first, since an alternative that begins another would hide it
    return re.compile("|".join(sorted(map(fold, words), key=len, reverse=True)))
