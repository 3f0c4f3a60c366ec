"""Remote embedder: any OpenAI-compatible `/v1/embeddings`."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import MissingExtra, UpstreamError
from headgate.models.unit_rows import unit_rows

_BATCH = 64  # texts a call; endpoints commonly allow 96 and more


class RemoteEmbedder:
    """Vectors from an endpoint; its dimension is learned by asking once."""

    def __init__(self, url: str, name: str, *, key: str = "", timeout_s: float = 30.0) -> None:
        self._url = url.rstrip("/").removesuffix("/embeddings") + "/embeddings"
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._timeout_s = timeout_s
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
        try:
            library: Any = import_module("httpx2")
        except ImportError as error:
            raise MissingExtra("httpx2", extra="http") from error
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            answer = library.post(
                self._url, json=body, headers=self._headers, timeout=self._timeout_s
            )
        except (library.HTTPError, library.InvalidURL, OSError) as error:
            raise UpstreamError(f"{self._url} cannot be reached: {error}") from error
        if answer.status_code != 200:
            raise UpstreamError(f"{self._url} answered {answer.status_code}")
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            found = [[float(x) for x in row["embedding"]] for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise UpstreamError(f"{self._url} did not answer with embeddings") from error
        if len(found) != len(texts) or len({len(row) for row in found}) != 1:
            raise UpstreamError(f"{self._url} gave {len(found)} embeddings for {len(texts)} texts")
        return found
