"""Shannon entropy of a text, and over a sliding window.

H = -Σ p·log2 p, over characters or lower-cased words, in bits.
The sliding window keeps S = Σ f·log2 f over its character counts f, so that a new character costs O(1):
H = log2 L - S/L. The counts are integers and S is held as an exact sum of table values, so nothing drifts.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import chain
from math import fsum, log2

import numpy as np
from numpy import bincount, frombuffer, uint8
from numpy.typing import NDArray

from millgate.errors import InputError

Ints = NDArray[np.int64]

_CODE_BITS = 21  # of a character; those above have the number of its text
_AT_ONCE = 1 << 8  # texts counted together

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


def token_entropy(text: str) -> float:
    """Entropy over lower-cased, white-space separated words, in bits; 0 for an empty text."""
    words = count_words(text)
    return _entropy(words.values(), words.total())


def information_score(text: str) -> float:
    """The score in 0..1: 0.6 of the word entropy over 6 bits, 0.4 of the characters' over 5.5."""
    words = min(token_entropy(text) / TOKEN_FULL, 1.0)
    chars = min(shannon_entropy(text) / CHAR_FULL, 1.0)
    return round(0.6 * words + 0.4 * chars, 4)


def count_words(text: str) -> Counter[str]:
    """How often each lower-cased, white-space separated word stands in a text."""
    return Counter(text.lower().split())


def information_scores(texts: Sequence[str], words: Sequence[Counter[str]]) -> list[float]:
    """The scores of many texts, given the words of each; some are counted together, which takes half the time."""
    slabs = [slice(at, at + _AT_ONCE) for at in range(0, len(texts), _AT_ONCE)]
    return [score for slab in slabs for score in _score_together(texts[slab], words[slab])]


def _score_together(texts: Sequence[str], words: Sequence[Counter[str]]) -> list[float]:
    counts = np.fromiter(chain.from_iterable(map(Counter.values, words)), np.int64)
    owner = np.repeat(np.arange(len(texts)), list(map(len, words)))
    by_word = np.minimum(_entropies(counts, owner, len(texts)) / TOKEN_FULL, 1.0)
    by_char = np.minimum(_entropies(*_count_characters(texts), len(texts)) / CHAR_FULL, 1.0)
    return [round(share, 4) for share in (0.6 * by_word + 0.4 * by_char).tolist()]


def _count_characters(texts: Sequence[str]) -> tuple[Ints, Ints]:
    """How often each character occurs in each text, and the number of that text."""
    codes = frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    owner = np.arange(len(texts), dtype=np.uint32) << _CODE_BITS
    # sorted and counted in runs: twice as fast as in a table
    keys = np.sort(np.repeat(owner, list(map(len, texts))) | codes)
    ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)[: len(keys)])
    return np.diff(ends, prepend=-1), (keys[ends] >> _CODE_BITS).astype(np.int64)


def _entropies(counts: Ints, owner: Ints, texts: int) -> NDArray[np.float64]:
    """The entropy of each text in bits, given how often each of its words or characters occurs."""
    totals = np.maximum(bincount(owner, counts, texts), 1)
    weighed = bincount(owner, counts * np.log2(counts), texts)
    return np.maximum(0.0, np.log2(totals) - weighed / totals)


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
