"""Graph: an ONNX encoder built from BERT weights in a safetensors file.

Token, position and type embeddings, then per layer  x = LN(x + on_progress(x)),  x = LN(x + W2 gelu(W1 x));
the outcome is the last hidden state, which the embedder pools.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError
from headgate.models.embed import missing


class _Draft:
    """The nodes and weights of a graph as it grows."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:  # noqa: ANN401 - onnx modules
        self._helper, self._numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, name: str, value: npt.NDArray[Any]) -> str:
        """A constant of the graph."""
        self.weights.append(self._numpy.from_array(np.ascontiguousarray(value), name))
        return name

    def apply(self, kind: str, *inputs: str, **attributes: object) -> str:
        """One more node; the name of its outcome."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def build(weights: Path, config: Mapping[str, Any]) -> bytes:
    """The encoder as ONNX bytes."""
    try:
        from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - optional
        from safetensors.numpy import load_file  # noqa: PLC0415 - optional
    except ImportError as error:
        raise missing("onnx and safetensors", "onnx") from error
    if config.get("model_type") != "bert":
        raise ConfigError(
            f"an encoder of type {config.get('model_type')!r} cannot be built from its weights",
            hint="export it to model.onnx",
        )
    tensors = {name.removeprefix("bert."): value for name, value in load_file(weights).items()}
    draft = _Draft(helper, numpy_helper)
    hidden = _layers(draft, tensors, config)
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    )
    shape = ["batch", "length", config["hidden_size"]]
    out = helper.make_tensor_value_info(hidden, TensorProto.FLOAT, shape)
    graph = helper.make_graph(draft.nodes, "encoder", [ids, mask], [out], draft.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def _layers(draft: _Draft, tensors: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    heads, size = config["num_attention_heads"], config["hidden_size"]
    epsilon = float(config.get("layer_norm_eps", 1e-12))

    def norm(x: str, name: str) -> str:
        scale = draft.weight(f"{name}.weight", tensors[f"{name}.weight"])
        bias = draft.weight(f"{name}.bias", tensors[f"{name}.bias"])
        return draft.apply("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def linear(x: str, name: str) -> str:
        matrix = draft.weight(f"{name}.weight", tensors[f"{name}.weight"].T)
        bias = draft.weight(f"{name}.bias", tensors[f"{name}.bias"])
        return draft.apply("Add", draft.apply("MatMul", x, matrix), bias)

    split = draft.weight("split", np.array([0, 0, heads, size // heads], np.int64))
    join = draft.weight("join", np.array([0, 0, size], np.int64))
    scale = draft.weight("scale", np.array((size // heads) ** -0.5, np.float32))

    def part(x: str, name: str, order: list[int]) -> str:
        return draft.apply("Transpose", draft.apply("Reshape", linear(x, name), split), perm=order)

    def on_progress(x: str, name: str, bias: str) -> str:
        q = part(x, f"{name}.self.query", [0, 2, 1, 3])
        k = part(x, f"{name}.self.key", [0, 2, 3, 1])
        v = part(x, f"{name}.self.value", [0, 2, 1, 3])
        scores = draft.apply("Mul", draft.apply("MatMul", q, k), scale)
        shares = draft.apply("Softmax", draft.apply("Add", scores, bias), axis=-1)
        mixed = draft.apply("Transpose", draft.apply("MatMul", shares, v), perm=[0, 2, 1, 3])
        return linear(draft.apply("Reshape", mixed, join), f"{name}.output.dense")

    x, bias = _inputs(draft, tensors)
    x = norm(x, "embeddings.LayerNorm")
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{n}"
        seen = on_progress(x, f"{layer}.attention", bias)
        x = norm(draft.apply("Add", x, seen), f"{layer}.attention.output.LayerNorm")
        wide = draft.apply("Gelu", linear(x, f"{layer}.intermediate.dense"))
        x = norm(
            draft.apply("Add", x, linear(wide, f"{layer}.output.dense")),
            f"{layer}.output.LayerNorm",
        )
    return x


def _inputs(draft: _Draft, tensors: Mapping[str, Any]) -> tuple[str, str]:
    """The sum of the embeddings, and what is added to attention scores so that padding is not seen."""
    word = draft.weight("word", tensors["embeddings.word_embeddings.weight"])
    place = draft.weight("place", tensors["embeddings.position_embeddings.weight"])
    kind = draft.weight("kind", tensors["embeddings.token_type_embeddings.weight"][0])
    zero, one = (draft.weight(f"n{n}", np.array([n], np.int64)) for n in (0, 1))
    length = draft.apply("Gather", draft.apply("Shape", "input_ids"), one, axis=0)
    places = draft.apply("Slice", place, zero, length, zero)
    x = draft.apply("Add", draft.apply("Gather", word, "input_ids", axis=0), places)
    x = draft.apply("Add", x, kind)
    mask = draft.apply("Cast", "attention_mask", to=1)
    axes = draft.weight("axes", np.array([1, 2], np.int64))
    hole = draft.apply("Sub", draft.weight("unit", np.array(1, np.float32)), mask)
    far = draft.weight("far", np.array(-1e9, np.float32))
    return x, draft.apply("Unsqueeze", draft.apply("Mul", hole, far), axes)
