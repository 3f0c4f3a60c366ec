"""Token counting: a calibrated estimate, and exact counters where their package is installed.

estimate = ⌈0.54·words + 0.113·letters + 0.58·digits + 0.72·marks + 0.11·blanks + 0.305·other bytes⌉
The weights are a non-negative least-squares fit of relative error against cl100k over 22 kinds of text (chat,
prose, code, JSON, 13 languages), each kind weighing the same. All features are counts that only grow when text
is appended, so the estimate never shrinks; `python bench/tokens.py` prints its error by kind.
"""

import string
from collections.abc import Callable
from functools import cache
from math import ceil

from headgate.errors import ConfigError, MissingExtra

_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_MARKS = string.punctuation.encode()
_BLANKS = string.whitespace.encode()


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads the text as; 0 for an empty text, never less for a longer one."""
    raw = text.encode("utf-8", "surrogatepass")
    rest = len(raw)
    total = 0.54 * len(text.split())
    for kind, weight in ((_LETTERS, 0.113), (_DIGITS, 0.58), (_MARKS, 0.72), (_BLANKS, 0.11)):
        raw = raw.translate(None, kind)
        total += weight * (rest - len(raw))
        rest = len(raw)
    return ceil(total + 0.305 * rest)


def counter(name: str = "estimate") -> Callable[[str], int]:
    """'estimate', or the exact counter of a model family: 'o200k_base', 'cl100k_base', 'llama3', ..."""
    return estimate_tokens if name == "estimate" else _exact(name)


@cache
def _exact(name: str) -> Callable[[str], int]:
    try:
        from splintr import Tokenizer  # noqa: PLC0415  an extra, loaded when asked for
    except ImportError:
        raise MissingExtra("splintr-rs", extra="tokens") from None
    try:
        encode = Tokenizer.from_pretrained(name).encode_ordinary
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"token counter is {name!r}: {error}", hint="use 'estimate', or e.g. 'o200k_base'"
        ) from error

    def count(text: str) -> int:
        return len(encode(text.encode("utf-8", "replace").decode("utf-8")))

    return count
