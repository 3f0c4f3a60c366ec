"""TokenizedBatch: what the texts of some chunks say, chunk by chunk: terms, names, and how words are written.

A text is split at spaces, and its tokens become ids in the lexicon, which knows the terms of each and how it is
written. Names are found text by text.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from millgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from millgate.index.casing import count_case
from millgate.index.collection_kind import CERTAIN, DECLARED
from millgate.index.lexicon import Tokens, current_lexicon
from millgate.index.posting_list import Counts, PostingList, to_term_ids
from millgate.ranking.fields import BODY, IN_BODY, IN_HEAD, IN_TITLE
from millgate.text.languages import LANGUAGES, detect_all
from millgate.text.names import capitalize, name_spans, names_of
from millgate.text.terms import number, numbers
from millgate.text.turns import TurnParts, part
from millgate.types import Chunk

_SAMPLE = 48  # tokens at the beginning of a body that may prove it English
_LANGUAGE = {language: n for n, language in enumerate(LANGUAGES)}


@cache
def _telling_keys() -> Keys:
    """The keys of words that only English has."""
    return Tokens.of(["the of and with that this from was were for The"]).keys


def read_languages(bodies: Sequence[str], tokens: Tokens) -> list[str]:
    """The languages of bodies; one that opens with many words that only English has needs no vote."""
    telling = offsets(np.isin(tokens.keys, _telling_keys()).view(np.uint8))
    begins, sample = offsets(tokens.counts)[BODY:-1:4], np.minimum(tokens.counts[BODY::4], _SAMPLE)
    english = (8 * (telling[begins + sample] - telling[begins]) >= sample).tolist()
    rest = detect_all([body for body, known in zip(bodies, english, strict=True) if not known])
    others = iter(rest)
    return ["english" if known else next(others) for known in english]


class TokenizedBatch:
    """What the texts of some chunks say, chunk by chunk."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        lines = [part(chunk.text, chunk.metadata) for chunk in chunks]
        texts = [
            (chunk.title, line.date, line.speaker, line.body)
            for chunk, line in zip(chunks, lines, strict=True)
        ]
        tokens = Tokens.of(list(chain.from_iterable(texts)))
        languages = read_languages([line.body for line in lines], tokens)
        speakers = [number(line.speaker) if line.speaker else 0 for line in lines]
        evidence = [DECLARED * line.declared | CERTAIN * line.certain for line in lines]
        self.chars = np.array([len(chunk.text) for chunk in chunks], np.int64)
        self.speaker = np.array(speakers, np.uint64)
        self.evidence = np.array(evidence, np.uint8)
        self.language = np.array([_LANGUAGE[language] for language in languages], np.uint8)
        self._counts = tokens.counts
        lexicon = current_lexicon()
        ids = lexicon.ids(tokens, languages, tokens.counts.reshape(-1, 4).sum(1))
        used, self._token_ids = np.unique(ids, return_inverse=True)
        self._term_counts, self._terms, self._cases = lexicon.read(used)
        self._names = _read_names(chunks, lines)

    def terms(self) -> tuple[Keys, npt.NDArray[np.uint32], Ints]:
        """The vocabulary, the terms of all chunks as ids into it, and how many stand in each field of each chunk."""
        keys, places = to_term_ids(self._terms)
        counts = self._term_counts[self._token_ids]
        own = places[ranges(offsets(self._term_counts)[self._token_ids], counts)]
        ends = offsets(counts)[offsets(self._counts)]
        return keys, own, np.diff(ends).reshape(-1, 4)

    def case(self) -> Counts:
        """How the words of the bodies are written."""
        begins, lengths = offsets(self._counts)[BODY:-1:4], self._counts[BODY::4]
        return count_case(self._cases, self._token_ids[ranges(begins, lengths)], lengths)

    def names(self) -> tuple[PostingList, Bytes, Ints]:
        """The posting list of names, and how each reads: one run of bytes and the offsets into it."""
        met = list(chain.from_iterable(self._names))
        labels = list(dict.fromkeys(met))
        every = np.array(numbers(labels), np.uint64)
        keys, first, places = np.unique(every, return_index=True, return_inverse=True)
        ids = dict(zip(labels, places.tolist(), strict=True))
        own = np.array([ids[name] for name in met], np.uint32)
        flags = chain.from_iterable(names.values() for names in self._names)
        lengths = np.array([len(names) for names in self._names], np.int64)
        chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
        order = np.argsort(own, kind="stable")
        data, starts = join_texts([labels[at] for at in first.tolist()])
        listed = PostingList(
            keys,
            offsets(np.bincount(own, minlength=len(keys))),
            chunk[order],
            np.fromiter(flags, np.uint16, len(met))[order],
            offsets(lengths),
            own,
        )
        return listed, data, starts


def _read_names(chunks: Sequence[Chunk], lines: Sequence[TurnParts]) -> list[dict[str, int]]:
    """The names of each chunk in the order they stand in, each with flags of where that is."""
    names_in: dict[str, tuple[str, ...]] = {}  # by the span of capitalized words
    found: list[dict[str, int]] = []
    for chunk, line in zip(chunks, lines, strict=True):
        own: dict[str, int] = {}
        for flag, text in ((IN_BODY, line.body), (IN_TITLE, chunk.title), (IN_HEAD, _head(line))):
            for span in name_spans(text) if text else ():
                if span not in names_in:
                    names_in[span] = names_of(span)
                for name in names_in[span]:
                    own[name] = own.get(name, 0) | flag
        found.append(own)
    return found


def _head(line: TurnParts) -> str:
    return f"{line.date}. {capitalize(line.speaker)}" if line.date or line.speaker else ""
