"""Remote embedder: any OpenAI-compatible `/v1/embeddings`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from millgate.errors import UpstreamError
from millgate.models.http_json import Endpoint, post_json
from millgate.models.static import unit_rows

_BATCH = 64  # texts a call; endpoints commonly allow 96 and more
_MAX_BYTES = 16_000_000  # 64 vectors of 8 192 numbers, each written with 25 characters, are 13 MB


class RemoteEmbedder:
    """Vectors from an endpoint; its dimension is learned by asking once."""

    def __init__(self, url: str, name: str, *, key: str = "", timeout_s: float = 30.0) -> None:
        self._url = url.rstrip("/").removesuffix("/embeddings") + "/embeddings"
        self._endpoint = Endpoint(self._url, key, timeout_s, _MAX_BYTES)
        self._model = name
        self.name = f"remote-{name}"
        self.dimension = len(self._ask(["dimension"])[0])

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One unit vector a text."""
        rows: list[list[float]] = []
        for begin in range(0, len(texts), _BATCH):
            # endpoints refuse empty texts
            rows += self._ask([text or " " for text in texts[begin : begin + _BATCH]])
        if any(len(row) != self.dimension for row in rows):
            raise UpstreamError(f"{self._url} gave vectors of another length than {self.dimension}")
        return unit_rows(np.array(rows, np.float32).reshape(len(texts), self.dimension))

    def _ask(self, texts: list[str]) -> list[list[float]]:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        answer = post_json(self._endpoint, body)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            found = [[float(x) for x in row["embedding"]] for row in rows]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise UpstreamError(f"{self._url} did not answer with embeddings") from error
        if len(found) != len(texts) or len({len(row) for row in found}) != 1:
            raise UpstreamError(f"{self._url} gave {len(found)} embeddings for {len(texts)} texts")
        # not-a-number fails this comparison too
        if not (np.abs(np.array(found)) < np.finfo(np.float32).max).all():
            raise UpstreamError(f"{self._url} gave embeddings that hold no numbers")
        return found
