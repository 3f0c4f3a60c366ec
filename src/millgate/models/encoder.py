"""ONNX embedder: a BERT-like sentence encoder, mean-pooled (the MiniLM family), from a folder.

The folder holds tokenizer.json and model.onnx (also under onnx/). Batches have similar lengths, so that padding costs
little. A text in letters that the encoder was not trained on has no vector: most of its pieces are unknown, or single
letters beyond ASCII other than the signs of Chinese.
"""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from millgate.errors import ConfigError, MissingExtra
from millgate.models.static import unit_rows

_BATCH = 32
_LONGEST = 256  # word pieces; what the MiniLM family was trained with
_UNKNOWN = {"[UNK]", "<unk>"}


class OnnxEmbedder:
    """A sentence encoder run by onnxruntime."""

    def __init__(self, session: Any, tokenizer: Any, *, name: str) -> None:  # noqa: ANN401 - two libraries' objects
        self._session = session
        self._inputs = {node.name for node in session.get_inputs()}
        self._tokenizer = tokenizer
        pieces = tokenizer.get_vocab()
        self._foreign = np.zeros(1 + max(pieces.values()), bool)
        self._foreign[[place for piece, place in pieces.items() if _is_foreign(piece)]] = True
        self.name = name
        self.dimension = int(self._run(["dimension"]).shape[1])

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> "OnnxEmbedder":
        """The encoder in a folder."""
        try:
            import onnxruntime  # noqa: PLC0415 - optional
            from tokenizers import Tokenizer  # noqa: PLC0415 - optional
        except ImportError as error:
            raise MissingExtra("onnxruntime and tokenizers", extra="onnx") from error
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
        path = _model_file(folder)
        try:
            session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ConfigError(f"{path} cannot be loaded: {error}") from error
        return cls(session, tokenizer, name=f"onnx-{_digest(path)}")

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One unit vector a text; zeros for a text that the encoder cannot read."""
        out = np.zeros((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for begin in range(0, len(order), _BATCH):
            some = order[begin : begin + _BATCH]
            out[some] = self._run([texts[i] for i in some])
        return out

    def _run(self, texts: list[str]) -> npt.NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        ids = np.array([one.ids for one in encoded], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        [states, *_] = self._session.run(
            None, {name: value for name, value in feed.items() if name in self._inputs}
        )
        if states.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            states = (states * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
        legible = 2 * (self._foreign[ids] * mask).sum(1) <= mask.sum(1)
        return unit_rows(np.asarray(states * legible[:, None], np.float32))


def _is_foreign(piece: str) -> bool:
    """Whether a piece is unknown, or a single letter of a script that the vocabulary can only spell."""
    bare = piece.strip("\u2581").removeprefix("##")
    if len(bare) > 1 or not bare.isalpha():
        return piece in _UNKNOWN
    return not bare.isascii() and not "\u3400" <= bare <= "\u9fff"


def _model_file(folder: Path) -> Path:
    for path in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
        if path.is_file():
            return path
    if (folder / "model.safetensors").is_file():
        raise ConfigError(
            f"{folder} holds weights (model.safetensors) but no model.onnx",
            hint="build one in a checkout of millgate: python bench/build_onnx.py OUT; or name a model of the hub",
        )
    raise ConfigError(f"{folder} holds no model.onnx", hint="name the folder of a sentence encoder")


def _digest(path: Path) -> str:
    """A short digest that names the model: of its size and first megabyte, since reading all takes long."""
    with path.open("rb") as data:
        head = data.read(1 << 20)
    size = path.stat().st_size
    return blake2b(head + size.to_bytes(8, "little"), digest_size=6).hexdigest()
