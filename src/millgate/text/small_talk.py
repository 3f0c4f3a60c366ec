"""Small talk: what a person says in a conversation that asks for nothing new.

Context and memories are found without being asked for (proxy, hooks, adapters, memory providers). A greeting finds
something in every collection, and nothing in it helps.
"""

import re

from millgate.text.lazy_pattern import lazy_compile
from millgate.text.terms import terms, words

_WORDS = (
    r"hi|hiya|hello|hey|heya|yo|howdy|greetings|good (?:morning|afternoon|evening|day|night)|gm|gn|sup"
    r"|what'?s up|how are you(?: doing)?(?: today)?|thanks?|thank you|thx|ty|cheers|ok(?:ay)?|k|cool|nice|great"
    r"|perfect|yes|yep|yeah|no|nope|sure|bye|goodbye|see you|later|welcome|please|there|all|team|everyone|again"
    r"|so much|very much|a lot|hallo|hola|bonjour|ciao|salut|moin|servus|danke|merci|gracias"
)
_GREETING = lazy_compile(rf"(?:(?:{_WORDS})[\W_]*)+", re.IGNORECASE)
_GREETING_CHARS = 80
_COMMAND = lazy_compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")
_REPLY_WORDS, _REPLY_CHARS = 3, 60
_QUESTION_MARKS = frozenset("?？؟")


def asks_nothing(text: str) -> bool:
    """Whether a message is empty, a bare greeting or thanks, or a slash command."""
    said = text.strip()
    bare = len(said) <= _GREETING_CHARS and _GREETING.fullmatch(said.lstrip("¡¿").strip())
    return bool(bare or _COMMAND.match(said)) or not re.search(r"\w", said)


def is_reply(text: str) -> bool:
    """Whether what a person says names too little to be looked up by itself, and asks nothing.

    "Continue", "fix it" and "yes, do it" have one term; so has "how do I deploy", but more words.
    """
    if len(text) > _REPLY_CHARS or not _QUESTION_MARKS.isdisjoint(text):
        return False
    return len(words(text)) <= _REPLY_WORDS and len({*terms(text)}) <= 1
