"""Vectors: which chunks lie nearest to a query, by cosine."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Ints


class NoVectors:
    """A collection without embeddings: nothing is near."""

    def nearest(self, vector: Sequence[float], k: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Nothing."""
        return np.zeros(0, np.int64), np.zeros(0)
