"""Stopwords: the function words of each language, which say how a sentence is built and not what it is about.

English has the list that the ranking was measured with. All other languages take theirs from the package
`stopwordsiso`. What it lacks is in data/languages.json: function words of a few languages, enough to know the language
by, and question words, since a statement seldom has one and it would count as a rare word. Words are folded as
`letters.fold` folds a text.
"""

from functools import cache
from typing import Any

from millgate.text.data import load
from millgate.text.letters import fold

_DATA = load("languages.json")
SPACED: dict[str, dict[str, Any]] = _DATA["spaced"]
"""What is known of each language that is written with spaces. The order is stored with an index: append only."""
UNSPACED_REQUESTS: dict[str, str] = {
    language: known["request_words"] for language, known in _DATA["unspaced"].items()
}
"""Language without spaces -> words that ask, with question words and the commonest function words around them."""

ENGLISH = frozenset(SPACED["english"]["function_words"].split())


@cache
def stopwords(language: str) -> frozenset[str]:
    """The function words of a language, folded; none for a language without a list."""
    if language == "english":
        return ENGLISH
    from stopwordsiso import stopwords as listed  # noqa: PLC0415  its list is read when it is imported

    known = SPACED.get(language, {})
    own = f"{known.get('function_words', '')} {known.get('question_words', '')}"
    words = {*listed(known.get("code", "")), *own.split()}
    return frozenset(fold(word) for word in words if word.isalpha() or not word.isascii())
