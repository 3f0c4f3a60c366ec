"""Static embedder: a text is the weighted mean of its word pieces' vectors.

The vectors are inside the package `wordllama` and are read directly, since its own loader goes to the network. Frequent
pieces carry little meaning, so they weigh a / (a + p) (SIF); p is taken from the piece's rank in the vocabulary, which
is ordered by frequency, by Zipf's law. A piece that comes n times counts √n times, or a long text would be what it
repeats. A piece of one character (a byte, a letter, a syllable of Korean) has no meaning of its own and weighs nothing,
unless it is a sign of Chinese. What all vectors have in common says nothing either: their mean is taken away.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from millgate.errors import ConfigError, MissingExtra

_A = 1e-3  # the usual constant of SIF
_BYTES = 260  # control pieces and single bytes stand first in the vocabulary


def unit_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The rows scaled to length 1, so that a dot product is a cosine; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _says_nothing(piece: str) -> bool:
    bare = piece.strip("\u2581 ")  # the sign that stands for a space
    if len(bare) > 1:
        return bare.startswith("<0x")
    return not "\u3400" <= bare <= "\u9fff"


class StaticEmbedder:
    """Word vectors, averaged."""

    def __init__(self, vectors: npt.NDArray[np.float32], tokenizer: Any) -> None:  # noqa: ANN401 - a library's object
        self._tokenizer = tokenizer
        rank = np.maximum(np.arange(len(vectors)) - _BYTES, 1)
        frequency = 1.0 / (rank * np.log(len(vectors)))
        self._weights = (_A / (_A + frequency)).astype(np.float32)
        for piece, place in tokenizer.get_vocab().items():
            if place < len(vectors) and _says_nothing(piece):
                self._weights[place] = 0.0
        self._vectors = vectors - vectors[self._weights > 0].mean(0)
        self.name = f"static-{vectors.shape[1]}"
        self.dimension = int(vectors.shape[1])

    @classmethod
    def load(cls) -> "StaticEmbedder":
        """The vectors that the package carries."""
        try:
            from safetensors.numpy import load_file  # noqa: PLC0415 - optional
            from tokenizers import Tokenizer  # noqa: PLC0415 - optional
        except ImportError as error:
            raise MissingExtra("safetensors and tokenizers", extra="static") from error
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise MissingExtra("wordllama", extra="static")
        root = Path(spec.origin).parent
        weights = sorted(root.glob("weights/*.safetensors"))
        tokenizers = sorted(root.glob("tokenizers/*.json"))
        if not weights or not tokenizers:
            raise ConfigError(
                f"no vectors in {root}", hint="pip install --force-reinstall wordllama"
            )
        [vectors] = load_file(weights[0]).values()
        return cls(vectors.astype(np.float32), Tokenizer.from_file(str(tokenizers[0])))

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One unit vector a text; zeros for a text without words."""
        out = np.zeros((len(texts), self.dimension), np.float32)
        encode = self._tokenizer.encode_batch
        for i, found in enumerate(encode(list(texts), add_special_tokens=False)):
            ids, times = np.unique(np.array(found.ids, np.int64), return_counts=True)
            out[i] = (self._weights[ids] * np.sqrt(times)) @ self._vectors[ids]
        return unit_rows(out)
