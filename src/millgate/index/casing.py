"""Casing: how often words are written with a capital inside sentences, and small at their starts.

A capital inside a sentence speaks for a name, one that opens a sentence proves nothing. A word is counted under a key:
its number, with the low bits free for how it stands.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from millgate.index.arrays import Ints, Keys, offsets
from millgate.index.posting_list import Counts, to_term_ids
from millgate.text.names import ends_sentence, first_words
from millgate.text.stopwords import ENGLISH
from millgate.text.terms import number, numbers

INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER = 0, 1, 2
_KIND = 7  # the low bits of a case key hold how the word stood ...
_ENDS = 4  # ... and, while reading, whether a sentence may end after it


def case_key(word: str) -> int:
    """The key under which a word is counted, its low bits free for how it stands."""
    return number(word.lower()) & ~_KIND


def cases_of(tokens: Sequence[str]) -> Keys:
    """The case keys of the words that tokens of text are (0 for one that cannot be a name), and whether a sentence may
    end.
    """
    found = first_words(tokens)
    low = ["" if len(one) < 3 else one.lower() for one in found]
    known = _number_names(set(low))
    cases = np.fromiter(map(known.__getitem__, low), np.uint64, len(low))
    cases &= ~np.uint64(_KIND)
    upper = _test(str.isupper, [one[:1] for one in found])
    cases[upper & (cases > 0)] |= np.uint64(INSIDE_UPPER)
    cases[_test(ends_sentence, [token[-1] for token in tokens])] |= np.uint64(_ENDS)
    return cases


def _number_names(words: set[str]) -> dict[str, int]:
    may_be = words.difference(ENGLISH, ("",))
    return dict.fromkeys(words, 0) | dict(zip(may_be, numbers(may_be), strict=True))


def _test(holds: Callable[[str], bool], characters: list[str]) -> npt.NDArray[np.bool_]:
    """Whether `holds` is true of each character; each distinct one is tested once."""
    known = {one: holds(one) for one in set(characters)}
    return np.fromiter(map(known.__getitem__, characters), bool, len(characters))


def count_case(
    cases: npt.NDArray[np.uint64], ids: npt.NDArray[np.integer], lengths: Ints
) -> Counts:
    """Count the words of texts by how they stand.

    `cases` has what `cases_of` says of each distinct token, `ids` the tokens of all texts in reading order, `lengths`
    how many of them each text has.
    """
    ended = np.empty(len(ids), bool)
    ended[1:] = ((cases & np.uint64(_ENDS)) > 0)[ids[:-1]]
    ended[offsets(lengths)[:-1][lengths > 0]] = True
    # a token inside a sentence, and the same token at its start, are two variants
    bare = cases & ~np.uint64(_ENDS)
    counted = bare > _KIND
    upper = (bare & np.uint64(INSIDE_UPPER)) > 0
    keys = np.stack([bare, bare | np.uint64(STARTING_LOWER)], 1).ravel()
    stays = np.stack([counted, counted & ~upper], 1).ravel()
    variants = 2 * ids + ended
    kept = stays[variants]
    before = offsets(kept.view(np.uint8))[offsets(lengths)]
    variants = variants[kept]
    used = np.bincount(variants, minlength=len(keys)) > 0
    found, places = to_term_ids(keys[used])
    of_variant = np.zeros(len(keys), np.uint32)
    of_variant[used] = places
    own = of_variant[variants]
    return Counts(found, np.bincount(own, minlength=len(found)), before, own)
