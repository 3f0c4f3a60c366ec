"""Vocabulary: what a collection knows of words."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Vocabulary(Protocol):
    """What a collection knows of words: how many chunks there are, and how many hold a term."""

    @property
    def count(self) -> int:
        """How many chunks there are."""
        ...

    @property
    def language(self) -> str:
        """The language whose stems its terms are."""
        ...

    def frequencies(self, terms: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]":
        """How many chunks hold each term."""
        ...

    @property
    def unseen_rate(self) -> float:
        """The chance that a term of a text that belongs to the collection has never been seen in it."""
        ...

    @property
    def conversational(self) -> bool:
        """Whether its chunks are turns of conversations."""
        ...

    def speakers(self) -> "npt.NDArray[np.uint64]":
        """The terms of the speakers' names."""
        ...
