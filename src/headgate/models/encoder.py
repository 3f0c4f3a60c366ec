"""ONNX embedder: a BERT-like sentence encoder, mean-pooled (the MiniLM family), from a folder.

The folder holds tokenizer.json and a model: model.onnx (also under onnx/), or config.json and
model.safetensors, from which the graph is built once (models/graph.py) and kept in the user's cache folder.
Texts are embedded in batches of similar length, so that padding costs little.
"""

import json
import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError
from headgate.models.embed import missing
from headgate.models.static import unit

_BATCH = 32
_LONGEST = 256  # word pieces; what the MiniLM family was trained with


class OnnxEmbedder:
    """A sentence encoder run by onnxruntime."""

    def __init__(self, session: Any, tokenizer: Any, *, name: str) -> None:  # noqa: ANN401 - two libraries' objects
        self._session = session
        self._inputs = {node.name for node in session.get_inputs()}
        self._tokenizer = tokenizer
        self.name = name
        self.dimension = int(self._run(["dimension"]).shape[1])

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> "OnnxEmbedder":
        """The encoder in a folder."""
        try:
            import onnxruntime  # noqa: PLC0415 - optional
            from tokenizers import Tokenizer  # noqa: PLC0415 - optional
        except ImportError as error:
            raise missing("onnxruntime and tokenizers", "onnx") from error
        if not (folder / "tokenizer.json").is_file():
            raise ConfigError(
                f"{folder} holds no tokenizer.json", hint="name the folder of a sentence encoder"
            )
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.enable_truncation(_LONGEST)
        tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        path, digest = _model(folder)
        try:
            session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ConfigError(f"{path} cannot be loaded: {error}") from error
        return cls(session, tokenizer, name=f"onnx-{digest}")

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One unit vector a text."""
        out = np.zeros((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for begin in range(0, len(order), _BATCH):
            some = order[begin : begin + _BATCH]
            out[some] = self._run([texts[i] for i in some])
        return out

    def _run(self, texts: list[str]) -> npt.NDArray[np.float32]:
        found = self._tokenizer.encode_batch(texts)
        mask = np.array([f.attention_mask for f in found], np.int64)
        feed = {
            "input_ids": np.array([f.ids for f in found], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        [states, *_] = self._session.run(
            None, {name: value for name, value in feed.items() if name in self._inputs}
        )
        if states.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            states = (states * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
        return unit(np.asarray(states, np.float32))


def _model(folder: Path) -> tuple[Path, str]:
    """The ONNX file to load, and a short digest that names the model."""
    for path in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
        if path.is_file():
            return path, _digest(path)
    weights = folder / "model.safetensors"
    if not weights.is_file() or not (folder / "config.json").is_file():
        raise ConfigError(
            f"{folder} holds neither model.onnx nor config.json with model.safetensors",
            hint="name the folder of a sentence encoder",
        )
    digest = _digest(weights)
    cached = _cache() / f"encoder-{digest}.onnx"
    if not cached.is_file():
        from headgate.models.graph import build  # noqa: PLC0415 - needs onnx, only to build

        aside = cached.with_suffix(f".{os.getpid()}.tmp")
        cached.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(build(weights, json.loads((folder / "config.json").read_bytes())))
        aside.replace(cached)
    return cached, digest


def _digest(path: Path) -> str:
    with path.open("rb") as data:
        head = data.read(1 << 20)
    size = path.stat().st_size
    return blake2b(head + size.to_bytes(8, "little"), digest_size=6).hexdigest()


def _cache() -> Path:
    return Path.home() / ".cache" / "headgate"
