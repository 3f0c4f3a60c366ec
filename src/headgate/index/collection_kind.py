"""What kind of collection some chunks make: whether they are turns of conversations, and their languages."""

import numpy as np
import numpy.typing as npt

from headgate.text.languages import LANGUAGES

_SPEAKING = 0.8  # share of texts that open with a speaker in a conversation (measured: chat 1.0, prose < 0.1)
_ONE_VOICE = 0.9  # share of the lines that one speaker has at most
_FEW, _FEW_SHARE = 8, 0.05  # a conversation has few speakers: at most 8, or one per 20 lines
_FEW_CHUNKS, _FEW_OF = 2, 0.01  # fewer chunks of a language are taken for quotations
SHORT = 600  # characters; half of a conversation's lines are shorter


def is_conversation(
    count: int, *, declared: int, with_speaker: int, speakers: int, most_of_one: int, short: int
) -> bool:
    """Whether chunks are turns: most are declared to be, or most open with one of a few speakers and are short.

    What opens nearly every text alike is a label ("Question: ...", "Package: ..."), so one speaker must leave some
    lines to others: `most_of_one` is how many the commonest has.
    """
    if count and declared >= _SPEAKING * count:
        return True
    if with_speaker < _SPEAKING * count or most_of_one > _ONE_VOICE * with_speaker:
        return False
    return with_speaker > 0 and speakers <= max(_FEW, _FEW_SHARE * count) and 2 * short >= count


def name_languages(votes: npt.NDArray[np.int64], count: int) -> str:
    """The languages of a collection, the commonest first, by how many chunks are written in each."""
    order = np.argsort(-votes, kind="stable")
    few = max(_FEW_CHUNKS, _FEW_OF * count)
    named = [LANGUAGES[at] for at in order[votes[order] >= few].tolist()]
    return "+".join(named) or LANGUAGES[int(order[0])]
