"""Shannon entropy of a text, and over a sliding window.

H = -Σ p·log2 p, over characters or lower-cased words, in bits.
The sliding window keeps S = Σ f·log2 f over its character counts f, so that a new character costs O(1):
H = log2 L - S/L. The counts are integers and S is held as an exact sum of table values, so nothing drifts.
"""

from collections import Counter, deque
from collections.abc import Iterable
from math import fsum, log2

from numpy import bincount, frombuffer, uint8

from millgate.errors import InputError

TOKEN_FULL = 6.0  # bits of word entropy that count as full
CHAR_FULL = 5.5  # bits of character entropy that count as full

# S is kept in units of 2^-48 bit: integer sums are exact, and rounding a table entry to the unit
# costs at most 2^-49 per distinct character, far below the promised 1e-9.
_UNIT = 1 << 48


def shannon_entropy(text: str) -> float:
    """Entropy over characters, in bits; 0 for an empty text."""
    if text.isascii():  # counted as bytes, twice as fast
        counts = bincount(frombuffer(text.encode(), uint8)).tolist()
        return _entropy(filter(None, counts), len(text))
    return _entropy(Counter(text).values(), len(text))


def token_entropy(text: str, words: Counter[str] | None = None) -> float:
    """Entropy over lower-cased, white-space separated words, in bits; 0 for an empty text.

    `words` are what `count_words` gives for the text, if the caller has them already.
    """
    words = count_words(text) if words is None else words
    return _entropy(words.values(), words.total())


def information_score(text: str, words: Counter[str] | None = None) -> float:
    """The score in 0..1: 0.6 of the word entropy over 6 bits, 0.4 of the characters' over 5.5."""
    by_word = min(token_entropy(text, words) / TOKEN_FULL, 1.0)
    by_char = min(shannon_entropy(text) / CHAR_FULL, 1.0)
    return round(0.6 * by_word + 0.4 * by_char, 4)


def count_words(text: str) -> Counter[str]:
    """How often each lower-cased, white-space separated word stands in a text."""
    return Counter(text.lower().split())


def _entropy(counts: Iterable[int], total: int) -> float:
    """log2 n - Σ f·log2 f / n; the sum is exactly rounded, so the order of the counts cannot matter."""
    if total == 0:
        return 0.0
    weighed = fsum([f * log2(f) for f in counts])
    return max(0.0, log2(total) - weighed / total)


class SlidingEntropy:
    """Character entropy of the last `size` characters, O(1) per character."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"size is {size}; a window holds at least 1 character")
        self.size = size
        self._window: deque[str] = deque()
        self._counts: dict[str, int] = {}
        self._sum = 0
        self._weights = [0] + [round(f * log2(f) * _UNIT) for f in range(1, size + 1)]

    def __len__(self) -> int:
        return len(self._window)

    @property
    def bits(self) -> float:
        """Entropy of what the window holds now; 0 when empty."""
        length = len(self._window)
        if length == 0:
            return 0.0
        return max(0.0, log2(length) - self._sum / (_UNIT * length))

    def push(self, char: str) -> float:
        """Take one character in, let the oldest out when full; the new entropy in bits."""
        window, counts, weights = self._window, self._counts, self._weights
        if len(window) == self.size:
            oldest = window.popleft()
            f = counts[oldest]
            self._sum += weights[f - 1] - weights[f]
            if f == 1:
                del counts[oldest]
            else:
                counts[oldest] = f - 1
        window.append(char)
        f = counts.get(char, 0)
        counts[char] = f + 1
        self._sum += weights[f + 1] - weights[f]
        return self.bits

    def reset(self) -> None:
        """Forget everything seen."""
        self._window.clear()
        self._counts.clear()
        self._sum = 0
