"""What kind of collection some chunks make: whether they are turns of conversations, and their languages.

Chunks are turns if most are declared to be, or if most open with one of a few speakers and are short. A name
before a colon alone is not a speaker ("Added: …", "Bug: …", "Q: …"). Heads are speakers if most are certain (they have
a time, angle brackets or a role), or if they take turns:

    a head follows itself more rarely than chance has it, by three standard deviations (entries of a list come as they
    come, or in groups), and comes back after one other no more rarely than chance has it (fields of records rotate);
    if there are two heads, which may be question and answer, both are names that the texts call, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from millgate.text.languages import LANGUAGES

# what a chunk shows of being a turn: metadata say so; its head can hardly be a label
DECLARED, CERTAIN = 1, 2
_SPEAKING = 0.8  # share of texts that open with a speaker in a conversation (measured: chat 1.0, prose < 0.1)
# Share of the lines that one speaker has at most. Lists of packages or tickets whose lines nearly all open with one
# label were read as chats before, and lost .07 nDCG to plain BM25.
_ONE_VOICE = 0.9
_FEW, _FEW_SHARE = 8, 0.05  # a conversation has few speakers: at most 8, or one per 20 lines
_DEVIATIONS = 3  # of repeats below chance (measured: meetings 4 to 20; a shuffled list has three in 1 of 700 cases)
_FEW_CHUNKS, _FEW_OF = 2, 0.01  # fewer chunks of a language are taken for quotations
SHORT = 600  # characters; half of a conversation's lines are shorter


@dataclass(frozen=True, slots=True)
class Heads:
    """How the texts of a collection open: how many are declared turns, open with a speaker, and certainly so.

    `lines` has how many each speaker opens, and `short` is how many texts are short enough for a turn.
    """

    count: int
    declared: int
    with_speaker: int
    certain: int
    lines: npt.NDArray[np.int64]
    short: int


def is_conversation(heads: Heads, take_turns: Callable[[], bool]) -> bool:
    """Whether chunks are turns. `take_turns` is called if heads may be labels.

    A head that opens nearly every text is a label ("Question: ...", "Package: ..."), so one speaker must leave some
    lines to others.
    """
    count, speaking = heads.count, heads.with_speaker
    if count and heads.declared >= _SPEAKING * count:
        return True
    if not speaking or speaking < _SPEAKING * count:
        return False
    if heads.lines.max() > _ONE_VOICE * speaking or 2 * heads.short < count:
        return False
    if len(heads.lines) > max(_FEW, _FEW_SHARE * count):
        return False
    return heads.certain >= _SPEAKING * speaking or take_turns()


def alternate(speakers: npt.NDArray[np.uint64]) -> bool:
    """Whether heads, given in reading order (0 for a text without one), follow each other as speakers do."""
    lines = np.unique(speakers[speakers > 0], return_counts=True)[1]
    chance = float(((lines / lines.sum()) ** 2).sum())
    before, after = speakers[:-1], speakers[1:]
    pairs = (before > 0) & (after > 0)
    apart = pairs[:-1] & pairs[1:] & (before != after)[:-1]
    if chance == 1.0 or not apart.any():
        return False
    repeats = float((before == after)[pairs].mean())
    returns = float((speakers[:-2] == speakers[2:])[apart].mean())
    spread = sqrt(chance * (1 - chance) / int(pairs.sum()))
    return returns >= chance >= repeats + _DEVIATIONS * spread


def is_called(mentions: int, lines: int) -> bool:
    """Whether a name that stands in this many texts of others is one by which the speaker of these lines is called."""
    return mentions > 0 and mentions >= _FEW_SHARE * lines


def name_languages(votes: npt.NDArray[np.int64], count: int, *, all_of_them: bool = False) -> str:
    """The languages of a collection, the commonest first, by how many chunks are written in each."""
    order = np.argsort(-votes, kind="stable")
    few = 1 if all_of_them else max(_FEW_CHUNKS, _FEW_OF * count)
    named = [LANGUAGES[at] for at in order[votes[order] >= few].tolist()]
    return "+".join(named) or LANGUAGES[int(order[0])]
